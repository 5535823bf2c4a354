use serde_json::json;

use super::*;
use crate::managed_fields::fields_v1::{parse, print};
use crate::managed_fields::testing::{map, struct_type};

const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";

#[test]
fn applied_values_are_merged_into_live_values() {
    for (name, schema, live, applied, expected) in [
        (
            "keys",
            CONFIG_MAP,
            json!({"data": {"a": "1", "b": "1"}}),
            json!({"data": {"b": "2", "c": "3"}}),
            json!({"data": {"a": "1", "b": "2", "c": "3"}}),
        ),
        (
            "nothing applied",
            CONFIG_MAP,
            json!({"data": {"a": "1"}}),
            json!({"data": {}}),
            json!({"data": {"a": "1"}}),
        ),
        (
            "null applied",
            CONFIG_MAP,
            json!({"data": {"a": "1"}}),
            json!({"data": null}),
            json!({"data": {"a": "1"}}),
        ),
        (
            "null for a leaf",
            CONFIG_MAP,
            json!({"data": {"a": "1"}}),
            json!({"data": {"a": null}}),
            json!({"data": {"a": null}}),
        ),
        (
            "a unit",
            POD_SPEC,
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"b": "2"}}),
            json!({"nodeSelector": {"b": "2"}}),
        ),
        (
            "items",
            POD_SPEC,
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
            json!({"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]}),
        ),
        (
            "items by keys with defaults",
            "io.k8s.api.core.v1.Container",
            json!({"ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]}),
            json!({"ports": [{"containerPort": 80, "name": "x"}]}),
            json!({"ports": [{"containerPort": 80, "protocol": "TCP", "name": "x"}, {"containerPort": 80, "protocol": "UDP"}]}),
        ),
    ] {
        assert_eq!(Value::Object(merge(struct_type(schema), &map(live), &map(applied))), expected, "{name}");
    }
}

/// Each letter is an item; a capital letter is an item in both merged lists.
#[test]
fn merged_items_follow_the_applied_order() {
    for (live, applied, expected) in [
        ("abc", "", "abc"),
        ("", "abc", "abc"),
        ("abc", "abc", "abc"),
        ("abc", "cba", "cba"),
        ("ab", "cd", "abcd"),
        ("ac", "bc", "abc"),
        ("abcd", "db", "acdb"),
        ("abc", "xb", "axbc"),
        ("aab", "b", "aab"),
    ] {
        let list =
            |names: &str| -> Vec<Value> { names.chars().map(|name| json!(format!("a/{name}"))).collect() };
        let object = |names: &str| map(json!({"metadata": {"finalizers": list(names)}}));
        let merged = merge(struct_type(CONFIG_MAP), &object(live), &object(applied));
        assert_eq!(merged["metadata"]["finalizers"], Value::from(list(expected)), "{live} + {applied}");
    }
}

#[test]
fn owned_paths_are_removed() {
    let object = json!({
        "containers": [{"name": "a", "image": "1", "env": [{"name": "E"}]}, {"name": "b"}],
        "nodeSelector": {"a": "1"}, "hostname": "h",
    });
    for (name, paths, expected) in [
        (
            "a field",
            json!({"f:hostname": {}}),
            json!({"containers": object["containers"], "nodeSelector": {"a": "1"}}),
        ),
        (
            "an item",
            json!({"f:containers": {"k:{\"name\":\"b\"}": {}}}),
            json!({"containers": [object["containers"][0]], "nodeSelector": {"a": "1"}, "hostname": "h"}),
        ),
        (
            "the last item",
            json!({"f:containers": {"k:{\"name\":\"a\"}": {"f:env": {"k:{\"name\":\"E\"}": {}}}}}),
            json!({"containers": [{"name": "a", "image": "1", "env": null}, {"name": "b"}], "nodeSelector": {"a": "1"}, "hostname": "h"}),
        ),
        ("what is not there", json!({"f:containers": {"k:{\"name\":\"z\"}": {}}, "f:z": {}}), object.clone()),
    ] {
        let paths = parse(&paths).unwrap_or_default();
        let left = remove(struct_type(POD_SPEC), &map(object.clone()), &paths);
        assert_eq!(Value::Object(left), expected, "{name}");
    }
}

#[test]
fn struct_fields_above_paths_are_added() {
    let paths =
        parse(&json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {"f:x": {}}})).unwrap_or_default();
    let expected =
        json!({"f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}}, "f:data": {".": {}, "f:x": {}}});
    assert_eq!(print(&with_fields_above(struct_type(CONFIG_MAP), &paths)), expected);
    let paths =
        parse(&json!({"f:containers": {"k:{\"name\":\"a\"}": {"f:resources": {"f:limits": {"f:cpu": {}}}}}}));
    let expected = json!({"f:containers": {".": {}, "k:{\"name\":\"a\"}": {"f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}}}}}});
    assert_eq!(print(&with_fields_above(struct_type(POD_SPEC), &paths.unwrap_or_default())), expected);
}
