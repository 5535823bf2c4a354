//! Packed objects are restored, and take little memory.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::*;
use kube::core::PartialObjectMeta;

fn packed<K: Object + PartialEq + fmt::Debug>(value: Value) -> usize {
    let object: Arc<K> = Arc::new(K::decode(value.to_string().as_bytes()).unwrap());
    let kept = PackedObject::new(Arc::clone(&object));
    let other = kept.clone();
    kept.pack();
    assert_eq!(other.get(), object, "packed for all clones");
    kept.pack();
    assert_eq!(kept.get(), object, "packing twice is packing once");
    kept.packed_len().unwrap()
}

#[test]
fn typical_objects_are_restored_and_small() {
    for line in String::from_utf8(TYPICAL.to_vec()).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let len = match value["kind"].as_str().unwrap() {
            "PersistentVolume" => packed::<PersistentVolume>(value),
            "PersistentVolumeClaim" => packed::<PersistentVolumeClaim>(value),
            _ => continue,
        };
        assert!(len < 120, "{len} bytes: {line}");
    }
}

#[test]
fn untypical_objects_are_restored() {
    let long: String =
        (0..100_000_u64).map(|n| char::from(b"abcdefghijklmnopqrstuvw"[(n * n % 23) as usize])).collect();
    let texts = ["", "\u{0}\n\"\\", "\u{1F4BE} \u{E9}", long.as_str()];
    for text in texts {
        packed::<ConfigMap>(json!({"metadata": {"name": "a"}, "data": {"k": text}}));
    }
    packed::<Pod>(
        json!({"metadata": {"namespace": "ns", "name": "p", "creationTimestamp": "2026-11-21T07:00:00Z",
        "deletionGracePeriodSeconds": 0, "labels": {}, "finalizers": []}, "spec": {"containers": [{"name": "c",
        "livenessProbe": {"httpGet": {"port": "http"}}, "readinessProbe": {"tcpSocket": {"port": 80}}}], "volumes": []},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T07:00:00Z"}]}}),
    );
    packed::<PersistentVolume>(json!({"metadata": {"name": "pv", "uid": "1", "resourceVersion": "x"}}));
    packed::<PersistentVolumeClaim>(json!({"metadata": {}, "spec": {"selector": {"matchExpressions": [
        {"key": "a", "operator": "In", "values": ["b"]}]}}, "status": {"modifyVolumeStatus": {"status": "Pending"}}}));
}

#[test]
fn metadata_alone_is_restored() {
    let value = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"namespace": "ns", "name": "a",
        "uid": "u", "resourceVersion": "7", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "v"}]}});
    let kept = PackedObject::new(Arc::new(
        serde_json::from_value::<PartialObjectMeta<kube::core::DynamicObject>>(value).unwrap(),
    ));
    let before = kept.get();
    kept.pack();
    assert_eq!(
        (kept.get().metadata.clone(), kept.get().types.clone()),
        (before.metadata.clone(), before.types.clone())
    );
    assert_eq!(
        (kept.key().as_ref(), kept.uid().to_string(), kept.version()),
        ("ns/a", "u".to_owned(), Some(7))
    );
}

#[test]
fn same_identifies_one_version_of_one_object() {
    let kept = |uid: &str, version: &str| {
        let value = json!({"metadata": {"name": "a", "uid": uid, "resourceVersion": version}});
        PackedObject::new(Arc::new(serde_json::from_value::<ConfigMap>(value).unwrap()))
    };
    let table = [
        ("equal", kept("u", "1"), kept("u", "1"), true),
        ("newer", kept("u", "1"), kept("u", "2"), false),
        ("another object", kept("u", "1"), kept("v", "1"), false),
        ("no version", kept("u", ""), kept("u", ""), false),
        ("no number", kept("u", "x"), kept("u", "x"), false),
    ];
    for (name, a, b, same) in table {
        assert_eq!(a.is_same(&b), same, "{name}");
    }
}

/// The time of packing and decoding: `cargo test --release -p orlop-client packed -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn packing_and_decoding_time() {
    let value = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"annotations": {"example.com/owner": "storage-team",
        "example.com/description": "a volume of ordinary size, with the annotations that provisioners leave",
        "pv.kubernetes.io/bound-by-controller": "yes"}, "creationTimestamp": "2026-11-21T07:00:00Z",
        "finalizers": ["kubernetes.io/pv-protection"], "labels": {"bench": "b", "rack": "r17", "tier": "gold"}, "name": "x-000017",
        "resourceVersion": "48213", "uid": "f1c7ab5e-52ce-4e4e-9d0d-fb6bdf2d1a3c"}, "spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "capacity": {"storage": "5Gi"}, "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "x-000017",
        "namespace": "default", "resourceVersion": "48111", "uid": "9d1f5a0b-03bb-4f6f-b4b1-0f5b06de9d61"},
        "mountOptions": ["hard", "nfsvers=4.1"], "nfs": {"path": "/exports/x-000017", "server": "nfs.example.com"},
        "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "bench", "volumeMode": "Filesystem"},
        "status": {"lastPhaseTransitionTime": "2026-11-21T07:00:01Z", "phase": "Bound"}});
    let object: PersistentVolume = serde_json::from_value(value).unwrap();
    let times = 20_000;
    let began = std::time::Instant::now();
    let mut packed = None;
    for _ in 0..times {
        packed = Packed::of(&object);
    }
    let packing = began.elapsed() / times;
    let (packed, began) = (packed.unwrap(), std::time::Instant::now());
    for _ in 0..times {
        assert!(packed.decode::<PersistentVolume>().spec.is_some());
    }
    let (decoding, json) = (began.elapsed() / times, serde_json::to_vec(&object).unwrap().len());
    println!("{json} bytes of JSON, {} packed; {packing:?} to pack, {decoding:?} to decode", packed.0.len());
}
