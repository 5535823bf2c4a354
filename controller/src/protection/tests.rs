//! Tests the protection controllers on the fake API server. Case numbers are those of the controller cases.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use orlop_apimachinery::thread_time::assert_linear;
use serde_json::{Value, json};

use super::*;
use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind, survives_faults};

const ALL: [Run; 3] = [volume::run, claim::run, attributes_class::run];
const PV: &str = "kubernetes.io/pv-protection";
const PVC: &str = "kubernetes.io/pvc-protection";
const VAC: &str = "kubernetes.io/vac-protection";
const NOW: &str = "2026-01-01T00:00:00Z";

fn pv(phase: &str, finalizers: &[&str]) -> Value {
    json!({"kind": "PersistentVolume", "metadata": {"name": "pv-1", "finalizers": finalizers},
        "spec": {"capacity": {"storage": "1Gi"}}, "status": {"phase": phase}})
}

fn pvc(name: &str, finalizers: &[&str]) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": name, "finalizers": finalizers},
        "spec": {}, "status": {"phase": "Pending"}})
}

fn pod(namespace: &str, name: &str, phase: &str, node: &str, volumes: Value) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}")},
        "spec": {"containers": [], "nodeName": node, "volumes": volumes}, "status": {"phase": phase}})
}

fn uses_claim(name: &str) -> Value {
    json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}])
}

fn vac(finalizers: &[&str]) -> Value {
    json!({"kind": "VolumeAttributesClass", "metadata": {"name": "gold", "finalizers": finalizers},
        "driverName": "hostpath.csi.k8s.io", "parameters": {"tier": "gold"}})
}

fn owned_by(mut claim: Value, uid: &str) -> Value {
    claim["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p-1", "uid": uid, "controller": true}]);
    claim
}

fn finalizers(api: &FakeApi, plural: &str, key: &str) -> Option<Vec<String>> {
    let object = api.get(plural, key)?;
    let list = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    Some(list.iter().map(|f| f.as_str().unwrap().to_owned()).collect())
}

fn some(list: &[&str]) -> Option<Vec<String>> {
    Some(list.iter().map(|f| (*f).to_owned()).collect())
}

#[test]
fn finalizer_is_added_before_deletion_and_checked_during_it() {
    let table = [
        (false, false, Need::Add),
        (false, true, Need::Nothing),
        (true, true, Need::Check),
        (true, false, Need::Nothing),
    ];
    for (terminating, held, wanted) in table {
        let mut value = pv("Available", if held { &[PV] } else { &[] });
        if terminating {
            value["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        let volume: PersistentVolume = serde_json::from_value(value).unwrap();
        assert_eq!(need(&volume, PV), wanted, "terminating {terminating}, held {held}");
    }
}

#[test]
fn claim_is_in_use_by_its_pods_with_a_node_in_any_phase() {
    let own = owned_by(pvc("p-1-scratch", &[]), "uid-p-1");
    let foreign = pvc("p-1-scratch", &[]);
    let scratch = json!([{"name": "scratch", "ephemeral": {}}]);
    let shut = |mut p: Value, grace: i64| {
        p["metadata"]["deletionTimestamp"] = json!(NOW);
        p["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        p
    };
    let eph = || pod("default", "p-1", "Running", "n", scratch.clone());
    let table = [
        ("running", pod("default", "p-1", "Running", "n", uses_claim("c")), pvc("c", &[]), true),
        ("PROT-PVC-5 finished", pod("default", "p-1", "Failed", "n", uses_claim("c")), pvc("c", &[]), true),
        ("no node", pod("default", "p-1", "Pending", "", uses_claim("c")), pvc("c", &[]), false),
        ("other claim", pod("default", "p-1", "Running", "n", uses_claim("d")), pvc("c", &[]), false),
        (
            "PROT-PVC-8 other namespace",
            pod("other", "p-1", "Running", "n", uses_claim("c")),
            pvc("c", &[]),
            false,
        ),
        ("PROT-PVC-11 own ephemeral", eph(), own.clone(), true),
        ("PROT-PVC-12 foreign ephemeral", eph(), foreign, false),
        ("ephemeral, shutting down", shut(eph(), 30), own.clone(), true),
        ("ephemeral, shut down", shut(eph(), 0), own, false),
        (
            "direct, shut down",
            shut(pod("default", "p-1", "Running", "n", uses_claim("c")), 0),
            pvc("c", &[]),
            true,
        ),
    ];
    for (name, p, c, wanted) in table {
        let (p, c): (Pod, PersistentVolumeClaim) =
            (serde_json::from_value(p).unwrap(), serde_json::from_value(c).unwrap());
        assert_eq!(claim::uses(&p, &c), wanted, "{name}");
        if p.metadata.namespace == c.metadata.namespace {
            let mut users = claim::Users::default();
            users.add(&p);
            assert_eq!(users.use_claim(&c), wanted, "{name}, among all pods");
        }
    }
}

#[test]
fn claims_of_a_batch_and_volumes_of_its_pods_are_linear() {
    let input = |count: usize| -> (Vec<PersistentVolumeClaim>, Pod) {
        let claims = (0..count).map(|n| serde_json::from_value(pvc(&format!("unused{n}"), &[])).unwrap());
        let volumes: Vec<Value> = (0..count)
            .map(
                |n| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": format!("c{n}")}}),
            )
            .collect();
        (
            claims.collect(),
            serde_json::from_value(pod("default", "p", "Running", "n", json!(volumes))).unwrap(),
        )
    };
    assert_linear("claims of a batch", 500, input, |(claims, pod)| {
        let mut users = claim::Users::default();
        users.add(pod);
        claims.iter().filter(|claim| users.use_claim(claim)).count()
    });
}

#[tokio::test(start_paused = true)]
async fn finalizer_is_removed_only_from_unused_objects() {
    type Step = (&'static str, &'static str);
    /// Name, initial objects, deletions, the object to check, and its finalizers, or `None` if it must be gone.
    type Case = (&'static str, Vec<Value>, Vec<Step>, Step, Option<Vec<String>>);
    let run = |s: &[Value], steps: &[Step]| {
        let (seeds, steps) = (s.to_vec(), steps.to_vec());
        async move {
            let api = FakeApi::new();
            seeds.into_iter().for_each(|s| {
                api.seed(s);
            });
            let _running = api.start(&ALL, Options::default());
            api.settle().await;
            for (plural, key) in steps {
                api.delete_with(
                    plural,
                    key,
                    if plural == "pods" { json!({"gracePeriodSeconds": 0}) } else { json!({}) },
                );
                api.settle().await;
            }
            api
        }
    };
    let claim = |f: &[&str]| pvc("c-1", f);
    let pods = |names: &[&str], phase: &str| -> Vec<Value> {
        names.iter().map(|n| pod("default", n, phase, "node-1", uses_claim("c-1"))).collect()
    };
    let with = |c: Value, mut p: Vec<Value>| {
        p.push(c);
        p
    };
    const C: &str = "persistentvolumeclaims";
    const V: &str = "persistentvolumes";
    const A: &str = "volumeattributesclasses";
    let scratch = || json!([{"name": "scratch", "ephemeral": {}}]);
    let mut terminating = pvc("c-1", &["example.test/hold"]);
    terminating["metadata"]["deletionTimestamp"] = json!(NOW);
    let mut gold = pvc("c-1", &[]);
    gold["spec"]["volumeAttributesClassName"] = json!("gold");
    let del = (C, "default/c-1");
    let own = owned_by(pvc("p-1-scratch", &[PVC]), "uid-p-1");
    let p1 = pod("default", "p-1", "Running", "node-1", scratch());
    let table: Vec<Case> = vec![
        ("PROT-PVC-2", vec![claim(&[PVC])], vec![del], del, None),
        ("PROT-PVC-5", with(claim(&[PVC]), pods(&["p-1"], "Succeeded")), vec![del], del, some(&[PVC])),
        (
            "PROT-PVC-6",
            with(claim(&[PVC]), pods(&["p-1"], "Running")),
            vec![del, ("pods", "default/p-1")],
            del,
            None,
        ),
        (
            "PROT-PVC-7",
            with(claim(&[PVC]), pods(&["p-1", "p-2"], "Running")),
            vec![del, ("pods", "default/p-1")],
            del,
            some(&[PVC]),
        ),
        (
            "PROT-PVC-8",
            vec![claim(&[PVC]), pod("other", "p", "Running", "n", uses_claim("c-1"))],
            vec![del],
            del,
            None,
        ),
        ("PROT-PVC-9", vec![terminating], vec![], del, some(&["example.test/hold"])),
        (
            "PROT-PVC-11",
            vec![own, p1.clone()],
            vec![(C, "default/p-1-scratch")],
            (C, "default/p-1-scratch"),
            some(&[PVC]),
        ),
        (
            "PROT-PVC-12",
            vec![pvc("p-1-scratch", &[PVC]), p1],
            vec![(C, "default/p-1-scratch")],
            (C, "default/p-1-scratch"),
            None,
        ),
        ("added to a claim", vec![claim(&[])], vec![], del, some(&[PVC])),
        ("PROT-PV-1", vec![pv("Available", &[])], vec![], (V, "pv-1"), some(&[PV])),
        ("PROT-PV-3", vec![pv("Bound", &[PV])], vec![(V, "pv-1")], (V, "pv-1"), some(&[PV])),
        ("PROT-PV-5", vec![pv("Released", &[PV])], vec![(V, "pv-1")], (V, "pv-1"), None),
        ("PROT-PV-6", vec![pv("Failed", &[PV])], vec![(V, "pv-1")], (V, "pv-1"), None),
        (
            "PROT-PV-7",
            vec![pv("Available", &[PV, "example.test/hold"])],
            vec![(V, "pv-1")],
            (V, "pv-1"),
            some(&["example.test/hold"]),
        ),
        ("PROT-VAC-1", vec![vac(&[])], vec![], (A, "gold"), some(&[VAC])),
        ("PROT-VAC-2", vec![vac(&[VAC])], vec![(A, "gold")], (A, "gold"), None),
        ("PROT-VAC-4", vec![vac(&[VAC]), gold.clone()], vec![(A, "gold")], (A, "gold"), some(&[VAC])),
        ("PROT-VAC-7", vec![vac(&[VAC]), gold], vec![(A, "gold"), del], (A, "gold"), None),
    ];
    for (case, seeds, steps, (plural, key), wanted) in table {
        let api = run(&seeds, &steps).await;
        assert_eq!(finalizers(&api, plural, key), wanted, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn prot_pv_4_bound_volume_is_removed_after_its_phase_changes() {
    let api = FakeApi::new();
    api.seed(pv("Bound", &[PV]));
    let _running = api.start(&ALL, Options::default());
    api.delete("persistentvolumes", "pv-1");
    api.settle().await;
    assert_eq!(finalizers(&api, "persistentvolumes", "pv-1"), some(&[PV]));
    api.patch("persistentvolumes", "pv-1", "status", json!({"status": {"phase": "Released"}}));
    api.settle().await;
    assert_eq!(finalizers(&api, "persistentvolumes", "pv-1"), None);
}

/// The claim may refer to the class.
#[tokio::test(start_paused = true)]
async fn i12_undecodable_claim_protects_a_class() {
    let api = FakeApi::new();
    api.seed(vac(&[VAC]));
    let mut claim = pvc("c-1", &[]);
    claim["spec"]["accessModes"] = json!(7);
    api.seed(claim);
    let _running = api.start(&[attributes_class::run], Options::default());
    api.settle().await;
    api.delete("volumeattributesclasses", "gold");
    api.settle().await;
    assert_eq!(finalizers(&api, "volumeattributesclasses", "gold"), some(&[VAC]));
    api.patch(
        "persistentvolumeclaims",
        "default/c-1",
        "",
        json!({"spec": {"accessModes": ["ReadWriteOnce"]}}),
    );
    // The failed sync is retried.
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(finalizers(&api, "volumeattributesclasses", "gold"), None);
}

#[tokio::test(start_paused = true)]
async fn batch_of_claims_shares_one_pod_list_and_a_failed_list_removes_no_finalizer() {
    let api = FakeApi::new();
    for n in 0..5 {
        let mut claim = pvc(&format!("c-{n}"), &[PVC]);
        claim["metadata"]["deletionTimestamp"] = json!(NOW);
        api.seed(claim);
    }
    // The informer sends the first list; the second is live.
    api.fail(Fault { verb: "list", resource: "pods", skip: 1, kind: FaultKind::Broken });
    let _running = api.start(&[claim::run], Options::default());
    api.settle().await;
    assert_eq!(api.list("persistentvolumeclaims").len(), 0);
    let live = api.requests().iter().filter(|r| *r == "GET /api/v1/namespaces/default/pods").count();
    assert!((2..=4).contains(&live), "few lists for five claims, got {live}");
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once_and_a_second_start_writes_nothing() {
    let seed = |api: &FakeApi| {
        api.seed(pv("Available", &[]));
        api.seed(pvc("c-1", &[]));
        api.seed(pvc("c-2", &[PVC]));
        api.seed(pod("default", "p-1", "Running", "n", uses_claim("c-1")));
        api.seed(vac(&[]));
    };
    let act = |api: &FakeApi| {
        api.delete("persistentvolumes", "pv-1");
        api.delete("persistentvolumeclaims", "default/c-1");
        api.delete("persistentvolumeclaims", "default/c-2");
        api.delete("volumeattributesclasses", "gold");
    };
    let api = survives_faults(&ALL, Options::default(), seed, act).await;
    assert_eq!(finalizers(&api, "persistentvolumeclaims", "default/c-1"), some(&[PVC]));
    assert_eq!(api.list("persistentvolumes").len() + api.list("volumeattributesclasses").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn pod_missing_from_the_cache_protects_its_claim() {
    let api = FakeApi::new();
    api.seed(pvc("c-1", &[PVC]));
    // The list succeeds, but the next 6 watches of pods fail.
    for _ in 0..6 {
        api.fail(Fault { verb: "watch", resource: "pods", skip: 0, kind: FaultKind::Broken });
    }
    let _running = api.start(&[claim::run], Options::default());
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    api.create(pod("default", "p-1", "Running", "node-1", uses_claim("c-1")));
    api.delete("persistentvolumeclaims", "default/c-1");
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(api.pending_faults() > 0, "the cache is behind");
    api.settle().await;
    assert_eq!(finalizers(&api, "persistentvolumeclaims", "default/c-1"), some(&[PVC]));
}
