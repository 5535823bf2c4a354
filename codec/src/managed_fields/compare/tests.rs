use std::sync::Arc;

use orlop_apimachinery::thread_time::ThreadTime;
use orlop_openapi::{Field, ListType, Merge, Presence, Scalar, Shape};
use serde_json::json;

use super::*;
use crate::managed_fields::fields_v1::print;
use crate::managed_fields::testing::{map, struct_type};

fn changes(schema: &str, old: Value, new: Value) -> (Value, Value) {
    let changes = compare(struct_type(schema), &map(old), &map(new));
    (print(&changes.written), print(&changes.removed))
}

#[test]
fn config_map_changes_are_tracked_per_key() {
    for (name, old, new, written, removed) in [
        ("nothing", json!({"data": {"a": "1"}}), json!({"data": {"a": "1"}}), json!({}), json!({})),
        (
            "a value",
            json!({"data": {"a": "1"}}),
            json!({"data": {"a": "2"}}),
            json!({"f:data": {"f:a": {}}}),
            json!({}),
        ),
        (
            "a key",
            json!({"data": {"a": "1"}}),
            json!({"data": {"a": "1", "b": ""}}),
            json!({"f:data": {"f:b": {}}}),
            json!({}),
        ),
        (
            "the first key",
            json!({}),
            json!({"data": {"b": ""}}),
            json!({"f:data": {".": {}, "f:b": {}}}),
            json!({}),
        ),
        (
            "a key gone",
            json!({"data": {"a": "1", "b": ""}}),
            json!({"data": {"a": "1"}}),
            json!({}),
            json!({"f:data": {"f:b": {}}}),
        ),
        (
            "all gone",
            json!({"data": {"a": "1"}}),
            json!({}),
            json!({}),
            json!({"f:data": {".": {}, "f:a": {}}}),
        ),
        (
            "emptied",
            json!({"data": {"a": "1"}}),
            json!({"data": {}}),
            json!({}),
            json!({"f:data": {"f:a": {}}}),
        ),
        ("an empty map", json!({}), json!({"data": {}}), json!({"f:data": {}}), json!({})),
        ("null and empty", json!({"data": null}), json!({"data": {}}), json!({"f:data": {}}), json!({})),
        (
            "null and more",
            json!({"data": null}),
            json!({"data": {"a": ""}}),
            json!({"f:data": {"f:a": {}}}),
            json!({}),
        ),
        (
            "sets",
            json!({"metadata": {"finalizers": ["a/a", "a/b"]}}),
            json!({"metadata": {"finalizers": ["a/c", "a/b"]}}),
            json!({"f:metadata": {"f:finalizers": {"v:\"a/c\"": {}}}}),
            json!({"f:metadata": {"f:finalizers": {"v:\"a/a\"": {}}}}),
        ),
        (
            "items that are owned as a whole",
            json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}),
            json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2", "name": "c"}]}}),
            json!({"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"1\"}": {}, "k:{\"uid\":\"2\"}": {}}}}),
            json!({}),
        ),
    ] {
        assert_eq!(changes("io.k8s.api.core.v1.ConfigMap", old, new), (written, removed), "{name}");
    }
}

#[test]
fn pod_changes_are_tracked_per_list_item() {
    for (name, old, new, written, removed) in [
        (
            "a container",
            json!({"containers": [{"name": "a", "image": "1"}]}),
            json!({"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "2"}]}),
            json!({"f:containers": {
                "k:{\"name\":\"a\"}": {"f:image": {}},
                "k:{\"name\":\"b\"}": {".": {}, "f:image": {}, "f:name": {}},
            }}),
            json!({}),
        ),
        (
            "another order",
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
            json!({}),
            json!({}),
        ),
        (
            "keys with defaults",
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}),
            json!({}),
            json!({"f:containers": {"k:{\"name\":\"a\"}": {"f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {"f:protocol": {}}}}}}),
        ),
        (
            "lists and maps that are one unit",
            json!({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}]}),
            json!({"nodeSelector": {"a": "c"}, "tolerations": [{"key": "a"}, {"key": "b"}]}),
            json!({"f:nodeSelector": {}, "f:tolerations": {}}),
            json!({}),
        ),
        (
            "items that stand twice from now on",
            json!({"containers": [{"name": "a", "image": "1"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "a", "image": "2"}]}),
            json!({"f:containers": {"k:{\"name\":\"a\"}": {}}}),
            json!({"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}}}}),
        ),
        (
            "items that stood twice",
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "a", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "2"}]}),
            json!({"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}}}}),
            json!({"f:containers": {"k:{\"name\":\"a\"}": {}}}),
        ),
        (
            "items that stand twice, changed",
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "a", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "2"}, {"name": "a", "image": "2"}]}),
            json!({"f:containers": {"k:{\"name\":\"a\"}": {}}}),
            json!({}),
        ),
    ] {
        assert_eq!(changes("io.k8s.api.core.v1.PodSpec", old, new), (written, removed), "{name}");
    }
}

#[test]
fn references_are_compared_whole_except_claim_ref() {
    let (written, _) = changes(
        "io.k8s.api.core.v1.PersistentVolume",
        json!({"spec": {"claimRef": {"name": "a"}}}),
        json!({"spec": {"claimRef": {"name": "a", "uid": "1"}, "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}}),
    );
    let expected = json!({"f:spec": {
        "f:claimRef": {"f:uid": {}}, "f:csi": {".": {}, "f:driver": {}, "f:nodePublishSecretRef": {}}}});
    assert_eq!(written, expected);
}

/// A struct with a name, data that is compared as a whole, and a list of such structs by name, down to a depth.
fn nested_type(depth: usize) -> Arc<StructType> {
    let text = ("name", Shape::Scalar(Scalar::String), Merge::default());
    let data = ("data", Shape::Json, Merge::default());
    let list = (depth > 0).then(|| {
        let by_name = Merge { list_type: Some(ListType::Map(vec!["name".to_owned()])), ..Merge::default() };
        ("list", Shape::List(Box::new(Shape::Inline(nested_type(depth - 1)))), by_name)
    });
    let field = |(name, shape, merge): (&str, Shape, Merge)| {
        let name = name.to_owned();
        let (presence, description) = (Presence::OmitEmpty, String::new());
        let field = Field {
            name: name.clone(),
            shape,
            presence,
            nullable: false,
            merge,
            number: None,
            description,
            required: false,
            default: None,
        };
        (name, field)
    };
    Arc::new(StructType {
        name: "nested".to_owned(),
        short_name: "nested".to_owned(),
        description: String::new(),
        fields: [Some(text), Some(data), list].into_iter().flatten().map(field).collect(),
        order: Vec::new(),
        always: Vec::new(),
        atomic: false,
        numbers: Default::default(),
        open: false,
    })
}

/// A difference at the bottom of nested lists is not searched for at each level.
#[test]
fn nested_lists_cost_linear_time() {
    let object = |depth: usize, last: &str| {
        let bottom = json!({"list": [{"name": "a", "data": vec![1; 100_000]}, {"name": last}]});
        (1..depth).fold(bottom, |below, _| json!({"list": [{"name": "a", "list": below["list"]}]}))
    };
    let cost = |depth: usize| {
        let (ty, old, new) = (nested_type(depth), map(object(depth, "x")), map(object(depth, "y")));
        let started = ThreadTime::start();
        assert!(!compare(&ty, &old, &new).is_empty());
        started.spent()
    };
    let (flat, nested) = (cost(1), cost(40));
    assert!(nested < flat * 4, "{flat:?}, {nested:?}");
}
