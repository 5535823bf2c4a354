//! Commands that show information: `describe`, `events`, `explain`, discovery, versions.

use super::{CLAIM, CLASS, NODE, POD, Row, bound, row, run};
use crate::harness::plane::Plane;
use crate::harness::wait;

const SECRET: &str = "
apiVersion: v1
kind: Secret
metadata: {name: pass, namespace: test}
stringData: {word: hushed}
";

/// On a control plane with a bound claim, a pod that uses it, its node, a class and a secret.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row("describe", &["describe", "pvc", "-n", "test", "myclaim"]).tells(&[
            "Status:        Bound\n",
            "Volume:        pv3\n",
            "Capacity:      5Gi\n",
            "Access Modes:  RWO,ROX,RWX\n",
            "Used By:       web\n",
        ]),
        row("describe", &["describe", "pv", "pv3"]).tells(&[
            "Finalizers:      [kubernetes.io/pv-protection]\n",
            "Claim:           test/myclaim\n",
            "    Server:    172.16.51.58.1\n",
            "    Path:      /var/nfsshare/v1\n",
            "Events:        ",
        ]),
        row("describe", &["describe", "sc", "slow"]).tells(&[
            "IsDefaultClass:  Yes\n",
            "Provisioner:           example.com/none\n",
            "VolumeBindingMode:     Immediate\n",
        ]),
        row("describe", &["describe", "pod", "web", "-n", "test"]).tells(&[
            "Node:             n1/\n",
            "    Image:        nginx\n",
            "      /data from data (rw)\n",
            "    ClaimName:  myclaim\n",
            "QoS Class:         BestEffort\n",
        ]),
        row("describe", &["describe", "node", "n1"]).tells(&[
            "Unschedulable:      false\n",
            "Non-terminated Pods:          (1 in total)\n",
            "  test                        web ",
            "Allocated resources:\n",
        ]),
        row("describe", &["describe", "ns", "test"]).tells(&["Status:       Active\n"]),
        row("describe", &["describe", "secret", "pass", "-n", "test"]).tells(&["Type:  Opaque\n", "word:  6 bytes\n"]),
        row("describe", &["describe", "pv", "absent"])
            .refuses(&["Error from server (NotFound): persistentvolumes \"absent\" not found"]),
        row("explain", &["explain", "pv.spec.nfs"])
            .tells(&["FIELD", "server\t<string> -required-", "path that is exported by the NFS server"]),
        row("explain", &["explain", "sc", "--api-version=storage.k8s.io/v1"]).tells(&["volumeBindingMode"]),
        row("explain", &["explain", "pvc.spec.nothing"]).refuses(&["field \"nothing\" does not exist"]),
        row("explain --recursive", &["explain", "pvc", "--recursive"]).tells(&["storageClassName\t<string>", "matchExpressions"]),
        row("api-resources", &["api-resources", "--no-headers"]).tells(&["persistentvolumes", "storage.k8s.io/v1"]),
        row("api-resources", &["api-resources", "--namespaced=false", "--verbs=list", "-o", "name", "--api-group=storage.k8s.io"])
            .says("csidrivers.storage.k8s.io\ncsinodes.storage.k8s.io\nstorageclasses.storage.k8s.io\nvolumeattachments.storage.k8s.io\nvolumeattributesclasses.storage.k8s.io"),
        row("api-resources", &["api-resources", "--categories=all", "-o", "name"]).since(26).tells(&["pods"]),
        row("api-resources", &["api-resources", "-o", "wide", "--sort-by=name", "--no-headers"])
            .since(26)
            .tells(&["create,delete,deletecollection,get,list,patch,update,watch"]),
        row("api-versions", &["api-versions"]).tells(&["coordination.k8s.io/v1\n", "storage.k8s.io/v1\n", "v1\n"]),
        row("get", &["get", "componentstatuses", "etcd-0", "--no-headers"]).tells(&["etcd-0", "Healthy", "ok"]),
        row("version", &["version"]).tells(&["v1.36."]),
        row("version", &["version", "-o", "yaml"]).tells(&["serverVersion:\n", "  gitVersion: v1.36.", "  minor: \"36\"\n"]),
    ]
}

#[tokio::test]
async fn describe_explain_and_discovery_print_details() {
    let (plane, kubectl) = bound().await;
    for yaml in [CLASS, NODE, POD, SECRET] {
        kubectl.apply(yaml).await;
    }
    run(&kubectl, &rows()).await;
    let out = kubectl.run(&["api-resources", "--no-headers"]).await.ok();
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        &["persistentvolumes", "pv", "v1", "false", "PersistentVolume"],
        &["persistentvolumeclaims", "pvc", "v1", "true", "PersistentVolumeClaim"],
        &["storageclasses", "sc", "storage.k8s.io/v1", "false", "StorageClass"],
        &["volumeattributesclasses", "vac", "storage.k8s.io/v1", "false", "VolumeAttributesClass"],
    ] {
        assert!(rows.contains(&row.to_vec()), "{row:?} in\n{out}");
    }
    drop(plane);
}

/// The event gives the reason that a claim cannot be bound; it is written shortly after the status.
#[tokio::test]
async fn events_explain_a_pending_claim() {
    let plane = Plane::start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    kubectl.apply(&CLAIM.replace("myclaim", "hopeless")).await;
    let why = "no persistent volumes available for this claim and no storage class is set";
    let mut commands: Vec<&[&str]> =
        vec![&["describe", "pvc", "-n", "test", "hopeless"], &["get", "events", "-A"]];
    if kubectl.can("kubectl events", 26).await {
        commands.push(&["events", "-n", "test", "--for", "pvc/hopeless"]);
        commands.push(&["events", "-A", "--types=Normal"]);
    }
    for args in commands {
        wait::until(&format!("kubectl {args:?} tells why"), async || {
            let out = kubectl.run(args).await.ok();
            let tells = |line: &str| line.contains("FailedBinding") && line.ends_with(why);
            if out.lines().any(|line| tells(line.trim_end())) { Ok(()) } else { Err(out) }
        })
        .await;
    }
    if kubectl.can("kubectl events --watch", 26).await {
        let watch = kubectl.start("events", &["events", "-n", "test", "--watch"]);
        watch.says(|said| said.contains("FailedBinding")).await;
    }
}
