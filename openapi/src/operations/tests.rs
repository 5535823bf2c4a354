use serde_json::{Value, json};

use super::*;
use crate::resource::{OwnSchema, SubresourceDoc};

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const PART: &[&str] = &["get", "patch", "update"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

fn sub(
    name: &'static str,
    kind: &'static str,
    schema: &'static str,
    verbs: &'static [&'static str],
) -> SubresourceDoc {
    SubresourceDoc { name, group: "", version: "v1", kind, schema, verbs }
}

fn resource(kind: &'static str, plural: &'static str, schema: &'static str) -> ResourceDoc {
    ResourceDoc {
        group: "",
        version: "v1",
        kind,
        list_kind: format!("{kind}List"),
        plural,
        namespaced: true,
        schema,
        own_schema: None,
        selectable: Vec::new(),
        verbs: ALL,
        delete_returns_object: false,
        subresources: Vec::new(),
    }
}

fn pod() -> ResourceDoc {
    const POD: &str = "io.k8s.api.core.v1.Pod";
    let eviction = SubresourceDoc {
        group: "policy",
        ..sub("eviction", "Eviction", "io.k8s.api.policy.v1.Eviction", &["create"])
    };
    let subresources = vec![
        eviction,
        sub("exec", "PodExecOptions", "", &["create", "get"]),
        sub("log", "Pod", "", &["get"]),
        sub("proxy", "PodProxyOptions", "", PROXY),
        sub("status", "Pod", POD, PART),
    ];
    ResourceDoc { delete_returns_object: true, subresources, ..resource("Pod", "pods", POD) }
}

fn component() -> ResourceDoc {
    let schema = "io.k8s.api.core.v1.ComponentStatus";
    let verbs = &["get", "list"];
    ResourceDoc { namespaced: false, verbs, ..resource("ComponentStatus", "componentstatuses", schema) }
}

fn widget() -> ResourceDoc {
    const WIDGET: &str = "com.example.stable.v1.Widget";
    ResourceDoc {
        group: "stable.example.com",
        list_kind: "Widgets".to_owned(),
        own_schema: Some(OwnSchema::new(|| None)),
        subresources: vec![SubresourceDoc {
            group: "autoscaling",
            ..sub("scale", "Scale", "io.k8s.api.autoscaling.v1.Scale", PART)
        }],
        ..resource("Widget", "widgets", WIDGET)
    }
}

fn v3_of(resource: &ResourceDoc) -> Value {
    v3::paths(&routes(resource)).into_iter().collect::<serde_json::Map<_, _>>().into()
}

fn v2_of(resource: &ResourceDoc) -> Value {
    v2::paths(&routes(resource)).into_iter().collect::<serde_json::Map<_, _>>().into()
}

fn names(parameters: &Value) -> String {
    let names = parameters.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn operations_have_the_ids_and_kinds_of_upstream() {
    let (pod, component, widget) = (v3_of(&pod()), v3_of(&component()), v3_of(&widget()));
    for (paths, path, method, action, id, kind) in [
        (&pod, "/api/v1/pods", "get", "list", "listCoreV1PodForAllNamespaces", "Pod"),
        (&pod, "/api/v1/watch/pods", "get", "watchlist", "watchCoreV1PodListForAllNamespaces", "Pod"),
        (&pod, "/api/v1/namespaces/{namespace}/pods", "get", "list", "listCoreV1NamespacedPod", "Pod"),
        (&pod, "/api/v1/namespaces/{namespace}/pods", "post", "post", "createCoreV1NamespacedPod", "Pod"),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods",
            "delete",
            "deletecollection",
            "deleteCoreV1CollectionNamespacedPod",
            "Pod",
        ),
        (
            &pod,
            "/api/v1/watch/namespaces/{namespace}/pods",
            "get",
            "watchlist",
            "watchCoreV1NamespacedPodList",
            "Pod",
        ),
        (
            &pod,
            "/api/v1/watch/namespaces/{namespace}/pods/{name}",
            "get",
            "watch",
            "watchCoreV1NamespacedPod",
            "Pod",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}",
            "put",
            "put",
            "replaceCoreV1NamespacedPod",
            "Pod",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}/status",
            "patch",
            "patch",
            "patchCoreV1NamespacedPodStatus",
            "Pod",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "post",
            "post",
            "createCoreV1NamespacedPodEviction",
            "Eviction",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}/exec",
            "post",
            "connect",
            "connectCoreV1PostNamespacedPodExec",
            "PodExecOptions",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}",
            "options",
            "connect",
            "connectCoreV1OptionsNamespacedPodProxyWithPath",
            "PodProxyOptions",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}/log",
            "get",
            "get",
            "readCoreV1NamespacedPodLog",
            "Pod",
        ),
        (
            &component,
            "/api/v1/componentstatuses",
            "get",
            "list",
            "listCoreV1ComponentStatus",
            "ComponentStatus",
        ),
        (
            &component,
            "/api/v1/componentstatuses/{name}",
            "get",
            "get",
            "readCoreV1ComponentStatus",
            "ComponentStatus",
        ),
        (
            &widget,
            "/apis/stable.example.com/v1/widgets",
            "get",
            "list",
            "listStableExampleComV1WidgetForAllNamespaces",
            "Widget",
        ),
        (
            &widget,
            "/apis/stable.example.com/v1/namespaces/{namespace}/widgets/{name}/scale",
            "put",
            "put",
            "replaceStableExampleComV1NamespacedWidgetScale",
            "Widget",
        ),
    ] {
        let operation = &paths[path][method];
        assert_eq!(operation["x-kubernetes-action"], action, "{method} {path}");
        assert_eq!(operation["operationId"], id, "{method} {path}");
        assert_eq!(operation["x-kubernetes-group-version-kind"]["kind"], kind, "{method} {path}");
    }
    let absent = [
        (&pod, "/api/v1/namespaces/{namespace}/pods/{name}/status", "post"),
        (&pod, "/api/v1/namespaces/{namespace}/pods/{name}/eviction", "get"),
        (&pod, "/api/v1/namespaces/{namespace}/pods/{name}/exec", "put"),
        (&pod, "/api/v1/namespaces/{namespace}/pods/{name}/exec/{path}", "get"),
        (&pod, "/api/v1/watch/namespaces/{namespace}/pods/{name}/status", "get"),
        (&component, "/api/v1/componentstatuses", "post"),
        (&component, "/api/v1/watch/componentstatuses", "get"),
        (&widget, "/apis/stable.example.com/v1/watch/widgets", "get"),
    ];
    for (paths, path, method) in absent {
        assert!(paths[path][method].is_null(), "{method} {path}");
    }
}

#[test]
fn parameters_of_all_operations_belong_to_the_path() {
    let (pod, widget) = (v3_of(&pod()), v3_of(&widget()));
    let list = "allowWatchBookmarks continue fieldSelector labelSelector limit pretty resourceVersion \
                resourceVersionMatch sendInitialEvents shardSelector timeoutSeconds watch";
    for (paths, path, method, of_path, of_operation) in [
        (&pod, "/api/v1/pods", "get", list, ""),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods",
            "delete",
            "namespace pretty",
            "continue dryRun fieldSelector gracePeriodSeconds ignoreStoreReadErrorWithClusterBreakingPotential \
             labelSelector limit orphanDependents propagationPolicy resourceVersion resourceVersionMatch \
             sendInitialEvents shardSelector timeoutSeconds",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}",
            "patch",
            "name namespace pretty",
            "dryRun fieldManager fieldValidation force",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "post",
            "dryRun fieldManager fieldValidation name namespace pretty",
            "",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}/exec",
            "get",
            "command container name namespace stderr stdin stdout tty",
            "",
        ),
        (
            &pod,
            "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}",
            "head",
            "name namespace path path",
            "",
        ),
        (
            &widget,
            "/apis/stable.example.com/v1/namespaces/{namespace}/widgets/{name}",
            "get",
            "name namespace pretty",
            "resourceVersion",
        ),
    ] {
        let item = &paths[path];
        assert_eq!(names(&item["parameters"]), of_path, "{path}");
        assert_eq!(names(&item[method]["parameters"]), of_operation, "{method} {path}");
        for one in item["parameters"].as_array().into_iter().flatten() {
            assert_eq!(one["schema"]["uniqueItems"], true, "{one}");
            assert_eq!(one["required"], if one["in"] == "path" { json!(true) } else { Value::Null }, "{one}");
        }
    }
}

#[test]
fn bodies_and_responses_have_the_media_types_of_upstream() {
    let (pod, widget) = (v3_of(&pod()), v3_of(&widget()));
    let keys = |value: &Value| {
        let keys = value.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        keys.collect::<Vec<_>>().join(" ")
    };
    let item = "/api/v1/namespaces/{namespace}/pods/{name}";
    let exec = "/api/v1/namespaces/{namespace}/pods/{name}/exec";
    let log = "/api/v1/namespaces/{namespace}/pods/{name}/log";
    let custom = "/apis/stable.example.com/v1/namespaces/{namespace}/widgets/{name}";
    let customs = "/apis/stable.example.com/v1/namespaces/{namespace}/widgets";
    let media = "application/json application/vnd.kubernetes.protobuf application/yaml";
    let streamed = "application/json application/json;stream=watch application/vnd.kubernetes.protobuf \
                    application/vnd.kubernetes.protobuf;stream=watch application/yaml";
    let patches = "application/apply-patch+yaml application/json-patch+json application/merge-patch+json \
                   application/strategic-merge-patch+json";
    let custom_patches =
        "application/apply-patch+yaml application/json-patch+json application/merge-patch+json";
    for (paths, path, method, body, codes, response, schema) in [
        (&pod, "/api/v1/pods", "get", "", "200 401", streamed, "PodList"),
        (&pod, item, "put", "*/*", "200 201 401", media, "Pod"),
        (&pod, item, "patch", patches, "200 201 401", media, "Pod"),
        (&pod, item, "delete", "*/*", "200 202 401", media, "Pod"),
        (&pod, log, "get", "", "200 401", &*format!("{media} text/plain"), ""),
        (&pod, exec, "post", "", "200 401", "*/*", ""),
        (
            &widget,
            custom,
            "put",
            "application/json application/yaml",
            "200 201 401",
            "application/json application/yaml",
            "Widget",
        ),
        (&widget, custom, "patch", custom_patches, "200 401", "application/json application/yaml", "Widget"),
        (
            &widget,
            custom,
            "delete",
            "application/json application/yaml",
            "200 202 401",
            "application/json application/yaml",
            "Status",
        ),
        (&widget, customs, "delete", "", "200 401", "application/json application/yaml", "Status"),
        (&widget, customs, "get", "", "200 401", "application/json application/yaml", "Widgets"),
    ] {
        let operation = &paths[path][method];
        assert_eq!(keys(&operation["requestBody"]["content"]), body, "{method} {path}");
        assert_eq!(keys(&operation["responses"]), codes, "{method} {path}");
        let content = &operation["responses"]["200"]["content"];
        assert_eq!(keys(content), response, "{method} {path}");
        for (media, content) in content.as_object().expect("a content") {
            let reference = content["schema"]["$ref"].as_str().unwrap_or_default();
            assert_eq!(reference.rsplit(['.', '/']).next(), Some(schema), "{method} {path} {media}");
        }
    }
    assert_eq!(pod[item]["patch"]["requestBody"]["required"], true);
    assert_eq!(pod[item]["delete"]["requestBody"]["required"], Value::Null);
}

#[test]
fn v2_paths_refer_to_shared_parameters() {
    let pod = v2_of(&pod());
    let shared = v2::shared_parameters();
    let item = &pod["/api/v1/namespaces/{namespace}/pods/{name}"];
    let patch = &item["patch"];
    let keys: Vec<&str> = patch["parameters"]
        .as_array()
        .expect("parameters")
        .iter()
        .map(|one| one["$ref"].as_str().or_else(|| one["name"].as_str()).expect("a name"))
        .collect();
    assert_eq!(
        keys,
        [
            "#/parameters/body-78PwaGsr",
            "dryRun",
            "#/parameters/fieldManager-7c6nTn1T",
            "fieldValidation",
            "#/parameters/force-tOGGb0Yi"
        ]
    );
    assert_eq!(patch["responses"]["201"]["schema"]["$ref"], "#/definitions/io.k8s.api.core.v1.Pod");
    assert_eq!(patch["produces"], json!(MEDIA));
    let put = item["put"]["parameters"].as_array().expect("parameters").first().expect("a body");
    assert_eq!(
        *put,
        json!({"in": "body", "name": "body", "required": true, "schema": {"$ref": "#/definitions/io.k8s.api.core.v1.Pod"}})
    );
    for (path, item) in pod.as_object().expect("paths") {
        for one in item["parameters"].as_array().into_iter().flatten() {
            if let Some(key) = one["$ref"].as_str() {
                let key = key.strip_prefix("#/parameters/").expect("a parameter");
                assert!(shared.contains_key(key), "{path} {key}");
            }
        }
    }
}
