#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orlop_api::registry::{KindRef, Names, Scope};
use orlop_apimachinery::thread_time::assert_linear;
use serde_json::json;

use super::*;
use crate::managed_fields::manager_name;
use crate::managed_fields::testing::{LATER, NOW, entries, kind, object, writer};

fn stored(mut object: Object) -> Object {
    object.set(&["metadata", "uid"], "u");
    object.set(&["metadata", "creationTimestamp"], NOW);
    object.set(&["metadata", "resourceVersion"], "7");
    object
}

fn created(kind: &'static dyn Kind, value: Value) -> Object {
    let mut object = object(kind, value);
    track(&writer(kind, "creator", NOW), None, &mut object);
    stored(object)
}

#[test]
fn create_owns_all_fields_except_server_metadata() {
    let maps = kind("", "configmaps");
    let map = created(
        maps,
        json!({"metadata": {"name": "a", "namespace": "n", "labels": {"l": "1"}, "generation": 1}, "data": {"k": "v"}}),
    );
    let fields = json!({"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}});
    assert_eq!(entries(&map), [(format!("creator Update@{NOW}"), fields)]);

    let empty = created(maps, json!({"metadata": {"name": "a"}}));
    assert_eq!(entries(&empty), []);

    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}});
    let fields = json!({"f:spec": {"f:accessModes": {}, "f:capacity": {".": {}, "f:storage": {}}}});
    assert_eq!(entries(&created(kind("", "persistentvolumes"), volume))[0].1, fields, "no status");
}

#[test]
fn approval_owns_conditions_and_the_signer_owns_the_certificate() {
    let requests = kind("certificates.k8s.io", "certificatesigningrequests");
    let request = json!({"metadata": {"name": "a"}, "spec": {"signerName": "a.b/c", "usages": ["any"]}});
    let live = created(requests, request.clone());
    for (subresource, want) in [("approval", "f:conditions"), ("status", "f:certificate")] {
        let mut changed = request.clone();
        changed["spec"]["usages"] = json!(["signing"]);
        changed["status"] =
            json!({"conditions": [{"type": "Approved", "status": "True"}], "certificate": "eA=="});
        let mut changed = object(requests, changed);
        changed.set(&["metadata", "managedFields"], json!(list(&live)));
        let writer = Writer { subresource, ..writer(requests, "m", LATER) };
        track(&writer, Some(&live), &mut changed);
        let found = entries(&changed).into_iter().find(|(owner, _)| owner.starts_with("m ")).unwrap();
        assert_eq!(found.0, format!("m Update/{subresource}@{LATER}"));
        assert_eq!(found.1.as_object().unwrap().keys().collect::<Vec<_>>(), ["f:status"], "{subresource}");
        assert_eq!(found.1["f:status"].as_object().unwrap().keys().collect::<Vec<_>>(), [want]);
    }
}

#[test]
fn update_owns_only_changed_fields() {
    let maps = kind("", "configmaps");
    let live = created(maps, json!({"metadata": {"name": "a"}, "data": {"k": "v", "z": "1"}}));
    let before = (format!("creator Update@{NOW}"), json!({"f:data": {".": {}, "f:k": {}, "f:z": {}}}));
    for (name, manager, data, expected) in [
        ("nothing", "other", json!({"k": "v", "z": "1"}), vec![before.clone()]),
        (
            "a value",
            "other",
            json!({"k": "w", "z": "1"}),
            vec![
                (format!("creator Update@{NOW}"), json!({"f:data": {".": {}, "f:z": {}}})),
                (format!("other Update@{LATER}"), json!({"f:data": {"f:k": {}}})),
            ],
        ),
        (
            "a value of one's own",
            "creator",
            json!({"k": "w", "z": "1"}),
            vec![(format!("creator Update@{LATER}"), before.1.clone())],
        ),
        (
            "removal",
            "other",
            json!({"z": "1"}),
            vec![(format!("creator Update@{NOW}"), json!({"f:data": {".": {}, "f:z": {}}}))],
        ),
    ] {
        let mut changed = object(maps, json!({"metadata": {"name": "a"}, "data": data}));
        track(&writer(maps, manager, LATER), Some(&live), &mut changed);
        assert_eq!(entries(&changed), expected, "{name}");
    }
}

#[test]
fn subresource_write_owns_only_fields_it_can_change() {
    let claims = kind("", "persistentvolumeclaims");
    let live =
        created(claims, json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"]}}));
    let mut changed = live.clone();
    changed.set(&["spec", "volumeName"], "v");
    changed.set(&["status", "phase"], "Bound");
    changed.set(&["metadata", "managedFields"], json!([]));
    let status = Writer { subresource: "status", ..writer(claims, "binder", LATER) };
    let mut by_status = changed.clone();
    track(&status, Some(&live), &mut by_status);
    let own = json!({"f:spec": {"f:accessModes": {}}});
    let expected = [
        (format!("creator Update@{NOW}"), own.clone()),
        (format!("binder Update/status@{LATER}"), json!({"f:status": {"f:phase": {}}})),
    ];
    assert_eq!(entries(&by_status), expected, "a subresource cannot clear the list");

    changed.set(&["metadata", "managedFields"], Value::Array(list(&live).to_vec()));
    track(&writer(claims, "binder", LATER), Some(&live), &mut changed);
    let expected = [
        (format!("creator Update@{NOW}"), own),
        (format!("binder Update@{LATER}"), json!({"f:spec": {"f:volumeName": {}}})),
    ];
    assert_eq!(entries(&changed), expected);
}

#[test]
fn client_supplied_list_replaces_or_clears_ownership() {
    let maps = kind("", "configmaps");
    let live = created(maps, json!({"metadata": {"name": "a"}, "data": {"k": "v"}}));
    let hand = json!({"manager": "hand", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}});
    let old = (format!("creator Update@{NOW}"), json!({"f:data": {".": {}, "f:k": {}}}));
    for (name, given, expected) in [
        ("none", None, vec![old.clone()]),
        ("empty", Some(json!([])), vec![]),
        ("one empty entry", Some(json!([{}])), vec![]),
        ("two empty entries", Some(json!([{}, {}])), vec![old.clone()]),
        ("no sense", Some(json!([{"manager": "x", "operation": "Frob"}])), vec![old.clone()]),
        ("a list", Some(json!([hand])), vec![("hand Apply".to_owned(), json!({"f:data": {"f:k": {}}}))]),
    ] {
        let mut changed = live.clone();
        changed.meta().remove("managedFields");
        if let Some(given) = given {
            changed.set(&["metadata", "managedFields"], given);
        }
        track(&writer(maps, "creator", LATER), Some(&live), &mut changed);
        assert_eq!(entries(&changed), expected, "{name}");
    }
    // A cleared object is not tracked again.
    let mut live = live;
    live.meta().remove("managedFields");
    let mut changed = object(maps, json!({"metadata": {"name": "a"}, "data": {"k": "w"}}));
    track(&writer(maps, "creator", LATER), Some(&live), &mut changed);
    assert_eq!(entries(&changed), []);
}

#[test]
fn write_that_changes_only_times_counts_as_no_change() {
    let maps = kind("", "configmaps");
    let live = created(maps, json!({"metadata": {"name": "a"}, "data": {"k": "v"}}));
    let mut later = live.clone();
    later.0["metadata"]["managedFields"][0]["time"] = LATER.into();
    let mut same = later.clone();
    keep_times(&mut same, &live);
    assert_eq!(same, live);
    let mut changed = later.clone();
    changed.set(&["data", "k"], "w");
    let expected = changed.clone();
    keep_times(&mut changed, &live);
    assert_eq!(changed, expected, "another value");
    let mut other = later;
    other.0["metadata"]["managedFields"][0]["manager"] = "x".into();
    let expected = other.clone();
    keep_times(&mut other, &live);
    assert_eq!(other, expected, "another owner");
}

#[test]
fn event_ownership_is_converted_between_api_versions() {
    let (core, events) = (kind("", "events"), kind("events.k8s.io", "events"));
    let live = created(core, json!({"metadata": {"name": "e"}, "message": "m", "reason": "r", "count": 1}));
    let live = events.to_shown(live);
    let mut changed = live.clone();
    changed.set(&["note"], "n");
    track(&writer(events, "other", LATER), Some(&live), &mut changed);
    assert_eq!(
        entries(&changed),
        [
            (format!("creator Update@{NOW}"), json!({"f:count": {}, "f:reason": {}})),
            (format!("other Update@{LATER}"), json!({"f:note": {}})),
        ]
    );
}

#[test]
fn manager_name_falls_back_to_user_agent() {
    let long = "x".repeat(200);
    for (given, agent, expected) in [
        ("m", "agent/1", "m"),
        ("", "agent/1.2 (linux) x", "agent"),
        ("", "my agent", "my agent"),
        ("", "a\tb\u{7f}c/1", "abc"),
        ("", "", "unknown"),
        ("", "/1", "unknown"),
        ("", &long, &long[..128]),
    ] {
        assert_eq!(manager_name(given, agent), expected, "{given:?} {agent:?}");
    }
}

#[test]
fn long_sets_are_tracked_in_linear_time() {
    let kind = kind("", "configmaps");
    let finalizers = |n: usize| -> Vec<Value> { (0..n).map(|n| format!("a/n{n:06}").into()).collect() };
    let input = |n: usize| {
        let live = created(kind, json!({"metadata": {"name": "a", "finalizers": finalizers(n)}}));
        let mut new = live.clone();
        let half: Vec<Value> = finalizers(n).into_iter().rev().step_by(2).collect();
        new.set(&["metadata", "finalizers"], half);
        (live, new)
    };
    assert_linear("finalizers", 1_000, input, |(live, new)| {
        let mut new = new.clone();
        track(&writer(kind, "other", LATER), Some(live), &mut new);
        new
    });
}

#[test]
fn write_to_an_object_with_many_owners_costs_linear_time() {
    let kind = kind("", "configmaps");
    let input = |n: usize| {
        let finalizers: Vec<Value> = (0..n).map(|n| format!("a/n{n:06}").into()).collect();
        let mut live = created(kind, json!({"metadata": {"name": "a", "finalizers": ["z/z"]}}));
        let owners: Vec<Value> = (0..n)
            .map(|n| {
                json!({"manager": format!("m{n}"), "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:finalizers": {"v:\"z/z\"": {}}}}})
            })
            .collect();
        live.set(&["metadata", "managedFields"], owners);
        let mut new = live.clone();
        new.set(&["metadata", "finalizers"], finalizers);
        (live, new)
    };
    assert_linear("owners", 300, input, |(live, new)| {
        let mut new = new.clone();
        track(&writer(kind, "other", LATER), Some(live), &mut new);
        keep_times(&mut new, live);
        new
    });
}

/// ConfigMaps with any number of versions, all of the same form. Counts the conversions.
#[derive(Debug, Default)]
struct Versioned(Arc<AtomicUsize>);

impl Kind for Versioned {
    fn names(&self) -> &Names {
        kind("", "configmaps").names()
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/maps/"
    }

    fn custom_sibling(&self, api_version: &str) -> Option<KindRef> {
        let is_served = api_version.starts_with('v');
        is_served.then(|| KindRef::Custom(Arc::new(Versioned(self.0.clone()))))
    }

    fn to_shown(&self, object: Object) -> Object {
        self.0.fetch_add(1, Ordering::Relaxed);
        object
    }
}

#[test]
fn object_is_compared_in_few_versions() {
    let owner = |n: usize, version: &str| {
        json!({"manager": format!("m{n}"), "operation": "Update", "apiVersion": format!("{version}{n}"),
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}})
    };
    // Versions that are not served, then served ones.
    let owners: Vec<Value> = (0..50).map(|n| owner(n, "x")).chain((2..60).map(|n| owner(n, "v"))).collect();
    let mut live =
        stored(object(kind("", "configmaps"), json!({"metadata": {"name": "a"}, "data": {"b": ""}})));
    live.set(&["metadata", "managedFields"], owners);
    let mut new = live.clone();
    new.set(&["data", "a"], "1");
    let many = Versioned::default();
    let writer = Writer { kind: &many, subresource: "", manager: "other", now: LATER };
    track(&writer, Some(&live), &mut new);
    assert_eq!(many.0.load(Ordering::Relaxed), 2 * MAX_VERSIONS);
    let left: Vec<String> = entries(&new).into_iter().map(|(owner, _)| owner).collect();
    assert!(left.iter().any(|owner| owner.starts_with("other Update")), "{left:?}");

    // An apply converts the object for each version a fixed number of times.
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"c": "1"}});
    let Value::Object(config) = config else { return };
    let writer = Writer { kind: &many, subresource: "", manager: "applier", now: LATER };
    let live = crate::managed_fields::apply(&writer, Some(&live), config.clone(), true).unwrap();
    many.0.store(0, Ordering::Relaxed);
    let config = Map::from_iter(config.into_iter().filter(|(name, _)| name != "data"));
    let _ = crate::managed_fields::apply(&writer, Some(&live), config, true).unwrap();
    assert!(many.0.load(Ordering::Relaxed) < 10 * MAX_VERSIONS, "{many:?}");
}
