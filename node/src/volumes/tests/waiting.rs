//! Tests of the messages about waiting pods, and of what ends the wait.

use std::sync::Arc;

use serde_json::json;

use super::fixture::{Bench, claim, pod, pod_json, volume};
use crate::volumes::PodVolumes;

#[tokio::test(start_paused = true)]
async fn unbound_claim_is_reported_until_it_is_bound() {
    let bench = Bench::new();
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &["a", "+x"]));
    bench.settle().await;
    let lists = "unmounted volumes=[a], unattached volumes=[], failed to process volumes=[a]: ";
    let missing = "error processing PVC ns/a: failed to fetch PVC from API server: persistentvolumeclaims \"a\" not found";
    assert_eq!(agent.waits("u"), format!("{lists}{missing}"));
    let mut unbound = claim("a");
    unbound["status"] = json!({"phase": "Pending"});
    bench.api.seed(unbound);
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    assert_eq!(
        agent.waits("u"),
        format!("{lists}error processing PVC ns/a: PVC is not bound"),
        "the watch has reported it"
    );
    bench.api.seed(volume("a", "ReadWriteOnce", "d"));
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    bench.api.patch("persistentvolumeclaims", "ns/a", "status", bound);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(agent.is_ready("u"));
    // A mounted volume stays mounted without its claim.
    bench.api.delete("persistentvolumeclaims", "ns/a");
    bench.api.delete("persistentvolumes", "pv-a");
    bench.rest().await;
    assert!(agent.is_ready("u"));
    agent.volumes.release("u");
    bench.settle().await;
    assert_eq!(agent.state("u"), PodVolumes::Released);
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn node_affinity_and_mount_options_can_refuse_a_volume() {
    let bench = Bench::new();
    let mut far = volume("far", "ReadWriteOnce", "d");
    let term = |zone: &str| json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}});
    far["spec"]["nodeAffinity"] = term("b");
    bench.api.seed(far);
    bench.api.seed(claim("far"));
    let mut near = volume("near", "ReadWriteOnce", "d");
    near["spec"]["nodeAffinity"] = term("a");
    bench.api.seed(near);
    bench.api.seed(claim("near"));
    let mut options = volume("options", "ReadWriteOnce", "d");
    options["spec"]["mountOptions"] = json!(["noatime"]);
    bench.api.seed(options);
    bench.api.seed(claim("options"));
    let agent = bench.agent().await;
    for (name, uid) in [("far", "u1"), ("near", "u2"), ("options", "u3")] {
        agent.volumes.want(pod(name, uid, &[name]));
    }
    bench.settle().await;
    assert!(agent.is_ready("u2"));
    let why = "MountVolume.NodeAffinity check failed for volume \"pv-far\" : no matching NodeSelectorTerms";
    assert!(agent.waits("u1").contains(why));
    assert!(
        agent
            .waits("u3")
            .contains("Mount options are not supported for this volume type for volume \"pv-options\"")
    );
    assert!(bench.events("FailedMount").iter().any(|event| event.ends_with(why)));
    bench.api.patch("nodes", "n", "", json!({"metadata": {"labels": {"zone": "b"}}}));
    super::fixture::tell(&bench.api, &agent.volumes);
    bench.rest().await;
    assert!(agent.is_ready("u1"), "the node has moved");
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn block_mode_and_read_only_claims_are_honored() {
    let bench = Bench::new();
    let mut device = volume("a", "ReadWriteOnce", "d");
    device["spec"]["volumeMode"] = json!("Block");
    bench.api.seed(device);
    bench.api.seed(claim("a"));
    bench.disk("b", "ReadWriteOnce", "d");
    let mut value = pod_json("p", "u", &["a", "b"]);
    value["spec"]["volumes"][1]["persistentVolumeClaim"]["readOnly"] = json!(true);
    let agent = bench.agent().await;
    agent.volumes.want(Arc::new(serde_json::from_value(value.clone()).unwrap()));
    bench.settle().await;
    assert!(agent.waits("u").ends_with(": volume a has volumeMode Block, but is specified in volumeMounts"));
    value["metadata"]["uid"] = json!("u2");
    value["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "b", "mountPath": "/b"}]);
    value["spec"]["containers"][0]["volumeDevices"] = json!([{"name": "a", "devicePath": "/dev/a"}]);
    agent.volumes.release("u");
    agent.volumes.want(Arc::new(serde_json::from_value(value).unwrap()));
    bench.settle().await;
    let PodVolumes::Ready(paths) = agent.state("u2") else { panic!("{}", agent.waits("u2")) };
    let shown: Vec<_> = paths.iter().map(|path| (path.volume.as_str(), path.block, path.read_only)).collect();
    assert_eq!(shown, [("a", true, false), ("b", false, true)]);
    assert!(
        bench.events("SuccessfulMountVolume")[0]
            .contains("MapVolume.MapPodDevice succeeded for volume \"pv-a\" volumeMapPath ")
    );
}

#[tokio::test(start_paused = true)]
async fn attach_error_is_read_from_the_volume_attachment() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "real");
    let agent = bench.quiet_agent().await;
    super::fixture::tell(&bench.api, &agent.volumes);
    agent.volumes.want(pod("p", "u", &["a"]));
    bench.settle().await;
    assert_eq!(agent.in_use(), ["kubernetes.io/csi/real^a"]);
    assert!(agent.waits("u").ends_with(": volume \"pv-a\" is not attached yet"));
    let name = crate::volumes::attach_error::name_of("kubernetes.io/csi/real^a", "n").unwrap();
    bench.api.create(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"attacher": "real", "nodeName": "n", "source": {"persistentVolumeName": "pv-a"}}}),
    );
    let error = |code: i32| json!({"status": {"attached": false, "attachError": {"message": "full", "errorCode": code}}});
    bench.api.patch("volumeattachments", &name, "status", error(13));
    bench.settle().await;
    assert!(agent.waits("u").ends_with(": AttachVolume.Attach failed for volume \"pv-a\" : full"));
    bench.api.patch("volumeattachments", &name, "status", error(8));
    bench.settle().await;
    let PodVolumes::Waiting(waiting) = agent.state("u") else { panic!("it waits") };
    assert_eq!(waiting.limit.as_deref(), Some("full"));
    bench.register(&agent);
    bench.settle().await;
    assert!(agent.is_ready("u"));
    bench.nothing_wrong();
}
