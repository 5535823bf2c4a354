use serde_json::json;

use super::*;
use crate::managed_fields::fields_v1::print;
use crate::managed_fields::testing::{map, struct_type};

const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";

#[test]
fn invalid_configurations_are_reported_with_their_path() {
    for (schema, config, expected) in [
        (CONFIG_MAP, json!({"data": {"a": "b"}, "immutable": null}), vec![]),
        (CONFIG_MAP, json!({"zzz": 1, "zzzz": 2}), vec![".zzz: field not declared in schema"]),
        (CONFIG_MAP, json!({"metadata": {"a": 1}, "b": 2}), vec![".b: field not declared in schema"]),
        (
            CONFIG_MAP,
            json!({"data": {"a": 5, "b": true}, "immutable": "x"}),
            vec![
                ".data.a: expected string, got &value.valueUnstructured{Value:5}",
                ".data.b: expected string, got &value.valueUnstructured{Value:true}",
                ".immutable: expected boolean, got &{x}",
            ],
        ),
        (CONFIG_MAP, json!({"data": [1]}), vec![".data: expected map, got &{[1]}"]),
        (
            CONFIG_MAP,
            json!({"metadata": {"finalizers": {"a": 1}}}),
            vec![".metadata.finalizers: expected list, got &{map[a:1]}"],
        ),
        (
            CONFIG_MAP,
            json!({"metadata": {"finalizers": ["a", "a"]}}),
            vec![".metadata.finalizers: duplicate entries for key [=\"a\"]"],
        ),
        (
            CONFIG_MAP,
            json!({"metadata": {"generation": "1"}}),
            vec![".metadata.generation: expected numeric (int or float), got string"],
        ),
        (
            POD_SPEC,
            json!({"containers": [{"name": "a", "env": [{"name": "A"}, {"name": "A"}]}]}),
            vec![".containers[name=\"a\"].env: duplicate entries for key [name=\"A\"]"],
        ),
        (
            POD_SPEC,
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}]}),
            vec![
                ".containers[name=\"a\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]",
            ],
        ),
        (POD_SPEC, json!({"containers": [{"image": "i"}]}), vec![]),
        (
            POD_SPEC,
            json!({"containers": [3]}),
            vec![".containers: element 0: associative list with keys may not have non-map elements"],
        ),
        (
            POD_SPEC,
            json!({"tolerations": [{"key": "a"}, {"kee": "a"}]}),
            vec![".tolerations[1].kee: field not declared in schema"],
        ),
        (
            POD_SPEC,
            json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": 1, "memory": []}}}]}),
            vec![".containers[name=\"a\"].resources.limits.memory: expected any scalar, got &{[]}"],
        ),
    ] {
        assert_eq!(misfits(struct_type(schema), &map(config.clone())), expected, "{config}");
    }
}

#[test]
fn configuration_paths_follow_list_and_map_types() {
    for (schema, object, expected) in [
        (CONFIG_MAP, json!({"data": {"a": "1", "b": null}}), json!({"f:data": {"f:a": {}, "f:b": {}}})),
        (
            CONFIG_MAP,
            json!({"data": {}, "metadata": {"labels": null}}),
            json!({"f:data": {}, "f:metadata": {"f:labels": {}}}),
        ),
        (CONFIG_MAP, json!({"metadata": {"finalizers": []}}), json!({})),
        (
            CONFIG_MAP,
            json!({"metadata": {"finalizers": ["b", "a"]}}),
            json!({"f:metadata": {"f:finalizers": {"v:\"a\"": {}, "v:\"b\"": {}}}}),
        ),
        (
            POD_SPEC,
            json!({"containers": [{"name": "a", "resources": {}, "ports": [{"containerPort": 80}]}], "nodeSelector": {"a": "b"}}),
            json!({
                "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:resources": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}},
                "f:nodeSelector": {},
            }),
        ),
        (
            POD_SPEC,
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "a", "image": "2"}]}),
            json!({"f:containers": {"k:{\"name\":\"a\"}": {}}}),
        ),
    ] {
        assert_eq!(print(&paths(struct_type(schema), &map(object.clone()))), expected, "{object}");
    }
}

#[test]
fn undeclared_fields_of_an_open_struct_are_owned_like_keys() {
    let ty = struct_type(orlop_openapi::OPEN_OBJECT);
    let object = map(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"a": {"b": 1}, "l": [1]}}));
    let want = json!({
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:l": {}},
    });
    assert_eq!(print(&paths(ty, &object)), want);
}
