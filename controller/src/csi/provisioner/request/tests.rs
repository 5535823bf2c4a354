//! Requests to the driver, and the reasons for refusals.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::testing::merge_into;

fn claim(more: Value) -> PersistentVolumeClaim {
    let mut claim = json!({"metadata": {"namespace": "ns", "name": "a", "uid": "1", "annotations": {"team": "blue"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.5Ki"}}}});
    merge_into(&mut claim, &more);
    serde_json::from_value(claim).unwrap()
}

fn class(more: Value) -> StorageClass {
    let mut class = json!({"metadata": {"name": "c", "uid": "c-1"}, "provisioner": "d", "reclaimPolicy": "Retain",
        "mountOptions": ["ro"]});
    merge_into(&mut class, &more);
    serde_json::from_value(class).unwrap()
}

fn able() -> Capabilities {
    Capabilities::of(&[Rpc::CreateDeleteVolume], &[])
}

fn wish<'a>(claim: &'a PersistentVolumeClaim, class: &'a StorageClass, can: &'a Capabilities) -> Wish<'a> {
    Wish { claim, class, driver: "d", can, attributes: None, extra_metadata: false, default_fs_type: "" }
}

fn refusal(claim: &PersistentVolumeClaim, class: &StorageClass, can: &Capabilities) -> String {
    let wish = wish(claim, class, can);
    let all = wish.check().and_then(|_| wish.intent(None, None));
    all.expect_err("it is refused").to_string()
}

#[test]
fn request_carries_the_fields_of_claim_and_class() {
    let (claim, can) = (claim(json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}})), able());
    let class = class(json!({"parameters": {"kind": "fast", "csi.storage.k8s.io/fstype": "xfs"}}));
    let intent = wish(&claim, &class, &can).intent(None, None).unwrap();
    let request = intent.request([("key".to_owned(), "hush".to_owned())].into());
    assert_eq!((request.name.as_str(), request.capacity_range.unwrap().required_bytes), ("pvc-1", 1536));
    assert_eq!(request.parameters, [("kind".to_owned(), "fast".to_owned())].into());
    assert_eq!(request.secrets.len(), 1);
    assert_eq!(request.volume_capabilities.len(), 2, "one for each access mode");
    let modes: Vec<i32> =
        request.volume_capabilities.iter().map(|one| one.access_mode.unwrap().mode).collect();
    assert_eq!(modes, [Mode::SingleNodeWriter as i32, Mode::MultiNodeReaderOnly as i32]);
    let Some(orlop_csi::v1::volume_capability::AccessType::Mount(mount)) =
        &request.volume_capabilities[0].access_type
    else {
        panic!("files")
    };
    assert_eq!((mount.fs_type.as_str(), mount.mount_flags.as_slice()), ("xfs", ["ro".to_owned()].as_slice()));
    let text = serde_json::to_string(&intent).unwrap();
    assert_eq!(serde_json::from_str::<Intent>(&text).unwrap(), intent, "the note says all of it");
}

#[test]
fn extra_metadata_is_sent_only_with_its_option() {
    let (claim, class, can) = (claim(json!({})), class(json!({})), able());
    let with = Wish { extra_metadata: true, ..wish(&claim, &class, &can) };
    let parameters = with.intent(None, None).unwrap().parameters;
    let sent: Vec<(&str, &str)> =
        parameters.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        sent,
        [
            ("csi.storage.k8s.io/pv/name", "pvc-1"),
            ("csi.storage.k8s.io/pvc/name", "a"),
            ("csi.storage.k8s.io/pvc/namespace", "ns")
        ]
    );
}

#[test]
fn file_system_type_comes_from_class_or_default() {
    let (files, can) = (claim(json!({})), able());
    let fs = |claim: &PersistentVolumeClaim, parameters: Value, default| {
        let class = class(json!({"parameters": parameters}));
        let wish = Wish { default_fs_type: default, ..wish(claim, &class, &can) };
        wish.intent(None, None).unwrap().fs_type
    };
    assert_eq!(fs(&files, json!({"fsType": "ext4"}), "xfs"), "ext4", "the old key, in any case");
    assert_eq!(fs(&files, json!({}), "xfs"), "xfs");
    assert_eq!(fs(&files, json!({"csi.storage.k8s.io/fstype": ""}), "xfs"), "xfs");
    assert_eq!(fs(&claim(json!({"spec": {"volumeMode": "Block"}})), json!({"fsType": "ext4"}), "xfs"), "");
}

#[test]
fn invalid_requests_are_refused() {
    let source = |kind: &str, group: Value| json!({"spec": {"dataSource": {"apiGroup": group, "kind": kind, "name": "s"}}});
    let parameters = |key: &str| json!({"parameters": {key: "x"}});
    for (name, more, class_more, can, wanted) in [
        ("no controller", json!({}), json!({}), Capabilities::default(), "plugin CONTROLLER_SERVICE"),
        (
            "cannot create",
            json!({}),
            json!({}),
            Capabilities::of(&[], &[]),
            "CREATE_DELETE_VOLUME capability is not",
        ),
        (
            "snapshots",
            source("VolumeSnapshot", json!("snapshot.storage.k8s.io")),
            json!({}),
            able(),
            "does not support snapshot restore",
        ),
        ("group", source("VolumeSnapshot", json!("x")), json!({}), able(), "right APIGroup"),
        (
            "clones",
            source("PersistentVolumeClaim", Value::Null),
            json!({}),
            able(),
            "does not support clone operations",
        ),
        ("selector", json!({"spec": {"selector": {}}}), json!({}), able(), "claim Selector is not supported"),
        (
            "two file systems",
            json!({}),
            json!({"parameters": {"fstype": "a", "csi.storage.k8s.io/fstype": "b"}}),
            able(),
            "fstype specified in parameters with both \"fstype\" and \"csi.storage.k8s.io/fstype\" keys",
        ),
        (
            "reserved",
            json!({}),
            parameters("csi.storage.k8s.io/odd"),
            able(),
            "found unknown parameter key \"csi.storage.k8s.io/odd\" with reserved namespace csi.storage.k8s.io/",
        ),
        (
            "half a secret",
            json!({}),
            parameters("csi.storage.k8s.io/node-stage-secret-name"),
            able(),
            "either name and namespace for node-stage secrets specified",
        ),
        ("modes", json!({"spec": {"accessModes": ["Odd"]}}), json!({}), able(), "unsupported AccessMode"),
        (
            "attributes",
            json!({"spec": {"volumeAttributesClassName": "v"}}),
            json!({}),
            able(),
            "does not support VolumeAttributesClass",
        ),
        (
            "attributes class is missing",
            json!({"spec": {"volumeAttributesClassName": "v"}}),
            json!({}),
            Capabilities::of(&[Rpc::CreateDeleteVolume, Rpc::ModifyVolume], &[]),
            "volumeattributesclass.storage.k8s.io \"v\" not found",
        ),
    ] {
        let text = refusal(&claim(more), &class(class_more), &can);
        assert!(text.contains(wanted), "{name}: {text}");
    }
}

#[test]
fn attributes_class_of_the_driver_sets_mutable_parameters() {
    let can = Capabilities::of(&[Rpc::CreateDeleteVolume, Rpc::ModifyVolume], &[]);
    let (claim, class) = (claim(json!({"spec": {"volumeAttributesClassName": "v"}})), class(json!({})));
    let attributes = |driver: &str| -> VolumeAttributesClass {
        serde_json::from_value(
            json!({"metadata": {"name": "v"}, "driverName": driver, "parameters": {"iops": "5"}}),
        )
        .unwrap()
    };
    let (own, other) = (attributes("d"), attributes("e"));
    let intent = Wish { attributes: Some(&own), ..wish(&claim, &class, &can) }.intent(None, None).unwrap();
    assert_eq!(
        (intent.mutable_parameters["iops"].as_str(), intent.volume.attributes_class.as_deref()),
        ("5", Some("v"))
    );
    let refused =
        Wish { attributes: Some(&other), ..wish(&claim, &class, &can) }.intent(None, None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "VAC v referenced in PVC is for driver e which does not match driver name d"
    );
}

#[test]
fn claim_annotations_do_not_choose_the_provisioner_secret() {
    let (claim, can) = (claim(json!({})), able());
    let keys = |purpose: &str| {
        json!({"parameters": {format!("csi.storage.k8s.io/{purpose}-secret-name"): "${pvc.annotations['team']}",
            format!("csi.storage.k8s.io/{purpose}-secret-namespace"): "${pvc.namespace}"}})
    };
    assert!(refusal(&claim, &class(keys("provisioner")), &can).contains("unknown token"));
    let class = class(keys("node-stage"));
    let secrets = wish(&claim, &class, &can).intent(None, None).unwrap().volume.secrets;
    assert_eq!(secrets.node_stage.unwrap().name.as_deref(), Some("blue"));
}
