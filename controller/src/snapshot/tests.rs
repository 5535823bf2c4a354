//! Tests the serialized form of the kinds, and their use in clients and informers.

#![allow(clippy::unwrap_used)]

use orlop_client::api::Api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use orlop_client::api::Object;
use orlop_client::informer::Informer;
use orlop_client::packed_object::PackedObject;

/// Checks that an object serializes to its input, also after packing in a cache, and that `managedFields` are
/// dropped.
fn round_trip<K: Object + PartialEq + Serialize + DeserializeOwned>(shown: &Value) -> K {
    let object: K = serde_json::from_value(shown.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&object).unwrap(), shown);
    let kept = PackedObject::new(std::sync::Arc::new(object.clone()));
    kept.pack();
    assert_eq!(*kept.get(), object);
    let mut managed = shown.clone();
    managed["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update"}]);
    assert_eq!(K::decode(managed.to_string().as_bytes()).unwrap(), object);
    object
}

#[test]
fn every_kind_round_trips_through_json() {
    let snapshot: VolumeSnapshot = round_trip(&json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "s", "namespace": "n", "uid": "u"},
        "spec": {"source": {"persistentVolumeClaimName": "c"}, "volumeSnapshotClassName": "k"},
        "status": {
            "boundVolumeSnapshotContentName": "snapcontent-u", "creationTime": "2026-01-02T03:04:05Z",
            "readyToUse": true, "restoreSize": "1Gi", "volumeGroupSnapshotName": "g",
            "error": {"message": "no", "time": "2026-01-02T03:04:05Z"},
        },
    }));
    assert_eq!(snapshot.status.unwrap().restore_size, Some(Quantity("1Gi".to_owned())));
    let content: VolumeSnapshotContent = round_trip(&json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": "snapcontent-u"},
        "spec": {
            "deletionPolicy": "Delete", "driver": "d", "source": {"volumeHandle": "h"}, "sourceVolumeMode": "Block",
            "volumeSnapshotClassName": "k", "volumeSnapshotRef": {"name": "s", "namespace": "n", "uid": "u"},
        },
        "status": {
            "snapshotHandle": "x", "creationTime": 1_700_000_000_000_000_000_i64, "restoreSize": 1024,
            "readyToUse": false, "volumeGroupSnapshotHandle": "y",
        },
    }));
    assert_eq!(content.spec.deletion_policy, DeletionPolicy::Delete);
    let class: VolumeSnapshotClass = round_trip(&json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": "k"}, "driver": "d", "deletionPolicy": "Retain", "parameters": {"a": "b"},
    }));
    assert_eq!(class.parameters.unwrap()["a"], "b");
}

#[test]
fn list_items_need_no_kind_and_other_versions_are_rejected() {
    let bare = json!({"metadata": {"name": "k"}, "driver": "d", "deletionPolicy": "Delete"});
    let class: VolumeSnapshotClass = serde_json::from_value(bare.clone()).unwrap();
    assert_eq!(class.driver, "d");
    let mut old = bare;
    old["apiVersion"] = "snapshot.storage.k8s.io/v1beta1".into();
    assert!(serde_json::from_value::<VolumeSnapshotClass>(old).is_err());
}

#[tokio::test]
async fn clients_and_informers_support_the_snapshot_kinds() {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        let path = request.uri().path().to_owned();
        let body = json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [
            {"metadata": {"name": path.clone()}, "driver": "d", "deletionPolicy": "Delete"}]});
        Ok::<_, tower::BoxError>(http::Response::new(kube::client::Body::from(body.to_string().into_bytes())))
    });
    let client = kube::Client::new(service, "default");
    let list = Api::<VolumeSnapshotClass>::all(client).list(&Default::default()).await.unwrap();
    let path = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";
    assert_eq!(list.items[0].metadata.name.as_deref(), Some(path));
    let _ = (Informer::<VolumeSnapshot>::new(), Informer::<VolumeSnapshotContent>::new());
}
