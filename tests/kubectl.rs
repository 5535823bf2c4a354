//! The real kubectl: its commands, what they print, and what they say when something is wrong.
//!
//! Whatever kubectl is in the PATH is used, 1.20 or newer. What an old one cannot do is left out, and stderr says so.

use serde_json::json;

use crate::harness::kubectl::Kubectl;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;
use crate::tls::{Secured, file};

const VOLUME: &str = "
apiVersion: v1
kind: PersistentVolume
metadata:
  name: pv3
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce, ReadWriteMany, ReadOnlyMany]
  persistentVolumeReclaimPolicy: Retain
  mountOptions: [hard]
  nfs: {server: 172.16.51.58.1, path: /var/nfsshare/v1}
";

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: myclaim
  namespace: test
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 5Gi}}
";

const MYCLAIM: &str = "/api/v1/namespaces/test/persistentvolumeclaims/myclaim";

/// A plane with `pv3` and `myclaim` bound to each other.
async fn bound() -> (Plane, Kubectl) {
    let plane = Plane::start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    kubectl.apply(VOLUME).await;
    kubectl.apply(CLAIM).await;
    plane.http().until(MYCLAIM, "Bound", |claim| claim["status"]["phase"] == "Bound").await;
    (plane, kubectl)
}

/// The text with `AGE` for every age, which is seconds here, and without spaces at the ends of lines.
fn ageless(text: &str) -> String {
    let is_age = |word: &str| {
        word.strip_suffix('s').is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        for word in text.split_whitespace().filter(|word| is_age(word)) {
            // As wide as the heading, so that what stands behind it does not move.
            line = format!("{line}    ").replace(&format!(" {word:<3} "), " AGE ");
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

#[test]
fn ages_are_not_compared() {
    assert_eq!(ageless("A   AGE   B\nx   5s    y\nz   12s   y\n"), "A   AGE   B\nx   AGE   y\nz   AGE   y");
    assert_eq!(ageless("A   AGE\nx   5s\ny   125s"), "A   AGE\nx   AGE\ny   AGE");
}

#[tokio::test]
async fn columns() {
    let (_plane, kubectl) = bound().await;
    kubectl
        .apply(
            "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: slow
  annotations: {storageclass.kubernetes.io/is-default-class: 'true'}
provisioner: example.com/none
",
        )
        .await;
    let cases: [(&[&str], &str); 5] = [
        (
            &["get", "pv,pvc", "-n", "test"],
            "\
NAME                   CAPACITY   ACCESS MODES   RECLAIM POLICY   STATUS   CLAIM          STORAGECLASS   VOLUMEATTRIBUTESCLASS   REASON   AGE
persistentvolume/pv3   5Gi        RWO,ROX,RWX    Retain           Bound    test/myclaim                  <unset>                          AGE

NAME                            STATUS   VOLUME   CAPACITY   ACCESS MODES   STORAGECLASS   VOLUMEATTRIBUTESCLASS   AGE
persistentvolumeclaim/myclaim   Bound    pv3      5Gi        RWO,ROX,RWX                   <unset>                 AGE",
        ),
        (
            &["get", "pv", "-o", "wide"],
            "\
NAME   CAPACITY   ACCESS MODES   RECLAIM POLICY   STATUS   CLAIM          STORAGECLASS   VOLUMEATTRIBUTESCLASS   REASON   AGE   VOLUMEMODE
pv3    5Gi        RWO,ROX,RWX    Retain           Bound    test/myclaim                  <unset>                          AGE   Filesystem",
        ),
        (
            &["get", "pvc", "-A", "-o", "wide"],
            "\
NAMESPACE   NAME      STATUS   VOLUME   CAPACITY   ACCESS MODES   STORAGECLASS   VOLUMEATTRIBUTESCLASS   AGE   VOLUMEMODE
test        myclaim   Bound    pv3      5Gi        RWO,ROX,RWX                   <unset>                 AGE   Filesystem",
        ),
        (
            &["get", "sc"],
            "\
NAME             PROVISIONER        RECLAIMPOLICY   VOLUMEBINDINGMODE   ALLOWVOLUMEEXPANSION   AGE
slow (default)   example.com/none   Delete          Immediate           false                  AGE",
        ),
        (&["get", "pvc", "-n", "test", "-o", "name"], "persistentvolumeclaim/myclaim"),
    ];
    for (args, wanted) in cases {
        let out = kubectl.run(args).await.ok();
        assert_eq!(ageless(&out), wanted, "{args:?}");
    }
}

#[tokio::test]
async fn get_prints_what_can_be_applied() {
    let (plane, kubectl) = bound().await;
    let yaml = kubectl.run(&["get", "pvc", "myclaim", "-n", "test", "-o", "yaml"]).await.ok();
    for part in
        ["apiVersion: v1\n", "kind: PersistentVolumeClaim\n", "  volumeName: pv3\n", "  phase: Bound\n"]
    {
        assert!(yaml.contains(part), "{part}: {yaml}");
    }
    let before = plane.http().get(MYCLAIM).await.expect(200);
    let said = kubectl.run_with(&["replace", "-f", "-"], &yaml).await.ok();
    assert_eq!(said, "persistentvolumeclaim/myclaim replaced\n");
    let after = plane.http().get(MYCLAIM).await.expect(200);
    assert_eq!((&after["spec"], &after["status"]), (&before["spec"], &before["status"]));
    let path = "jsonpath={.items[*].spec.claimRef.name}";
    assert_eq!(kubectl.run(&["get", "pv", "-o", path]).await.ok(), "myclaim");
    let json = kubectl.run(&["get", "pvc", "-A", "-o", "json"]).await.ok();
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["items"][0]["kind"], "PersistentVolumeClaim");
}

#[tokio::test]
async fn apply_creates_changes_and_leaves_alone() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    assert_eq!(kubectl.apply(VOLUME).await, "persistentvolume/pv3 created\n");
    let first = http.get("/api/v1/persistentvolumes/pv3").await.expect(200);
    assert_eq!(kubectl.apply(VOLUME).await, "persistentvolume/pv3 unchanged\n");
    assert_eq!(http.get("/api/v1/persistentvolumes/pv3").await.expect(200), first);
    // What is no longer in the file goes, what others wrote stays.
    kubectl.run(&["label", "pv", "pv3", "by=hand"]).await.ok();
    let changed = VOLUME.replace("  mountOptions: [hard]\n", "").replace("5Gi", "6Gi");
    assert_eq!(kubectl.apply(&changed).await, "persistentvolume/pv3 configured\n");
    let volume = http.get("/api/v1/persistentvolumes/pv3").await.expect(200);
    assert_eq!(volume["spec"]["capacity"]["storage"], "6Gi");
    assert!(volume["spec"]["mountOptions"].is_null(), "{volume:#}");
    assert_eq!(volume["metadata"]["labels"], json!({"by": "hand"}));
    let said = kubectl.run_with(&["diff", "-f", "-"], &changed).await;
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "no difference: {}", said.err);
    let said = kubectl.run_with(&["diff", "-f", "-"], VOLUME).await;
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.out.contains("\n-    storage: 6Gi\n+    storage: 5Gi\n"), "{}", said.out);
    let said = kubectl.run_with(&["apply", "--dry-run=server", "-f", "-"], VOLUME).await.ok();
    assert_eq!(said, "persistentvolume/pv3 configured (server dry run)\n");
    assert_eq!(http.get("/api/v1/persistentvolumes/pv3").await.expect(200), volume);
}

#[tokio::test]
async fn apply_on_the_server() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    if !kubectl.can("kubectl apply --server-side, out of beta", 22).await {
        return;
    }
    const PATH: &str = "/api/v1/persistentvolumes/pv3";
    let apply = ["apply", "--server-side", "-f", "-"];
    for _ in 0..2 {
        let said = kubectl.run_with(&apply, VOLUME).await.ok();
        assert_eq!(said, "persistentvolume/pv3 serverside-applied\n");
    }
    let owned = kubectl.run(&["get", "pv", "pv3", "--show-managed-fields", "-o", "yaml"]).await.ok();
    assert!(owned.contains("manager: kubectl\n") && owned.contains("operation: Apply\n"), "{owned}");
    // What somebody else has set is a conflict, and nothing is changed, unless it is forced.
    let other = [&apply[..], &["--field-manager", "other"]].concat();
    let larger = VOLUME.replace("5Gi", "7Gi");
    let before = http.get(PATH).await.expect(200);
    let said = kubectl.run_with(&other, &larger).await.refused();
    assert!(said.contains("conflict with \"kubectl\": .spec.capacity.storage"), "{said}");
    assert_eq!(http.get(PATH).await.expect(200), before);
    kubectl.run_with(&[&other[..], &["--force-conflicts"]].concat(), &larger).await.ok();
    // What is no longer asked for goes, unless somebody else asks for it too.
    let fewer = VOLUME.replace("  mountOptions: [hard]\n", "").replace("  capacity: {storage: 5Gi}\n", "");
    kubectl.run_with(&apply, &fewer).await.ok();
    let volume = http.get(PATH).await.expect(200);
    assert_eq!(volume["spec"]["capacity"]["storage"], "7Gi", "{volume:#}");
    assert_eq!(volume["spec"]["mountOptions"], json!(["hard"]), "the other one asks for it: {volume:#}");
    let said = kubectl.run_with(&[&apply[..], &["--dry-run=server"]].concat(), &fewer).await.ok();
    assert_eq!(said, "persistentvolume/pv3 serverside-applied (server dry run)\n");
    assert_eq!(http.get(PATH).await.expect(200), volume);
}

#[tokio::test]
async fn edit() {
    let (plane, kubectl) = bound().await;
    let args = ["pv", "pv3"];
    let said = kubectl.edit(&args, "sed -i 's/Policy: Retain/Policy: Delete/' \"$1\"\n").await.ok();
    assert_eq!(said, "persistentvolume/pv3 edited\n");
    let volume = plane.http().get("/api/v1/persistentvolumes/pv3").await.expect(200);
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    let said = kubectl.edit(&args, "true\n").await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("no changes made"), "{}{}", said.out, said.err);
    // What the server refuses is shown in the editor again; the person gives up.
    let script = "
if grep 'was not valid' \"$1\"; then cp \"$1\" $HOME/shown; exit 1; fi
sed -i 's/Policy: Delete/Policy: Keep/' \"$1\"
";
    let said = kubectl.edit(&args, script).await.refused();
    assert!(said.contains("persistentvolumes \"pv3\" is invalid"), "{said}");
    let shown = std::fs::read_to_string(plane.dir().join("shown")).unwrap();
    let why = "# * spec.persistentVolumeReclaimPolicy: Unsupported value: \"Keep\": supported values: ";
    assert!(shown.contains(why), "{shown}");
}

#[tokio::test]
async fn patch_label_annotate() {
    let (plane, kubectl) = bound().await;
    let patches = [
        ("merge", r#"{"spec": {"persistentVolumeReclaimPolicy": "Delete"}}"#),
        (
            "strategic",
            r#"{"metadata": {"finalizers": ["example.com/keep"]}, "spec": {"mountOptions": ["soft"]}}"#,
        ),
        ("json", r#"[{"op": "add", "path": "/spec/mountOptions/-", "value": "ro"}]"#),
    ];
    for (kind, patch) in patches {
        let said = kubectl.run(&["patch", "pv", "pv3", "--type", kind, "-p", patch]).await.ok();
        assert_eq!(said, "persistentvolume/pv3 patched\n", "{kind}");
    }
    let said = kubectl.run(&["patch", "pv", "pv3", "-p", r#"{"metadata": {"labels": null}}"#]).await.ok();
    assert_eq!(said, "persistentvolume/pv3 patched (no change)\n");
    let said = kubectl.run(&["label", "pv", "pv3", "tier=gold", "old=yes"]).await.ok();
    assert_eq!(said, "persistentvolume/pv3 labeled\n");
    kubectl.run(&["label", "pv", "pv3", "old-"]).await.ok();
    kubectl.run(&["annotate", "pv", "pv3", "example.com/note=a note"]).await.ok();
    let volume = plane.http().get("/api/v1/persistentvolumes/pv3").await.expect(200);
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(volume["spec"]["mountOptions"], json!(["soft", "ro"]));
    // Finalizers are a set: a strategic patch adds to them.
    let finalizers = volume["metadata"]["finalizers"].as_array().unwrap();
    assert!(finalizers.contains(&json!("kubernetes.io/pv-protection")), "{finalizers:?}");
    assert!(finalizers.contains(&json!("example.com/keep")), "{finalizers:?}");
    assert_eq!(volume["metadata"]["labels"], json!({"tier": "gold"}));
    assert_eq!(volume["metadata"]["annotations"]["example.com/note"], "a note");
    for (selector, found) in
        [("tier=gold", true), ("tier in (gold)", true), ("tier!=gold", false), ("!tier", false)]
    {
        let out = kubectl.run(&["get", "pv", "-l", selector, "-o", "name"]).await.ok();
        assert_eq!(out.contains("pv3"), found, "{selector}: {out}");
    }
    for (selector, found) in [("metadata.name=pv3", true), ("metadata.name!=pv3", false)] {
        let out = kubectl.run(&["get", "pv", "--field-selector", selector, "-o", "name"]).await.ok();
        assert_eq!(out.contains("pv3"), found, "{selector}: {out}");
    }
}

#[tokio::test]
async fn describe_and_events() {
    let (plane, kubectl) = bound().await;
    let out = kubectl.run(&["describe", "pvc", "-n", "test", "myclaim"]).await.ok();
    for line in
        ["Status:        Bound", "Volume:        pv3", "Capacity:      5Gi", "Access Modes:  RWO,ROX,RWX"]
    {
        assert!(out.contains(&format!("{line}\n")), "{line}:\n{out}");
    }
    let out = kubectl.run(&["describe", "pv", "pv3"]).await.ok();
    for line in
        ["Claim:           test/myclaim", "    Server:    172.16.51.58.1", "    Path:      /var/nfsshare/v1"]
    {
        assert!(out.contains(&format!("{line}\n")), "{line}:\n{out}");
    }
    // A claim that nobody can serve says why; the event is written a little after the state.
    kubectl.apply(&CLAIM.replace("myclaim", "hopeless")).await;
    let why = "no persistent volumes available for this claim and no storage class is set";
    let mut commands: Vec<&[&str]> =
        vec![&["describe", "pvc", "-n", "test", "hopeless"], &["get", "events", "-A"]];
    if kubectl.can("kubectl events", 26).await {
        commands.push(&["events", "-n", "test", "--for", "pvc/hopeless"]);
    }
    for args in commands {
        wait::until(&format!("kubectl {args:?} tells why"), async || {
            let out = kubectl.run(args).await.ok();
            let tells = |line: &str| line.contains("FailedBinding") && line.ends_with(why);
            if out.lines().any(|line| tells(line.trim_end())) { Ok(()) } else { Err(out) }
        })
        .await;
    }
    drop(plane);
}

#[tokio::test]
async fn get_watches() {
    let plane = Plane::start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    kubectl.apply(CLAIM).await;
    let watch = kubectl.start("watch", &["get", "pvc", "-n", "test", "-w"]);
    watch.says(|said| said.contains("Pending")).await;
    kubectl.apply(VOLUME).await;
    let said = watch.says(|said| said.lines().any(|line| line.starts_with("myclaim   Bound"))).await;
    assert_eq!(said.matches("NAME").count(), 1, "one heading:\n{said}");
    let columns = watch.said().lines().next().unwrap().split_whitespace().count();
    assert!(columns > 6, "{said}");
}

#[tokio::test]
async fn wait_for_states_and_ends() {
    let plane = Plane::start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    kubectl.apply(CLAIM).await;
    let claim = "pvc/myclaim";
    if kubectl.can("kubectl wait --for=jsonpath", 23).await {
        let state = "--for=jsonpath={.status.phase}=Bound";
        let mut waits = kubectl.start("wait", &["wait", "-n", "test", state, claim, "--timeout=60s"]);
        assert!(waits.runs(), "{}", waits.said());
        kubectl.apply(VOLUME).await;
        assert_eq!(waits.ok().await, "persistentvolumeclaim/myclaim condition met\n");
        let said = kubectl.run(&["wait", "-n", "test", state, claim, "--timeout=60s"]).await.ok();
        assert_eq!(said, "persistentvolumeclaim/myclaim condition met\n", "met before");
        let never = "--for=jsonpath={.status.phase}=Lost";
        let said = kubectl.run(&["wait", "-n", "test", never, claim, "--timeout=1s"]).await.refused();
        assert!(said.contains("timed out waiting for the condition"), "{said}");
    }
    let gone = kubectl.start("gone", &["wait", "-n", "test", "--for=delete", claim, "--timeout=60s"]);
    kubectl.run(&["delete", "pvc", "-n", "test", "myclaim"]).await.ok();
    gone.ok().await;
}

#[tokio::test]
async fn delete_waits() {
    let (plane, kubectl) = bound().await;
    let http = plane.http();
    let mut delete = kubectl.start("delete", &["delete", "pv", "pv3"]);
    http.until("/api/v1/persistentvolumes/pv3", "Terminating", |volume| {
        volume["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    delete.says(|said| said.contains("persistentvolume \"pv3\" deleted")).await;
    assert!(delete.runs(), "it waits for the claim: {}", delete.said());
    let out = kubectl.run(&["get", "pv", "pv3", "--no-headers"]).await.ok();
    assert!(out.contains(" Terminating "), "{out}");
    kubectl.run(&["delete", "pvc", "-n", "test", "--all"]).await.ok();
    delete.ok().await;
    assert_eq!(http.get("/api/v1/persistentvolumes/pv3").await.code, 404);
    // A namespace takes along what is in it.
    kubectl.apply(CLAIM).await;
    kubectl.run(&["create", "configmap", "-n", "test", "c", "--from-literal=a=b"]).await.ok();
    let said = kubectl.run(&["delete", "ns", "test"]).await.ok();
    assert!(said.contains("namespace \"test\" deleted"), "{said}");
    assert_eq!(http.get("/api/v1/namespaces/test").await.code, 404);
    assert_eq!(http.get(MYCLAIM).await.code, 404);
    let said = kubectl.run(&["delete", "pv", "pv3"]).await.refused();
    assert_eq!(said, "Error from server (NotFound): persistentvolumes \"pv3\" not found\n");
    kubectl.run(&["delete", "pv", "pv3", "--ignore-not-found"]).await.ok();
}

#[tokio::test]
async fn explain_and_discovery() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let kubectl = plane.kubectl();
    let out = kubectl.run(&["explain", "pv.spec.nfs"]).await.ok();
    for part in ["FIELD", "server\t<string> -required-", "path that is exported by the NFS server"] {
        assert!(out.contains(part), "{part}:\n{out}");
    }
    let out = kubectl.run(&["explain", "pvc", "--recursive"]).await.ok();
    assert!(out.contains("storageClassName\t<string>"), "{out}");
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
    let out = kubectl.run(&["api-versions"]).await.ok();
    let versions: Vec<&str> = out.lines().collect();
    assert!(versions.contains(&"v1") && versions.contains(&"storage.k8s.io/v1"), "{out}");
    let out = kubectl.run(&["version"]).await.ok();
    assert!(out.contains("v1.36."), "{out}");
    let out = kubectl.run(&["get", "--raw", "/readyz?verbose"]).await.ok();
    assert!(out.ends_with("readyz check passed\n"), "{out}");
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let (_plane, kubectl) = bound().await;
    let said = kubectl.run(&["get", "pv", "nobody"]).await.refused();
    assert_eq!(said, "Error from server (NotFound): persistentvolumes \"nobody\" not found\n");
    let said = kubectl.run(&["get", "nothing"]).await.refused();
    assert!(said.contains("the server doesn't have a resource type \"nothing\""), "{said}");
    let said = kubectl.run_with(&["create", "-f", "-"], VOLUME).await.refused();
    assert!(
        said.contains("(AlreadyExists)") && said.contains("persistentvolumes \"pv3\" already exists"),
        "{said}"
    );
    let said = kubectl.run_with(&["create", "-f", "-"], &CLAIM.replace("test", "nowhere")).await.refused();
    assert!(said.contains("(NotFound)") && said.contains("namespaces \"nowhere\" not found"), "{said}");
    let unknown = VOLUME.replace("pv3", "pv4").replace("path:", "pfad: x, path:");
    let said = kubectl.run_with(&["create", "-f", "-"], &unknown).await.refused();
    assert!(said.contains("unknown field") && said.contains("pfad"), "{said}");
    let wrong = VOLUME.replace("pv3", "pv4").replace("5Gi", "-5Gi").replace("ReadWriteMany", "Sometimes");
    let said = kubectl.run_with(&["create", "-f", "-"], &wrong).await.refused();
    assert!(said.contains("The PersistentVolume \"pv4\" is invalid"), "{said}");
    for field in ["spec.capacity[storage]", "spec.accessModes"] {
        assert!(said.contains(&format!("* {field}: ")), "every error at once, {field}: {said}");
    }
    // What may not be changed is said with its reason.
    let patch = r#"{"spec": {"nfs": {"path": "/other"}}}"#;
    let said = kubectl.run(&["patch", "pv", "pv3", "-p", patch]).await.refused();
    assert!(said.contains("spec.persistentvolumesource: Forbidden: "), "{said}");
    let old = r#"{"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}"#;
    let said = kubectl.run(&["patch", "pv", "pv3", "-p", old]).await.refused();
    assert!(said.contains("(Conflict)") && said.contains("the object has been modified"), "{said}");
}

#[tokio::test]
async fn who_may_not_is_told() {
    let server = Secured::start().await;
    let ca = file("ca.crt").display().to_string();
    let kubectl = Kubectl::new(&server.url, server.dir.path());
    let with = |token: &'static str| {
        ["--certificate-authority", &ca, "--token", token, "get", "pv"].map(str::to_owned)
    };
    let run = async |args: &[String]| kubectl.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(run(&with("hush")).await.err, "No resources found\n");
    let said = run(&with("guess")).await.refused();
    assert_eq!(
        said.lines().last(),
        Some("error: You must be logged in to the server (Unauthorized)"),
        "{said}"
    );
    let said = kubectl.run(&["get", "pv", "--token", "hush"]).await.refused();
    assert!(said.contains("certificate"), "whom it does not know it does not talk to: {said}");
}
