//! Checked responses, and the objects created from them.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::csi::provisioner::source::Content;

fn intent(more: Value) -> Intent {
    let mut intent = json!({"driver": "d", "name": "pvc-1", "bytes": 1024, "modes": ["SINGLE_NODE_WRITER"],
        "fsType": "xfs", "mountOptions": ["ro"],
        "volume": {"class": "c", "provisioner": "d", "reclaimPolicy": "Delete", "secrets": {}}});
    crate::testing::merge_into(&mut intent, &more);
    serde_json::from_value(intent).unwrap()
}

fn claim(mode: &str) -> PersistentVolumeClaim {
    serde_json::from_value(
        json!({"metadata": {"namespace": "ns", "name": "a", "uid": "1", "resourceVersion": "7"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": mode}}),
    )
    .unwrap()
}

fn answer(bytes: i64) -> v1::Volume {
    v1::Volume {
        volume_id: "h".to_owned(),
        capacity_bytes: bytes,
        volume_context: [("k".to_owned(), "v".to_owned())].into(),
        ..Default::default()
    }
}

#[test]
fn invalid_responses_are_rejected() {
    let of =
        |intent: &Intent, volume: Option<v1::Volume>| checked(intent, v1::CreateVolumeResponse { volume });
    let plain = intent(json!({}));
    assert_eq!(of(&plain, None).unwrap_err().0, Flaw::Nothing("volume"));
    let nameless = v1::Volume { volume_id: String::new(), ..answer(1024) };
    assert_eq!(of(&plain, Some(nameless)).unwrap_err().0, Flaw::Nothing("volume id"));
    assert_eq!(of(&plain, Some(answer(0))).unwrap().capacity_bytes, 1024, "not known: as asked");
    assert_eq!(of(&plain, Some(answer(2048))).unwrap().capacity_bytes, 2048);
    for bytes in [1023, -1, i64::MIN] {
        let (flaw, id) = of(&plain, Some(answer(bytes))).unwrap_err();
        assert_eq!((flaw, id.as_str()), (Flaw::TooSmall { has: bytes, asked: 1024 }, "h"));
    }
    let mut clone = intent(json!({}));
    clone.content = Some(Content::Volume("s".to_owned()));
    assert_eq!(of(&clone, Some(answer(1024))).unwrap_err().0, Flaw::NoContent);
}

#[test]
fn object_has_the_fields_of_request_and_response() {
    let secrets = json!({"provisioner": {"name": "p", "namespace": "n"}, "nodeStage": {"name": "s", "namespace": "n"},
        "controllerModify": {"name": "m", "namespace": "n"}});
    let intent = intent(json!({"volume": {"secrets": secrets, "attributesClass": "gold"}}));
    let object =
        serde_json::to_value(object(&intent, &claim("Filesystem"), answer(5 << 30), false).unwrap()).unwrap();
    assert_eq!(
        object,
        json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": "pvc-1", "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
                "annotations": {"pv.kubernetes.io/provisioned-by": "d",
                    "volume.kubernetes.io/provisioner-deletion-secret-name": "p",
                    "volume.kubernetes.io/provisioner-deletion-secret-namespace": "n",
                    "volume.kubernetes.io/controller-modify-secret-name": "m",
                    "volume.kubernetes.io/controller-modify-secret-namespace": "n"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}, "storageClassName": "c",
                "persistentVolumeReclaimPolicy": "Delete", "volumeMode": "Filesystem", "mountOptions": ["ro"],
                "volumeAttributesClassName": "gold",
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "a", "uid": "1",
                    "resourceVersion": "7"},
                "csi": {"driver": "d", "volumeHandle": "h", "fsType": "xfs",
                    "volumeAttributes": {"k": "v", "storage.kubernetes.io/csiProvisionerIdentity": "orlop-d"},
                    "nodeStageSecretRef": {"name": "s", "namespace": "n"}}}})
    );
}

#[test]
fn block_volume_has_no_file_system_and_retained_volume_no_finalizer() {
    let intent = intent(json!({"block": true, "volume": {"reclaimPolicy": "Retain"}}));
    let object = object(&intent, &claim("Block"), answer(1024), false).unwrap();
    assert_eq!(object.metadata.finalizers, None);
    let annotations = object.metadata.annotations.unwrap();
    assert_eq!(annotations[ANN_DELETION_SECRET_NAME], "", "none, and the class is not asked later");
    assert_eq!(object.spec.unwrap().csi.unwrap().fs_type, None);
}

#[test]
fn accessible_topology_becomes_node_affinity() {
    let segment = |pairs: &[(&str, &str)]| v1::Topology {
        segments: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    };
    let mut volume = answer(1024);
    volume.accessible_topology =
        vec![segment(&[("zone", "a"), ("rack", "1")]), segment(&[]), segment(&[("zone", "b")])];
    let affinity = |volume: &v1::Volume, topology| {
        object(&intent(json!({})), &claim("Filesystem"), volume.clone(), topology)
            .unwrap()
            .spec
            .unwrap()
            .node_affinity
    };
    let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    assert_eq!(
        serde_json::to_value(affinity(&volume, true)).unwrap(),
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [is("rack", "1"), is("zone", "a")]},
            {"matchExpressions": [is("zone", "b")]}]}})
    );
    assert_eq!(affinity(&volume, false), None, "a driver without topology");
    volume.accessible_topology = vec![segment(&[])];
    assert_eq!(affinity(&volume, true), None, "a term without labels would match no node");
}

#[test]
fn class_of_a_migrated_plugin_yields_an_in_tree_source() {
    let aws = |provisioner: &str| {
        intent(json!({"driver": "ebs.csi.aws.com", "volume": {"provisioner": provisioner}}))
    };
    let mut volume = answer(1 << 30);
    volume.volume_id = "vol-1".to_owned();
    let made = object(&aws("kubernetes.io/aws-ebs"), &claim("Filesystem"), volume.clone(), true).unwrap();
    let spec = made.spec.unwrap();
    assert_eq!((spec.aws_elastic_block_store.unwrap().volume_id.as_str(), spec.csi), ("vol-1", None));
    assert_eq!(made.metadata.annotations.unwrap()[ANN_PROVISIONED_BY], "kubernetes.io/aws-ebs");
    assert!(
        object(&aws("ebs.csi.aws.com"), &claim("Filesystem"), volume, true)
            .unwrap()
            .spec
            .unwrap()
            .csi
            .is_some()
    );
}
