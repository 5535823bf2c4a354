//! Tests of the garbage collector against the fake API server, and of the graph alone.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use orlop_apimachinery::thread_time::assert_linear;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::attempt_to_delete::{OwnerVerdict, Owners, judge};
use super::*;
use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, survives_faults};

const THIS: [Run; 1] = [run];

fn owner(name: &str, block: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("uid-{name}"), "blockOwnerDeletion": block})
}

fn map_in(namespace: &str, name: &str, owners: &[Value]) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"),
        "ownerReferences": owners}})
}

fn map(name: &str, owners: &[Value]) -> Value {
    map_in("ns", name, owners)
}

fn names(api: &FakeApi) -> Vec<String> {
    api.list("configmaps").iter().map(|o| o["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn start(api: &FakeApi) -> tokio_util::sync::DropGuard {
    api.start(&THIS, Options::default())
}

#[test]
fn verdict_follows_from_owner_states_and_dependents() {
    let one = || vec![serde_json::from_value(owner("o", true)).unwrap()];
    let owners = |solid: bool, dangling: bool, waiting: bool| Owners {
        solid: if solid { one() } else { vec![] },
        dangling: if dangling { one() } else { vec![] },
        waiting: if waiting { one() } else { vec![] },
    };
    let table = [
        (owners(true, false, false), false, OwnerVerdict::Keep),
        (owners(true, true, false), false, OwnerVerdict::Loosen),
        (owners(true, false, true), true, OwnerVerdict::Loosen),
        (owners(false, true, false), true, OwnerVerdict::Delete),
        (owners(false, false, true), true, OwnerVerdict::Foreground),
        (owners(false, true, true), true, OwnerVerdict::Foreground),
        (owners(false, false, true), false, OwnerVerdict::Delete),
        (owners(false, false, false), false, OwnerVerdict::Keep),
    ];
    for (owners, has_dependents, wanted) in table {
        assert_eq!(judge(&owners, has_dependents), wanted, "{owners:?}, dependents {has_dependents}");
    }
}

#[test]
fn update_of_an_object_with_many_owners_is_linear() {
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let kind = Arc::new(Served { resource, namespaced: true, verbs: Vec::new() });
    let versions = |owners: usize| {
        [true, false].map(|block| {
            let owners: Vec<Value> = (0..owners).map(|n| owner(&n.to_string(), block)).collect();
            let object: Meta = serde_json::from_value(map("a", &owners)).unwrap();
            Node::of(&kind, &"ns/a".into(), &object).unwrap()
        })
    };
    assert_linear("owners of an object", 1_000, versions, |versions| {
        let mut graph = Graph::default();
        versions.iter().map(|node| graph.observe(node.clone()).len()).sum::<usize>()
    });
}

#[test]
fn blocking_dependents_are_counted_as_references_change() {
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let kind = Arc::new(Served { resource, namespaced: true, verbs: Vec::new() });
    let node = |name: &str, owners: &[Value]| {
        let object: Meta = serde_json::from_value(map(name, owners)).unwrap();
        Node::of(&kind, &format!("ns/{name}").into(), &object).unwrap()
    };
    let uid = |name: &str| orlop_client::uid::Uid::from(format!("uid-{name}").as_str());
    let mut graph = Graph::default();
    let blocking = |graph: &Graph| -> Vec<String> {
        graph.blocking(&uid("o")).map(|node| node.name().to_owned()).collect()
    };
    type Step<'a> = (&'a str, Vec<Value>, &'a [&'a str]);
    let steps: [Step<'_>; 6] = [
        ("a", vec![owner("o", false)], &[]),
        ("b", vec![owner("o", true), owner("x", true)], &["b"]),
        ("a", vec![owner("o", false), owner("o", true)], &["a", "b"]),
        ("b", vec![owner("x", true)], &["a"]),
        ("a", vec![owner("o", true)], &["a"]),
        ("a", vec![owner("o", false)], &[]),
    ];
    for (number, (name, owners, wanted)) in steps.into_iter().enumerate() {
        graph.observe(node(name, &owners));
        assert_eq!(blocking(&graph), wanted, "step {number}");
    }
    graph.observe(node("a", &[owner("o", true)]));
    graph.forget(&uid("a"));
    assert!(blocking(&graph).is_empty());
}

/// Each deleted dependent asks whether another one still blocks. Those that do not block come first in the order.
#[test]
fn end_of_a_foreground_deletion_costs_linear_time() {
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let kind = Arc::new(Served { resource, namespaced: true, verbs: Vec::new() });
    let nodes = |count: usize| -> Vec<Node> {
        let node = |n: usize| {
            let name = if n.is_multiple_of(2) { format!("a{n}") } else { format!("z{n}") };
            let object: Meta = serde_json::from_value(map(&name, &[owner("o", n % 2 == 1)])).unwrap();
            Node::of(&kind, &format!("ns/{name}").into(), &object).unwrap()
        };
        (0..count).map(node).collect()
    };
    let of = orlop_client::uid::Uid::from("uid-o");
    assert_linear("dependents", 400, nodes, |nodes| {
        let mut graph = Graph::default();
        nodes.iter().for_each(|node| drop(graph.observe(node.clone())));
        let blocking = nodes.iter().filter(|node| node.name().starts_with('z'));
        let still = blocking.filter(|node| {
            graph.forget(&node.uid);
            graph.blocking(&of).next().is_some()
        });
        assert_eq!(still.count(), nodes.len() / 2 - 1);
    });
}

#[tokio::test(start_paused = true)]
async fn dependents_are_deleted_with_their_last_owner_at_every_level() {
    let api = FakeApi::new();
    for (name, owners) in
        [("a", vec![]), ("b", vec![]), ("a1", vec!["a"]), ("a2", vec!["a1"]), ("ab", vec!["a", "b"])]
    {
        let owners: Vec<Value> = owners.into_iter().map(|o| owner(o, false)).collect();
        api.seed(map(name, &owners));
    }
    let _running = start(&api);
    api.settle().await;
    assert_eq!(api.take_writes(), []);
    api.delete("configmaps", "ns/a");
    api.settle().await;
    assert_eq!(names(&api), ["ab", "b"]);
    let kept = api.get("configmaps", "ns/ab").unwrap();
    assert_eq!(
        kept["metadata"]["ownerReferences"],
        json!([owner("b", false)]),
        "the reference in vain is gone"
    );
    api.delete("configmaps", "ns/b");
    api.settle().await;
    assert_eq!(names(&api), Vec::<String>::new());
}

/// An object may name any number of owners: they are read in turns, so that the worker serves other objects meanwhile.
#[tokio::test(start_paused = true)]
async fn very_many_owners_are_read_in_turns() {
    let api = FakeApi::new();
    let absent: Vec<Value> = (0..1200).map(|n| owner(&format!("absent-{n}"), false)).collect();
    let mut kept = absent.clone();
    kept.push(owner("a", false));
    api.seed(map("a", &[]));
    api.seed(map("gone", &absent));
    api.seed(map("kept", &kept));
    let _running = start(&api);
    api.settle().await;
    assert_eq!(names(&api), ["a", "kept"]);
    let left = api.get("configmaps", "ns/kept").unwrap();
    assert_eq!(left["metadata"]["ownerReferences"], json!([owner("a", false)]));
    let requests = api.requests();
    let turns = requests.iter().filter(|request| request.to_lowercase().starts_with("patch")).count();
    assert_eq!(turns, 2 + 3);
}

#[tokio::test(start_paused = true)]
async fn claim_of_an_ephemeral_volume_is_deleted_with_its_pod() {
    let api = FakeApi::new();
    api.seed(json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": "p", "uid": "uid-p"}, "spec": {"containers": []}}));
    api.seed(json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": "p-v", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": true, "blockOwnerDeletion": true}]}}));
    let _running = start(&api);
    api.settle().await;
    api.delete("pods", "ns/p");
    api.settle().await;
    assert_eq!(api.list("persistentvolumeclaims").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dependents_of_owners_absent_at_start_or_with_another_uid_are_deleted() {
    let api = FakeApi::new();
    let mut other = owner("a", false);
    other["uid"] = json!("uid-of-an-earlier-a");
    api.seed(map("a", &[]));
    api.seed(map("old", &[other]));
    api.seed(map("lost", &[owner("never", false)]));
    api.seed(map("mine", &[owner("a", false)]));
    let _running = start(&api);
    api.settle().await;
    assert_eq!(names(&api), ["a", "mine"]);
}

#[tokio::test(start_paused = true)]
async fn owner_in_another_namespace_counts_as_absent_and_is_reported() {
    let api = FakeApi::new();
    api.seed(map_in("other", "a", &[]));
    api.seed(map("b", &[owner("a", false)]));
    api.seed(json!({"kind": "PersistentVolume", "metadata": {"name": "pv", "uid": "uid-pv", "ownerReferences": [owner("a", false)]}}));
    let _running = start(&api);
    api.settle().await;
    assert_eq!((names(&api), api.list("persistentvolumes").len()), (vec!["a".to_owned()], 0));
    let mut events = api.events();
    events.sort();
    assert_eq!(
        events,
        [
            "ConfigMap ns/b Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: ns, name: a, uid: uid-a] \
                does not exist in namespace \"ns\"",
            "PersistentVolume pv Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: , name: a, uid: uid-a] \
                does not exist in namespace \"\"",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn object_with_an_owner_of_unknown_kind_is_not_deleted() {
    let api = FakeApi::new();
    let unknown = json!({"apiVersion": "example.test/v1", "kind": "Thing", "name": "t", "uid": "u"});
    api.seed(map("a", &[unknown]));
    let _running = start(&api);
    api.settle().await;
    assert_eq!(names(&api), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_only_for_blocking_dependents() {
    let api = FakeApi::new();
    api.seed(map("a", &[]));
    let held = |mut object: Value| {
        object["metadata"]["finalizers"] = json!(["example.test/hold"]);
        object
    };
    api.seed(held(map("blocks", &[owner("a", true)])));
    api.seed(held(map("free", &[owner("a", false)])));
    let _running = start(&api);
    api.settle().await;
    api.delete_with("configmaps", "ns/a", json!({"propagationPolicy": "Foreground"}));
    api.settle().await;
    assert_eq!(names(&api), ["a", "blocks", "free"]);
    let terminating =
        |name: &str| api.get("configmaps", name).unwrap()["metadata"].get("deletionTimestamp").is_some();
    assert!(terminating("ns/blocks") && terminating("ns/free"));
    api.patch("configmaps", "ns/blocks", "", json!({"metadata": {"finalizers": null}}));
    api.settle().await;
    assert_eq!(names(&api), ["free"]);
}

#[tokio::test(start_paused = true)]
async fn dependent_that_stops_blocking_releases_its_owner() {
    let api = FakeApi::new();
    api.seed(map("a", &[]));
    let mut blocks = map("b", &[owner("a", true)]);
    blocks["metadata"]["finalizers"] = json!(["example.test/hold"]);
    api.seed(blocks);
    let _running = start(&api);
    api.delete_with("configmaps", "ns/a", json!({"propagationPolicy": "Foreground"}));
    api.settle().await;
    assert_eq!(names(&api), ["a", "b"]);
    api.patch("configmaps", "ns/b", "", json!({"metadata": {"ownerReferences": [owner("a", false)]}}));
    api.settle().await;
    assert_eq!(names(&api), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_descends_by_level_and_resolves_cycles() {
    let api = FakeApi::new();
    api.seed(map("a", &[owner("c", true)]));
    api.seed(map("b", &[owner("a", true)]));
    api.seed(map("c", &[owner("b", true)]));
    let _running = start(&api);
    api.settle().await;
    assert_eq!(names(&api).len(), 3, "a circle holds itself");
    api.delete_with("configmaps", "ns/a", json!({"propagationPolicy": "Foreground"}));
    api.settle().await;
    assert_eq!(names(&api), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn orphaned_dependents_stay_and_lose_the_reference() {
    let api = FakeApi::new();
    api.seed(map("a", &[]));
    api.seed(map("z", &[]));
    api.seed(map("b", &[owner("a", true), owner("z", false)]));
    api.seed(map("c", &[owner("a", false)]));
    let _running = start(&api);
    api.settle().await;
    api.delete_with("configmaps", "ns/a", json!({"propagationPolicy": "Orphan"}));
    api.settle().await;
    assert_eq!(names(&api), ["b", "c", "z"]);
    assert_eq!(
        api.get("configmaps", "ns/b").unwrap()["metadata"]["ownerReferences"],
        json!([owner("z", false)])
    );
    assert!(api.get("configmaps", "ns/c").unwrap()["metadata"].get("ownerReferences").is_none());
}

#[tokio::test(start_paused = true)]
async fn recreated_owner_does_not_own_the_old_dependents() {
    let api = FakeApi::new();
    api.seed(map("a", &[]));
    api.seed(map("b", &[owner("a", false)]));
    let _running = start(&api);
    api.settle().await;
    api.delete("configmaps", "ns/a");
    api.create(map("a", &[]));
    api.settle().await;
    assert_eq!(names(&api), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_watch_outage_are_collected_after_it() {
    let api = FakeApi::new();
    api.seed(map("a", &[]));
    api.seed(map("b", &[owner("a", false)]));
    let _running = start(&api);
    api.settle().await;
    api.set_away(true);
    api.delete("configmaps", "ns/a");
    api.create(map("late", &[owner("gone", false)]));
    api.disconnect(true);
    api.set_away(false);
    api.settle().await;
    assert_eq!(names(&api), Vec::<String>::new());
}

/// For random forests and deletions: exactly the objects without owner references, or with at least one surviving
/// owner, survive.
#[tokio::test(start_paused = true)]
async fn random_graphs_leave_only_objects_with_a_live_owner_or_none() {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(3..14_usize);
        let api = FakeApi::new();
        let mut owners: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for n in 0..count {
            let wanted = if n == 0 { 0 } else { random.random_range(0..=3_usize.min(n)) };
            let set: BTreeSet<usize> = (0..wanted).map(|_| random.random_range(0..n)).collect();
            let references: Vec<Value> =
                set.iter().map(|o| owner(&format!("m{o:02}"), random.random())).collect();
            api.seed(map(&format!("m{n:02}"), &references));
            owners.insert(n, set);
        }
        let _running = start(&api);
        if random.random() {
            api.settle().await;
        }
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        for _ in 0..random.random_range(1..4) {
            let victim = random.random_range(0..count);
            let policy = if random.random() { "Background" } else { "Foreground" };
            api.delete_with("configmaps", &format!("ns/m{victim:02}"), json!({"propagationPolicy": policy}));
            gone.insert(victim);
        }
        loop {
            let more: Vec<usize> = owners
                .iter()
                .filter(|(n, set)| {
                    !gone.contains(n) && !set.is_empty() && set.iter().all(|o| gone.contains(o))
                })
                .map(|(n, _)| *n)
                .collect();
            if more.is_empty() {
                break;
            }
            gone.extend(more);
        }
        for _ in 0..3 {
            api.settle().await;
        }
        let left: Vec<String> =
            (0..count).filter(|n| !gone.contains(n)).map(|n| format!("m{n:02}")).collect();
        assert_eq!(names(&api), left, "seed {seed}, owners {owners:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        for (name, owners) in [
            ("a", vec![]),
            ("b", vec![]),
            ("f", vec![]),
            ("ab", vec!["a", "b"]),
            ("a1", vec!["a"]),
            ("f1", vec!["f"]),
            ("f2", vec!["f1"]),
        ] {
            let owners: Vec<Value> = owners.into_iter().map(|o| owner(o, true)).collect();
            api.seed(map(name, &owners));
        }
        api.seed(map("o", &[]));
        api.seed(map("o1", &[owner("o", false)]));
    };
    let act = |api: &FakeApi| {
        api.delete("configmaps", "ns/a");
        api.delete_with("configmaps", "ns/f", json!({"propagationPolicy": "Foreground"}));
        api.delete_with("configmaps", "ns/o", json!({"propagationPolicy": "Orphan"}));
    };
    let api = survives_faults(&THIS, Options::default(), seed, act).await;
    assert_eq!(names(&api), ["ab", "b", "o1"]);
}
