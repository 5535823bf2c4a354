//! Deletes: grace periods, finalizers, preconditions, propagation, collections.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use orlop_store::memory::{Memory, MemoryOptions};
use serde_json::{Value, json};

use super::racy::Racy;
use super::rig::{CONFIG_MAPS, Rig, text, version};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn pod(rig: &Rig, name: &str, node: &str, finalizers: Value) {
    let body = json!({
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    rig.post(PODS, body).await.expect(201);
}

/// The kubelet of a pod removes it as soon as it sees the mark, possibly before the delete that made the mark.
#[tokio::test]
async fn delete_succeeds_if_another_client_removes_the_marked_object() {
    let store = Arc::new(Racy::new(Memory::with(MemoryOptions::default())));
    let rig = Rig::on(store.clone()).await;
    pod(&rig, "p", "n", json!([])).await;
    rig.config_map("c", json!({})).await;
    store.removes_first.store(true, Ordering::Relaxed);
    let answer = rig.delete(&format!("{PODS}/p"), json!({"gracePeriodSeconds": 0})).await.expect(200).json();
    assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 0);
    rig.get(&format!("{PODS}/p")).await.expect(404);
    // Nothing was marked: the other client has deleted the object.
    rig.delete(&format!("{CONFIG_MAPS}/c"), Value::Null).await.expect(404);
}

#[tokio::test]
async fn grace_period_of_a_pod_follows_the_options() {
    for (case, node, options, seconds, gone) in [
        ("1 the pod's own", "n", Value::Null, 30, false),
        ("2 as asked", "n", json!({"gracePeriodSeconds": 7}), 7, false),
        ("3 at once", "n", json!({"gracePeriodSeconds": 0}), 0, true),
        ("4 below zero is one", "n", json!({"gracePeriodSeconds": -3}), 1, false),
        ("5 not scheduled", "", json!({"gracePeriodSeconds": 7}), 0, true),
    ] {
        let rig = Rig::new().await;
        pod(&rig, "p", node, json!([])).await;
        let from = rig.head();
        let answer = rig.delete(&format!("{PODS}/p"), options).await.expect(200).json();
        assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], seconds, "{case}");
        assert_eq!(answer["metadata"]["generation"], 2, "{case}: the end of a pod is a change of it");
        let at = format!("2026-01-01T12:00:{seconds:02}Z");
        assert_eq!(text(&answer, "/metadata/deletionTimestamp"), at, "{case}");
        rig.get(&format!("{PODS}/p")).await.expect(if gone { 404 } else { 200 });
        let mut watch = rig.watch(&format!("{PODS}?watch=1&resourceVersion={from}")).await;
        assert_eq!(watch.short().await, "MODIFIED p", "{case}: watchers see the mark first");
        if gone {
            assert_eq!(watch.short().await, "DELETED p", "{case}");
        }
    }
}

#[tokio::test]
async fn grace_period_can_only_be_shortened() {
    let rig = Rig::new().await;
    pod(&rig, "p", "n", json!([])).await;
    let target = format!("{PODS}/p");
    let first = rig.delete(&target, Value::Null).await.expect(200).json();
    rig.advance(Duration::from_secs(5));
    let same = rig.delete(&target, json!({"gracePeriodSeconds": 60})).await.expect(200).json();
    assert_eq!(same, first, "more time is not to be had");
    let shorter = rig.delete(&target, json!({"gracePeriodSeconds": 10})).await.expect(200).json();
    assert_eq!(text(&shorter, "/metadata/deletionTimestamp"), "2026-01-01T12:00:10Z");
    rig.delete(&target, json!({"gracePeriodSeconds": 0})).await.expect(200);
    rig.get(&target).await.expect(404);
}

#[tokio::test]
async fn finalizers_delay_the_removal() {
    let rig = Rig::new().await;
    let target = format!("{CONFIG_MAPS}/a");
    let body = json!({"metadata": {"name": "a", "finalizers": ["x.y/z"]}});
    rig.post(CONFIG_MAPS, body).await.expect(201);
    let held = rig.delete(&target, Value::Null).await.expect(200).json();
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    let before = rig.head();
    assert_eq!(rig.delete(&target, Value::Null).await.expect(200).json(), held);
    assert_eq!(rig.head(), before, "once more changes nothing");
    let more = rig.patch(&target, "merge", json!({"metadata": {"finalizers": ["x.y/z", "x.y/more"]}})).await;
    assert_eq!(more.expect(422).reason(), "Invalid");
    let again = rig.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await.expect(409);
    assert_eq!(text(&again.json(), "/message"), "object is being deleted: configmaps \"a\" already exists");

    let from = rig.head();
    let dry = format!("{target}?dryRun=All");
    rig.patch(&dry, "merge", json!({"metadata": {"finalizers": null}})).await.expect(200);
    rig.get(&target).await.expect(200);
    let last =
        rig.patch(&target, "merge", json!({"metadata": {"finalizers": null}})).await.expect(200).json();
    assert_eq!(version(&last), version(&held), "it was never stored like this");
    rig.get(&target).await.expect(404);
    let mut watch = rig.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).await;
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], version(&event["object"])), (&json!("DELETED"), rig.head().to_string()));
    assert_eq!(event["object"]["metadata"]["finalizers"], json!(["x.y/z"]), "as it was last");
}

#[tokio::test]
async fn preconditions_and_delete_options_are_checked() {
    let rig = Rig::new().await;
    let target = format!("{CONFIG_MAPS}/a");
    let made = rig.config_map("a", json!({})).await;
    let before = rig.head();
    for (case, options, code) in [
        ("1 another uid", json!({"preconditions": {"uid": "u"}}), 409),
        ("2 another version", json!({"preconditions": {"resourceVersion": "1"}}), 409),
        (
            "3 right uid, wrong version",
            json!({"preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": "1"}}),
            409,
        ),
        ("4 no such policy", json!({"propagationPolicy": "Bogus"}), 422),
        ("5 both ways", json!({"propagationPolicy": "Orphan", "orphanDependents": true}), 422),
        ("6 no such dry run", json!({"dryRun": ["Some"]}), 422),
        ("7 not an object", json!([1]), 400),
        ("8 an unknown field", json!({"dryRun": ["All"], "what": 1}), 200),
    ] {
        assert_eq!(rig.delete(&target, options).await.code, code, "{case}");
        assert_eq!(rig.head(), before, "{case}");
    }
    for (case, query, code) in [
        ("9 in the query", "dryRun=All&gracePeriodSeconds=0", 200),
        ("10 no number", "gracePeriodSeconds=abc", 400),
        ("11 no such policy", "propagationPolicy=Bogus", 422),
    ] {
        assert_eq!(rig.delete(&format!("{target}?{query}"), Value::Null).await.code, code, "{case}");
        assert_eq!(rig.head(), before, "{case}");
    }
    let right = json!({"preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": version(&made)}});
    let gone = rig.delete(&target, right).await.expect(200).json();
    assert_eq!(gone["details"]["uid"], made["metadata"]["uid"]);
}

#[tokio::test]
async fn propagation_policy_sets_the_finalizers() {
    for (case, finalizers, options, want) in [
        ("1 orphan", json!([]), json!({"propagationPolicy": "Orphan"}), json!(["orphan"])),
        ("2 the old word", json!([]), json!({"orphanDependents": true}), json!(["orphan"])),
        (
            "3 foreground",
            json!([]),
            json!({"propagationPolicy": "Foreground"}),
            json!(["foregroundDeletion"]),
        ),
        (
            "4 one for the other",
            json!(["orphan"]),
            json!({"propagationPolicy": "Foreground"}),
            json!(["foregroundDeletion"]),
        ),
        ("5 nothing said keeps what is there", json!(["orphan"]), json!({}), json!(["orphan"])),
        ("6 background", json!(["orphan"]), json!({"propagationPolicy": "Background"}), Value::Null),
        (
            "7 others stay",
            json!(["a.b/c"]),
            json!({"propagationPolicy": "Orphan"}),
            json!(["a.b/c", "orphan"]),
        ),
    ] {
        let rig = Rig::new().await;
        let body = json!({"metadata": {"name": "a", "finalizers": finalizers}});
        rig.post(CONFIG_MAPS, body).await.expect(201);
        let target = format!("{CONFIG_MAPS}/a");
        rig.delete(&target, options).await.expect(200);
        let left = rig.get(&target).await;
        if want.is_null() {
            assert_eq!(left.code, 404, "{case}");
        } else {
            assert_eq!(left.expect(200).json()["metadata"]["finalizers"], want, "{case}");
        }
    }
    let rig = Rig::new().await;
    let body = json!({"metadata": {"name": "a", "finalizers": ["a.b/c"]}});
    rig.post(CONFIG_MAPS, body).await.expect(201);
    rig.delete(&format!("{CONFIG_MAPS}/a"), json!({"orphanDependents": false})).await.expect(202);
}

#[tokio::test]
async fn collection_delete_respects_selector_and_limit() {
    let rig = Rig::new().await;
    for n in 0..6 {
        rig.config_map(&format!("c{n}"), json!({"half": (n % 2).to_string()})).await;
    }
    rig.delete(&format!("{CONFIG_MAPS}?labelSelector=half%3D%3D%3D1"), Value::Null).await.expect(400);
    assert_eq!(rig.get(CONFIG_MAPS).await.names().len(), 6, "a bad selector deletes nothing");
    let wrong = json!({"preconditions": {"uid": "u"}});
    rig.delete(CONFIG_MAPS, wrong).await.expect(409);
    assert_eq!(rig.get(CONFIG_MAPS).await.names().len(), 6, "conflicts are reported, as upstream");
    let odd = rig.delete(&format!("{CONFIG_MAPS}?labelSelector=half%3D1"), Value::Null).await.expect(200);
    assert_eq!(odd.names(), ["c1", "c3", "c5"]);
    let page = rig.delete(&format!("{CONFIG_MAPS}?limit=2"), Value::Null).await.expect(200);
    assert_eq!(page.names(), ["c0", "c2"]);
    let token = text(&page.json(), "/metadata/continue");
    let rest = rig.delete(&format!("{CONFIG_MAPS}?limit=2&continue={token}"), Value::Null).await.expect(200);
    assert_eq!(rest.names(), ["c4"]);
    assert!(rig.get(CONFIG_MAPS).await.names().is_empty());
}

#[tokio::test]
async fn finalized_namespace_is_removed() {
    let rig = Rig::new().await;
    rig.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.expect(201);
    let target = "/api/v1/namespaces/n";
    let other = json!({"preconditions": {"resourceVersion": "1"}});
    let refused = rig.delete(target, other).await.expect(409).json();
    let text_of = text(&refused, "/message");
    assert!(
        text_of.contains("on namespaces \"n\": Precondition failed: ResourceVersion in precondition: 1,")
    );
    let held = rig.delete(target, Value::Null).await.expect(200).json();
    assert_eq!(text(&held, "/status/phase"), "Terminating");
    assert!(held["metadata"].get("deletionGracePeriodSeconds").is_none());
    let inside = rig.post("/api/v1/namespaces/n/configmaps", json!({"metadata": {"name": "a"}})).await;
    assert_eq!(inside.expect(403).json()["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let mut body = held.clone();
    body["spec"]["finalizers"] = json!([]);
    body["metadata"]["namespace"] = "odd".into();
    body["metadata"]["labels"]["not a key"] = "x".into();
    rig.put(&format!("{target}/finalize"), &body).await.expect(422);
    body["metadata"]["labels"] = held["metadata"]["labels"].clone();
    rig.put(&format!("{target}/finalize?dryRun=All"), &body).await.expect(200);
    rig.get(target).await.expect(200);
    rig.put(&format!("{target}/finalize"), &body).await.expect(200);
    rig.get(target).await.expect(404);
    rig.delete("/api/v1/namespaces/default", Value::Null).await.expect(403);
}
