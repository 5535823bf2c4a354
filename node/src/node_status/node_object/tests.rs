//! New Nodes, existing Nodes and status changes.
#![allow(clippy::unwrap_used)]

use super::super::machine::DiskCapacity;
use super::*;

fn config() -> NodeConfig {
    let mut config = NodeConfig::new("n1", "/r");
    config.labels =
        BTreeMap::from([("topology.kubernetes.io/zone".into(), "z1".into()), ("own".into(), "1".into())]);
    config.taints = serde_json::from_value(json!([{"key": "k", "effect": "NoSchedule"}])).unwrap();
    config
}

fn facts() -> NodeInfo {
    let machine = Machine {
        machine_id: "m1".into(),
        system_uuid: "s1".into(),
        boot_id: "b1".into(),
        kernel: "6.1.0".into(),
        os_image: "Debian".into(),
        cpus: 4,
        memory: 1000 << 20,
        huge_pages: BTreeMap::from([(2 << 20, 3), (1 << 30, 0)]),
        root: Some(DiskCapacity { bytes: (1 << 30) + 1024, ..DiskCapacity::default() }),
        ..Machine::default()
    };
    NodeInfo {
        machine,
        address: Some([10, 0, 0, 1].into()),
        port: None,
        conditions: vec![],
        in_use: BTreeSet::new(),
    }
}

#[test]
fn new_node_has_labels_taints_and_status() {
    let node = json!(initial(&config(), &facts()));
    let arch = architecture();
    assert_eq!(
        node["metadata"],
        json!({"name": "n1",
        "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        "labels": {"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": arch,
            "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": arch, "topology.kubernetes.io/zone": "z1", "own": "1"}})
    );
    assert_eq!(node["spec"], json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}));
    let status = &node["status"];
    assert_eq!(
        status["addresses"],
        json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"}])
    );
    assert_eq!(
        status["capacity"],
        json!({"cpu": "4", "memory": "1000Mi", "pods": "110", "ephemeral-storage": "1048577Ki",
        "hugepages-2Mi": "6Mi", "hugepages-1Gi": "0"})
    );
    // The disk has a tenth less; the memory 6 Mi less for huge pages and 100 Mi less for the threshold.
    assert_eq!(
        status["allocatable"],
        json!({"cpu": "4", "memory": "894Mi", "pods": "110", "ephemeral-storage": "966368564",
        "hugepages-2Mi": "6Mi", "hugepages-1Gi": "0"})
    );
    assert_eq!(status["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
    let info = &status["nodeInfo"];
    assert_eq!(
        (&info["machineID"], &info["systemUUID"], &info["bootID"]),
        (&json!("m1"), &json!("s1"), &json!("b1"))
    );
    assert!(info["kubeletVersion"].as_str().unwrap().starts_with("v1.36."), "{info}");
    assert!(info["containerRuntimeVersion"].as_str().unwrap().starts_with("orlop://"), "{info}");
    assert_eq!(status.get("volumesInUse"), None);
}

#[test]
fn existing_node_is_reconciled() {
    let initial = initial(&config(), &facts());
    let mut node = initial.clone();
    node.metadata.uid = Some("u".into());
    node.metadata.resource_version = Some("7".into());
    assert_eq!(reconciled(&node, &initial), None);
    let labels = node.metadata.labels.as_mut().unwrap();
    labels.insert("kubernetes.io/arch".into(), "other".into());
    labels.remove("topology.kubernetes.io/zone");
    // Only set when the Node is created: a user may have removed them since.
    labels.remove("own");
    node.spec.as_mut().unwrap().taints = None;
    let patch = reconciled(&node, &initial).unwrap();
    assert_eq!(
        patch,
        json!({"metadata": {"uid": "u", "resourceVersion": "7",
        "labels": {"kubernetes.io/arch": architecture(), "topology.kubernetes.io/zone": "z1"}}})
    );
    node.metadata.labels.clone_from(&initial.metadata.labels);
    node.metadata.annotations = None;
    let patch = reconciled(&node, &initial).unwrap();
    assert_eq!(
        patch["metadata"]["annotations"],
        json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"})
    );
}

#[test]
fn values_of_other_writers_are_unchanged() {
    let old: NodeStatus = serde_json::from_value(json!({
        "capacity": {"example.com/gpu": "2", "cpu": "1"}, "volumesAttached": [{"name": "v", "devicePath": ""}],
        "volumesInUse": ["old"], "nodeInfo": {"machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
            "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "", "architecture": ""}}))
    .unwrap();
    let new = json!(status(
        &old,
        &config(),
        &NodeInfo { port: Some(10250), in_use: ["b".to_owned(), "a".to_owned()].into(), ..facts() }
    ));
    assert_eq!((&new["capacity"]["example.com/gpu"], &new["capacity"]["cpu"]), (&json!("2"), &json!("4")));
    assert_eq!(new["volumesAttached"][0]["name"], "v");
    assert_eq!(new["volumesInUse"], json!(["a", "b"]));
    assert_eq!(new["daemonEndpoints"]["kubeletEndpoint"]["Port"], 10250);
}

#[test]
fn heartbeat_times_alone_are_no_change() {
    let condition = |type_: &str, status: &str, beat: &str| json!({"type": type_, "status": status, "lastHeartbeatTime": beat});
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z");
    let status = |value: Value| serde_json::from_value::<NodeStatus>(value).unwrap();
    let old = status(json!({"conditions": [condition("A", "True", early), condition("B", "True", early)]}));
    for (name, new, wanted) in [
        (
            "nothing",
            json!({"conditions": [condition("A", "True", early), condition("B", "True", early)]}),
            false,
        ),
        (
            "heartbeats",
            json!({"conditions": [condition("B", "True", late), condition("A", "True", late)]}),
            false,
        ),
        (
            "a value",
            json!({"conditions": [condition("A", "False", late), condition("B", "True", late)]}),
            true,
        ),
        ("one less", json!({"conditions": [condition("A", "True", late)]}), true),
        (
            "a volume",
            json!({"conditions": [condition("A", "True", early), condition("B", "True", early)], "volumesInUse": ["v"]}),
            true,
        ),
    ] {
        assert_eq!(has_changed(&old, &status(new)), wanted, "{name}");
    }
}

#[test]
fn empty_list_of_volumes_in_use_is_written() {
    let node: Node =
        serde_json::from_value(json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "3"}}))
            .unwrap();
    let patch = status_patch(&node, &status(&NodeStatus::default(), &config(), &facts()));
    assert_eq!(patch["metadata"], json!({"uid": "u", "resourceVersion": "3"}));
    assert_eq!(patch["status"].get("volumesInUse"), Some(&Value::Null), "what was there has to go");
}
