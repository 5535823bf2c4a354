//! Tests of the decisions, one row per case, and of the controller on the fake API server.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use orlop_apimachinery::thread_time::assert_linear;
use orlop_client::packed_object::GETS;
use serde_json::{Value, json};

use super::claim::{Consumer, consumer, is_superfluous, released, unprotected};
use super::created::CreatedClaims;
use super::pod::{PodClaims, entries, new_claim, reserved_for};
use super::run;
use crate::options::Options;
use crate::testing::{FakeApi, merge_into, survives_faults};

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
const NOW: &str = "2026-11-26T12:00:00Z";

fn pod(name: &str, extra: Value) -> Value {
    let mut pod = json!({
        "kind": "Pod", "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
        "status": {"phase": "Pending"}});
    merge_into(&mut pod, &extra);
    pod
}

fn owner(pod: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": format!("uid-{pod}"), "controller": true,
        "blockOwnerDeletion": true}])
}

fn claim(name: &str, extra: Value) -> Value {
    let metadata = json!({"namespace": "default", "name": name, "ownerReferences": owner("p"),
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}});
    let mut claim = json!({"kind": "ResourceClaim", "metadata": metadata, "spec": {}});
    merge_into(&mut claim, &extra);
    claim
}

fn template() -> Value {
    json!({"kind": "ResourceClaimTemplate", "metadata": {"namespace": "default", "name": "t"},
        "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}})
}

fn consumers(pods: &[&str]) -> Value {
    pods.iter().map(|pod| json!({"resource": "pods", "name": pod, "uid": format!("uid-{pod}")})).collect()
}

fn typed<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

#[test]
fn pods_need_a_claim_for_each_template() {
    let generated =
        json!({"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-1"}]}});
    let not_needed = json!({"status": {"resourceClaimStatuses": [{"name": "gpu"}]}});
    let named = json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}});
    let own = || Some(Arc::new(typed::<ResourceClaim>(claim("p-gpu-1", json!({})))));
    let foreign = || {
        let other = json!({"metadata": {"ownerReferences": owner("other")}});
        Some(Arc::new(typed::<ResourceClaim>(claim("p-gpu-1", other))))
    };
    for (case, extra, found, want) in [
        ("1 no claim yet", json!({}), None, true),
        ("2 created", generated.clone(), own(), false),
        ("3 deleted by mistake", generated.clone(), None, true),
        ("4 of another pod", generated, foreign(), true),
        ("5 not needed", not_needed, None, false),
        ("6 created by the user", named, None, false),
    ] {
        let pod: Pod = typed(pod("p", extra));
        assert_eq!(PodClaims::of(&pod).needs_claim(&entries(&pod)[0], |_| found), want, "{case}");
    }
}

#[test]
fn names_of_many_claims_are_found_in_linear_time() {
    let input = |n: usize| -> Pod {
        let entries: Vec<Value> =
            (0..n).map(|n| json!({"name": format!("e{n}"), "resourceClaimTemplateName": "t"})).collect();
        let statuses: Vec<Value> =
            (0..n).map(|n| json!({"name": format!("e{n}"), "resourceClaimName": format!("c{n}")})).collect();
        typed(pod(
            "p",
            json!({"spec": {"resourceClaims": entries}, "status": {"resourceClaimStatuses": statuses}}),
        ))
    };
    assert_eq!(PodClaims::of(&input(3)).names(), ["c0", "c1", "c2"]);
    assert_linear("claims of a pod", 1_000, input, |pod| PodClaims::of(pod).names().len());
}

#[test]
fn created_claims_are_known_until_the_cache_contains_them() {
    let created = CreatedClaims::default();
    for (pod, entry, claim) in [("u", "a", "1"), ("u", "b", "2"), ("v", "a", "3")] {
        created.add(pod, entry, claim);
    }
    created.remove("u", "a", "another claim");
    assert_eq!(created.get("u", "a").as_deref(), Some("1"));
    created.remove("u", "a", "1");
    assert_eq!((created.get("u", "a"), created.get("u", "b").as_deref()), (None, Some("2")));
    created.remove_pod("u");
    assert_eq!((created.get("u", "b"), created.get("v", "a").as_deref()), (None, Some("3")));
    created.remove("v", "a", "3");
    assert!(created.is_empty());
    assert_linear(
        "deleted pods",
        1_000,
        |n| n,
        |n| {
            let uids: Vec<String> = (0..*n).map(|n| format!("uid-{n}")).collect();
            uids.iter().for_each(|uid| created.add(uid, "gpu", "claim"));
            uids.iter().for_each(|uid| created.remove_pod(uid));
            assert!(created.is_empty());
        },
    );
}

#[test]
fn new_claims_have_the_content_of_the_template() {
    let template: ResourceClaimTemplate = typed(template());
    let made = |name: &str| {
        let pod: Pod = typed(pod(name, json!({})));
        new_claim(&pod, &entries(&pod)[0], &template)
    };
    let short = made("p");
    assert_eq!(
        json!(short.metadata),
        json!({"generateName": "p-gpu-", "namespace": "default", "labels": {"a": "b"},
        "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"}, "ownerReferences": owner("p")})
    );
    assert_eq!(short.spec, template.spec.spec);
    // 100 * 57 / 105 = 54, 3 * 57 / 105 = 1.
    assert_eq!(made(&"x".repeat(100)).metadata.generate_name.unwrap(), format!("{}-g", "x".repeat(54)));
}

#[test]
fn allocated_claims_are_reserved_once() {
    let pod: Pod = typed(pod("p", json!({})));
    let claim = |status: Value| typed::<ResourceClaim>(claim("c", json!({"status": status})));
    let many: Vec<String> = (0..256).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (case, claim, want) in [
        ("1 not allocated", claim(json!({})), None),
        ("2 allocated", claim(json!({"allocation": {}})), Some(consumers(&["p"]))),
        (
            "3 another consumer",
            claim(json!({"allocation": {}, "reservedFor": consumers(&["q"])})),
            Some(consumers(&["q", "p"])),
        ),
        ("4 reserved", claim(json!({"allocation": {}, "reservedFor": consumers(&["p"])})), None),
        ("5 full", claim(json!({"allocation": {}, "reservedFor": consumers(&many)})), None),
    ] {
        let found = reserved_for(&pod, &claim).map(|claim| json!(claim.status.unwrap().reserved_for));
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn consumers_end_with_their_pods() {
    let reference = serde_json::from_value(json!({"resource": "pods", "name": "p", "uid": "uid-p"})).unwrap();
    let deleted = json!({"metadata": {"deletionTimestamp": NOW}});
    let on_node = json!({"metadata": {"deletionTimestamp": NOW}, "spec": {"nodeName": "n"}});
    for (case, pod, want) in [
        ("1 not cached", None, Consumer::Unknown),
        ("2 runs", Some(pod("p", json!({}))), Consumer::Needs),
        ("3 another pod", Some(pod("p", json!({"metadata": {"uid": "other"}}))), Consumer::Ended),
        ("4 finished", Some(pod("p", json!({"status": {"phase": "Succeeded"}}))), Consumer::Ended),
        ("5 deleted before it had a node", Some(pod("p", deleted)), Consumer::Ended),
        ("6 terminating on a node", Some(pod("p", on_node)), Consumer::Needs),
    ] {
        assert_eq!(consumer(&reference, pod.map(typed::<Pod>).as_ref()), want, "{case}");
    }
}

#[test]
fn claims_are_released_step_by_step() {
    let claim = |finalizers: &[&str],
                 deleted: Option<&str>,
                 allocated: bool,
                 pods: &[&str]|
     -> ResourceClaim {
        let allocation = if allocated { json!({}) } else { Value::Null };
        let metadata = json!({"finalizers": finalizers, "deletionTimestamp": deleted});
        typed(claim(
            "c",
            json!({"metadata": metadata, "status": {"allocation": allocation, "reservedFor": consumers(pods)}}),
        ))
    };
    for (case, claim, needing, want) in [
        ("1 all need it", claim(&[FINALIZER], None, true, &["p", "q"]), vec!["p", "q"], "nothing"),
        ("2 one has ended", claim(&[FINALIZER], None, true, &["p", "q"]), vec!["q"], "allocated for 1"),
        ("3 the last has ended", claim(&[FINALIZER], None, true, &["p"]), vec![], "released"),
        ("4 no finalizer", claim(&[], None, true, &["p"]), vec![], "allocated for 0"),
        ("5 allocated without consumers", claim(&[FINALIZER], None, true, &[]), vec![], "nothing"),
        ("6 the same, deleted", claim(&[FINALIZER], Some(NOW), true, &[]), vec![], "released"),
        ("7 nothing to do", claim(&[], None, false, &[]), vec![], "nothing"),
    ] {
        let needing = serde_json::from_value(consumers(&needing)).unwrap();
        let found = released(&claim, needing).map_or("nothing".to_owned(), |claim| {
            let status = claim.status.unwrap();
            let count = status.reserved_for.map_or(0, |consumers| consumers.len());
            status.allocation.map_or("released".to_owned(), |_| format!("allocated for {count}"))
        });
        assert_eq!(found, want, "{case}");
    }
    for (case, claim, was_released, want) in [
        ("1 just released", claim(&[FINALIZER], None, false, &[]), true, true),
        ("2 about to be allocated", claim(&[FINALIZER], None, false, &[]), false, false),
        ("3 deleted", claim(&[FINALIZER], Some(NOW), false, &[]), false, true),
        ("4 allocated", claim(&[FINALIZER], Some(NOW), true, &[]), true, false),
        ("5 reserved", claim(&[FINALIZER], Some(NOW), false, &["p"]), true, false),
        ("6 no finalizer", claim(&[], Some(NOW), false, &[]), true, false),
    ] {
        let found = unprotected(&claim, was_released);
        assert_eq!(found.is_some(), want, "{case}");
        assert!(found.is_none_or(|claim| claim.metadata.finalizers.is_none()), "{case}");
    }
}

#[test]
fn generated_claims_of_ended_pods_are_superfluous() {
    let own: ResourceClaim = typed(claim("c", json!({})));
    let manual: ResourceClaim = typed(claim("c", json!({"metadata": {"ownerReferences": []}})));
    let ended = || Some(pod("p", json!({"status": {"phase": "Failed"}})));
    for (case, claim, pod, want) in [
        ("1 the pod runs", &own, Some(pod("p", json!({}))), false),
        ("2 the pod has ended", &own, ended(), true),
        ("3 another pod", &own, Some(pod("p", json!({"metadata": {"uid": "other"}}))), true),
        ("4 not cached", &own, None, false),
        ("5 created by the user", &manual, ended(), false),
    ] {
        assert_eq!(is_superfluous(claim, pod.map(typed::<Pod>).as_ref()), want, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn pod_gets_a_claim_that_ends_with_it() {
    let api = FakeApi::new();
    api.seed(template());
    api.seed(pod("p", json!({})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let claims = api.list("resourceclaims");
    assert_eq!(claims.len(), 1);
    let name = claims[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let status = &api.get("pods", "default/p").unwrap()["status"]["resourceClaimStatuses"];
    assert_eq!(status, &json!([{"name": "gpu", "resourceClaimName": name}]));
    api.patch("pods", "default/p", "", json!({"spec": {"nodeName": "n"}}));
    let key = format!("default/{name}");
    api.patch("resourceclaims", &key, "", json!({"metadata": {"finalizers": [FINALIZER]}}));
    api.patch("resourceclaims", &key, "status", json!({"status": {"allocation": {}}}));
    api.settle().await;
    let reserved = api.get("resourceclaims", &key).unwrap()["status"]["reservedFor"].clone();
    assert_eq!(reserved, consumers(&["p"]));
    api.patch("pods", "default/p", "status", json!({"status": {"phase": "Succeeded"}}));
    api.settle().await;
    assert_eq!(api.get("resourceclaims", &key), None);
}

#[tokio::test(start_paused = true)]
async fn each_entry_of_a_pod_reads_only_its_own_claims() {
    let mut reads = Vec::new();
    for n in [20, 160] {
        let api = FakeApi::new();
        api.seed(template());
        // An earlier process has created the claims, and has not written their names yet.
        for n in 0..n {
            let entry = json!({"resource.kubernetes.io/pod-claim-name": format!("e{n}")});
            api.seed(claim(&format!("c{n}"), json!({"metadata": {"annotations": entry}})));
        }
        let entries: Vec<Value> =
            (0..n).map(|n| json!({"name": format!("e{n}"), "resourceClaimTemplateName": "t"})).collect();
        api.seed(pod("p", json!({"spec": {"resourceClaims": entries}})));
        let before = GETS.get();
        let _running = api.start(&[run], Options::default());
        api.settle().await;
        reads.push(GETS.get() - before);
        assert_eq!(api.list("resourceclaims").len(), n);
        let status = &api.get("pods", "default/p").unwrap()["status"]["resourceClaimStatuses"];
        assert_eq!(status.as_array().unwrap().len(), n);
    }
    assert!(reads[1] < 12 * reads[0], "{reads:?}");
}

#[tokio::test(start_paused = true)]
async fn pod_does_not_use_a_forged_claim_of_another_namespace() {
    let api = FakeApi::new();
    api.seed(template());
    let forged = api.seed(claim("forged", json!({"metadata": {"namespace": "other"}})));
    api.seed(pod("p", json!({})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let status = &api.get("pods", "default/p").unwrap()["status"]["resourceClaimStatuses"];
    let name = status[0]["resourceClaimName"].as_str().unwrap();
    assert!(api.get("resourceclaims", &format!("default/{name}")).is_some(), "{status}");
    assert_eq!(api.get("resourceclaims", "other/forged"), Some(forged));
}

#[tokio::test(start_paused = true)]
async fn missing_template_is_reported() {
    let api = FakeApi::new();
    api.seed(pod("p", json!({})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let want = "Pod default/p Warning FailedResourceClaimCreation PodResourceClaim gpu: resource claim template \"t\": \
        resourceclaimtemplate.resource.k8s.io \"t\" not found";
    assert_eq!(api.events(), [want]);
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        // An earlier process has created the claim, and has not written its name yet.
        api.seed(claim("p-gpu-1", json!({"status": {"allocation": {}}})));
        api.seed(pod("p", json!({"spec": {"nodeName": "n"}})));
        api.seed(claim(
            "shared",
            json!({"metadata": {"ownerReferences": [], "annotations": {}, "finalizers": [FINALIZER]},
                "status": {"allocation": {}, "reservedFor": consumers(&["p"])}}),
        ));
    };
    let act = |api: &FakeApi| {
        api.delete("pods", "default/p");
    };
    survives_faults(&[run], Options::default(), seed, act).await;
}
