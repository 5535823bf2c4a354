//! Tests of the engine: pairs of a claim and a volume that fail one rule run against the real binder; all other
//! cases use tables.
#![allow(clippy::unwrap_used)]

mod making;
mod messages;
mod namespaces;
mod others;
mod pairs;
mod scale;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::table::Table;
use super::{Why, explain};
use orlop_test_support::merge_into;

pub(super) fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

/// A view of these objects.
pub(super) fn world(objects: &[Value]) -> Table {
    let mut table = Table::at(now());
    for object in objects {
        table.put(object.clone()).unwrap();
    }
    table
}

/// The answer about one object.
pub(super) fn ask(table: &Table, resource: &str, key: &str) -> Why {
    explain(table, &table.subject(resource, key).unwrap())
}

/// An object with changes merged into it.
pub(super) fn with(mut object: Value, patch: Value) -> Value {
    merge_into(&mut object, &patch);
    object
}

/// An available volume of 2Gi, RWO, without a class.
pub(super) fn volume() -> Value {
    json!({"kind": "PersistentVolume", "apiVersion": "v1",
        "metadata": {"name": "v", "uid": "uid-v", "labels": {"tier": "fast"}},
        "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/data"}},
        "status": {"phase": "Available"}})
}

/// A claim for 1Gi, RWO, explicitly without a class.
pub(super) fn claim() -> Value {
    json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1",
        "metadata": {"namespace": "ns", "name": "c", "uid": "uid-c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"}})
}

pub(super) fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": name, "uid": format!("uid-{name}")},
        "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete"})
}

pub(super) fn node(name: &str, zone: &str) -> Value {
    json!({"kind": "Node", "apiVersion": "v1",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"zone": zone}}, "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

pub(super) fn pod(name: &str, node: Option<&str>) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}")},
        "spec": {"containers": [], "nodeName": node,
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]},
        "status": {"phase": "Pending"}})
}
