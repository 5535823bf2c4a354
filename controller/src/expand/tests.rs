//! Tests the expansion decisions, and the events on the fake API server.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, survives_faults};

const THIS: [Run; 1] = [run];

fn volume(source: Value) -> Value {
    let mut v = json!({"kind": "PersistentVolume", "metadata": {"name": "pv-1"}, "spec": {"capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": "c-1", "uid": "uid-c-1"}}, "status": {"phase": "Bound"}});
    for (key, value) in source.as_object().unwrap() {
        v["spec"][key] = value.clone();
    }
    v
}

fn csi() -> Value {
    json!({"csi": {"driver": "hostpath.csi.k8s.io", "volumeHandle": "h"}})
}

fn cinder() -> Value {
    json!({"cinder": {"volumeID": "v"}})
}

fn claim(request: &str, capacity: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": "c-1", "uid": "uid-c-1"},
        "spec": {"volumeName": "pv-1", "resources": {"requests": {"storage": request}}},
        "status": {"phase": "Bound", "capacity": {"storage": capacity}}})
}

#[test]
fn only_growth_or_a_pending_node_resize_needs_an_external_resizer() {
    let mut resizing = volume(csi());
    resizing["metadata"]["annotations"] = json!({ANN_PRE_RESIZE_CAPACITY: "1Gi"});
    let mut stranger = volume(csi());
    stranger["spec"]["claimRef"]["uid"] = json!("other");
    let migrated = Action::Migrated { plugin: "kubernetes.io/cinder", driver: "cinder.csi.openstack.org" };
    let table = [
        ("PROT-EXP-1 grown", claim("2Gi", "1Gi"), volume(csi()), Action::External),
        ("PROT-EXP-3 not grown", claim("1Gi", "1Gi"), volume(csi()), Action::Nothing),
        ("equal in other words", claim("1Gi", "1024Mi"), volume(csi()), Action::Nothing),
        ("shrunk", claim("1Gi", "2Gi"), volume(csi()), Action::Nothing),
        ("node part pending", claim("1Gi", "1Gi"), resizing, Action::External),
        ("other claim", claim("2Gi", "1Gi"), stranger, Action::NotBound),
        ("migrated", claim("2Gi", "1Gi"), volume(cinder()), migrated),
        (
            "in-tree without resizer",
            claim("2Gi", "1Gi"),
            volume(json!({"nfs": {"server": "s", "path": "/"}})),
            Action::External,
        ),
    ];
    for (name, c, v, wanted) in table {
        let (c, v) = (serde_json::from_value(c).unwrap(), serde_json::from_value(v).unwrap());
        assert_eq!(decide(&c, &v), wanted, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn prot_exp_1_and_3_event_is_recorded_only_when_the_claim_grows() {
    let api = FakeApi::new();
    api.seed(volume(csi()));
    api.seed(claim("1Gi", "1Gi"));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    assert_eq!(api.events(), Vec::<String>::new());
    api.patch(
        "persistentvolumeclaims",
        "default/c-1",
        "",
        json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    );
    api.settle().await;
    assert_eq!(
        api.events(),
        [
            "PersistentVolumeClaim default/c-1 Normal ExternalExpanding waiting for an external controller to expand this PVC"
        ]
    );
    assert_eq!(api.take_writes(), []);
}

#[tokio::test(start_paused = true)]
async fn i6_migrated_volume_gets_its_resizer_annotation_despite_failures() {
    let seed = |api: &FakeApi| {
        api.seed(volume(cinder()));
        api.seed(claim("2Gi", "1Gi"));
    };
    let api = survives_faults(&THIS, Options::default(), seed, |_| {}).await;
    let claim = api.get("persistentvolumeclaims", "default/c-1").unwrap();
    assert_eq!(claim["metadata"]["annotations"][ANN_STORAGE_RESIZER], "cinder.csi.openstack.org");
    assert_eq!(
        api.events()[0],
        "PersistentVolumeClaim default/c-1 Normal ExternalExpanding CSI migration enabled for kubernetes.io/cinder; \
            waiting for external resizer to expand the pvc"
    );
}
