//! Custom resources: definitions are accepted, their kinds are served like built-in ones, and both can be
//! deleted.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::http::{Answer, Http};
use crate::harness::plane::{Layout, Plane};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

async fn server() -> (Plane, Http) {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    (plane, http)
}

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {"rule": "!has(self.size) || self.size != 13", "message": "13 is unlucky"},
                {"rule": "!has(oldSelf.color) || self.color == oldSelf.color", "message": "color is immutable"},
            ],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 100, "description": "How large it is."},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "parts": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"}, "count": {"type": "integer", "default": 1}}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        },
        "status": {"type": "object", "properties": {
            "phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    }})
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema()},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Part", "type": "string", "jsonPath": ".spec.parts[?(@.count>1)].name", "priority": 1},
                ],
                "selectableFields": [{"jsonPath": ".spec.color"}],
            }],
        },
    })
}

/// Creates a definition and waits until its kind is served.
async fn define(http: &Http, definition: &Value) {
    http.create(DEFINITIONS, definition).await;
    let name = definition["metadata"]["name"].as_str().unwrap();
    established(http, name).await;
}

async fn established(http: &Http, name: &str) -> Value {
    let is = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    let path = format!("{DEFINITIONS}/{name}");
    http.until(&path, "Established", |object| {
        object["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is))
    })
    .await
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn apply(http: &Http, manager: &str, object: &Value) -> Answer {
    let name = object["metadata"]["name"].as_str().unwrap();
    let path = format!("{WIDGETS}/{name}?fieldManager={manager}");
    let headers = [("content-type", "application/apply-patch+yaml")];
    http.send(Method::PATCH, &path, &headers, object.to_string().into()).await
}

fn message(answer: &Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn custom_kind_is_served_like_a_built_in_one() {
    let (_plane, http) = server().await;
    assert_eq!(http.get(WIDGETS).await.code, 404);
    define(&http, &definition()).await;
    // A kind can be used as soon as its definition is Established.
    let made = http.create(WIDGETS, &widget("a", json!({"size": 3, "free": {"x": [1]}}))).await;
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("Widget"), &json!("example.com/v1")));
    assert_eq!(made["spec"], json!({"size": 3, "color": "red", "free": {"x": [1]}}));
    assert_eq!(made["metadata"]["generation"], 1);

    let revision = made["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = http.watch(&format!("{WIDGETS}?watch=1&resourceVersion={revision}")).await;
    let path = format!("{WIDGETS}/a");
    let patched =
        http.patch(&path, &json!({"spec": {"size": 4}, "status": {"phase": "no"}})).await.expect(200);
    assert_eq!((&patched["metadata"]["generation"], patched.get("status")), (&json!(2), None));
    let status = json!({"spec": {"size": 9}, "status": {"phase": "Ready", "replicas": 2, "selector": "a=b"}});
    let patched = http.patch(&format!("{path}/status"), &status).await.expect(200);
    assert_eq!((&patched["metadata"]["generation"], &patched["spec"]["size"]), (&json!(2), &json!(4)));
    assert_eq!(patched["status"]["phase"], "Ready");

    let list = http.get(WIDGETS).await.expect(200);
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("WidgetList"), &json!("Widget")));
    for (selector, want) in [("spec.color=red", 1), ("spec.color=blue", 0), ("metadata.name=a", 1)] {
        let list = http.get(&format!("{WIDGETS}?fieldSelector={selector}")).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), want, "{selector}");
    }
    let refused = http.get(&format!("{WIDGETS}?fieldSelector=spec.size=4")).await;
    assert_eq!((refused.code, message(&refused).as_str()), (400, "field label not supported: spec.size"));

    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = http.send(Method::GET, &path, &table, Vec::new()).await.expect(200);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 4, null]));
    let names: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["Name", "Size", "Part"]);

    let scale = http.get(&format!("{path}/scale")).await.expect(200);
    assert_eq!((&scale["kind"], &scale["spec"]), (&json!("Scale"), &json!({"replicas": 4})));
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b"}));
    let scaled = http.patch(&format!("{path}/scale"), &json!({"spec": {"replicas": 7}})).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 7);
    let object = http.get(&path).await.expect(200);
    assert_eq!((&object["spec"]["size"], &object["metadata"]["generation"]), (&json!(7), &json!(3)));

    for (accept, code, content_type) in [
        ("application/vnd.kubernetes.protobuf,application/json", 200, "application/json"),
        ("application/vnd.kubernetes.protobuf", 406, "application/vnd.kubernetes.protobuf"),
    ] {
        let answer = http.send(Method::GET, &path, &[("accept", accept)], Vec::new()).await;
        assert_eq!((answer.code, answer.header("content-type")), (code, content_type), "{accept}");
    }

    let gone = http.delete(&path).await.expect(200);
    assert_eq!((&gone["kind"], &gone["details"]["kind"]), (&json!("Status"), &json!("widgets")));
    let events = watch.until("the end", |event| event["type"] == "DELETED").await;
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]);
    assert!(events.iter().all(|event| event["object"]["kind"] == "Widget"));
}

#[tokio::test]
async fn invalid_custom_objects_are_rejected() {
    let (_plane, http) = server().await;
    define(&http, &definition()).await;
    let one = "Widget.example.com \"x\" is invalid: ";
    for (case, spec, want) in [
        (
            "1 type",
            json!({"size": "x"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            "2 limit",
            json!({"size": 101}),
            "spec.size: Invalid value: 101: spec.size in body should be less than or equal to 100",
        ),
        (
            "3 enum",
            json!({"color": "green"}),
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        ),
        ("4 required", json!({"parts": [{"count": 2}]}), "spec.parts[0].name: Required value"),
        (
            "5 twice",
            json!({"parts": [{"name": "p"}, {"name": "p"}]}),
            "spec.parts[1]: Duplicate value: {\"name\":\"p\"}",
        ),
        ("6 rule", json!({"size": 13}), "spec: Invalid value: 13 is unlucky"),
    ] {
        let answer = http.post(WIDGETS, &widget("x", spec)).await;
        assert_eq!(answer.code, 422, "{case}: {}", answer.text());
        assert!(message(&answer).starts_with(one), "{case}: {}", message(&answer));
        assert!(message(&answer).contains(want), "{case}: {}", message(&answer));
        let unchecked = message(&answer).contains("some validation rules were not checked");
        let blocks = ["1 type", "3 enum", "4 required"].contains(&case);
        assert_eq!(unchecked, blocks, "{case}: {}", message(&answer));
    }

    let mut loose = widget("x", json!({"size": 1, "odd": 1}));
    let strict = http.post(&format!("{WIDGETS}?fieldValidation=Strict"), &loose).await;
    let want = "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.odd\"";
    assert_eq!((strict.code, message(&strict).as_str()), (400, want));
    let warned = http.post(WIDGETS, &loose).await;
    assert_eq!((warned.code, warned.header("warning")), (201, "299 - \"unknown field \\\"spec.odd\\\"\""));
    assert_eq!(warned.json()["spec"].get("odd"), None);
    loose["kind"] = Value::Null;
    assert_eq!(http.post(WIDGETS, &loose).await.code, 400);

    let path = format!("{WIDGETS}/x");
    let mut object = http.get(&path).await.expect(200);
    object["spec"]["color"] = "blue".into();
    let answer = http.put(&path, &object).await;
    assert_eq!(answer.code, 422);
    assert!(message(&answer).contains("spec: Invalid value: color is immutable"), "{}", message(&answer));
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let answer = http.put(&path, &object).await;
    let want = "widgets.example.com \"x\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!((answer.code, message(&answer).as_str()), (422, want));
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(http.send(Method::PATCH, &path, &headers, b"{}".to_vec()).await.code, 415);

    for (case, change, want) in [
        ("1 an expression", json!({"rule": "self.size >"}), "compilation failed"),
        ("2 a function", json!({"rule": "frob(self)"}), "undeclared reference to 'frob'"),
    ] {
        let mut bad = definition();
        bad["metadata"]["name"] = "gadgets.example.com".into();
        bad["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
        bad["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = json!([change]);
        let answer = http.post(DEFINITIONS, &bad).await;
        let place = "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule";
        assert_eq!(answer.code, 422, "{case}");
        assert!(
            message(&answer).contains(place) && message(&answer).contains(want),
            "{case}: {}",
            message(&answer)
        );
    }
}

#[tokio::test]
async fn managers_share_an_object_by_its_schema() {
    let (_plane, http) = server().await;
    define(&http, &definition()).await;
    let one = widget("a", json!({"size": 1, "parts": [{"name": "p", "count": 2}]}));
    assert_eq!(apply(&http, "one", &one).await.code, 201);
    let two = widget("a", json!({"parts": [{"name": "q"}], "free": {"k": {"x": 1}}}));
    let both = apply(&http, "two", &two).await.expect(200);
    assert_eq!(both["spec"]["parts"], json!([{"name": "p", "count": 2}, {"name": "q", "count": 1}]));
    let conflict = apply(&http, "two", &widget("a", json!({"size": 2}))).await;
    let want = "Apply failed with 1 conflict: conflict with \"one\": .spec.size";
    assert_eq!((conflict.code, message(&conflict).as_str()), (409, want));
    // Fields that are no longer applied are removed, item by item and key by key.
    let left = apply(&http, "two", &widget("a", json!({"free": {}}))).await.expect(200);
    assert_eq!(left["spec"]["parts"], json!([{"name": "p", "count": 2}]));
    let again = apply(&http, "one", &one).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"]);
    let unknown = apply(&http, "one", &widget("a", json!({"odd": 1}))).await;
    assert_eq!(unknown.code, 500);
    assert!(message(&unknown).ends_with(".spec.odd: field not declared in schema"), "{}", message(&unknown));
}

#[tokio::test]
async fn openapi_and_versions_follow_the_definition() {
    let (_plane, http) = server().await;
    let index = async || http.get("/openapi/v3").await.expect(200)["paths"]["apis/example.com/v1"].clone();
    assert_eq!(index().await, Value::Null);
    define(&http, &definition()).await;
    let before = index().await;
    let document = http.get("/openapi/v3/apis/example.com/v1").await.expect(200);
    let shown = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(shown["properties"]["spec"]["properties"]["size"]["description"], "How large it is.");
    let old = http.get("/openapi/v2").await.expect(200);
    assert!(
        old["definitions"]["com.example.v1.Widget"].is_object()
            && old["definitions"]["io.k8s.api.core.v1.Pod"].is_object()
    );
    let group = http.get("/apis/example.com").await.expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let resources = http.get("/apis/example.com/v1").await.expect(200);
    let names: Vec<&Value> =
        resources["resources"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    let headers = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let all = http.send(Method::GET, "/apis", &headers, Vec::new()).await.expect(200);
    let names: Vec<&Value> =
        all["items"].as_array().unwrap().iter().map(|group| &group["metadata"]["name"]).collect();
    assert_eq!(
        names[names.len() - 2..],
        ["example.com", "snapshot.storage.k8s.io"],
        "behind all given groups"
    );

    http.create(WIDGETS, &widget("a", json!({}))).await;
    // A second version, and a default that also applies to existing objects.
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let mut next = http.get(&path).await.expect(200);
    next["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["weight"] =
        json!({"type": "integer", "default": 5});
    let mut second = next["spec"]["versions"][0].clone();
    second["name"] = "v2beta1".into();
    second["storage"] = false.into();
    next["spec"]["versions"].as_array_mut().unwrap().push(second);
    let mut watch = http.watch(&format!("{WIDGETS}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    http.put(&path, &next).await.expect(200);
    assert_eq!(watch.next().await, None, "what is watched is another kind now");
    let second = "/apis/example.com/v2beta1/namespaces/default/widgets/a";
    let object = http.until(second, "served", |object| object["spec"]["weight"] == 5).await;
    assert_eq!(object["apiVersion"], "example.com/v2beta1");
    assert_eq!(http.get(&format!("{WIDGETS}/a")).await.expect(200)["apiVersion"], "example.com/v1");
    assert_ne!(index().await, before, "the document has changed, and its hash");
    let group = http.get("/apis/example.com").await.expect(200);
    assert_eq!(group["versions"].as_array().unwrap().len(), 2);
    assert_eq!(group["preferredVersion"]["version"], "v1");
}

#[tokio::test]
async fn deleted_definition_deletes_its_objects() {
    let (mut plane, http) = server().await;
    define(&http, &definition()).await;
    http.create(WIDGETS, &widget("a", json!({}))).await;
    let mut held = widget("b", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    http.create(WIDGETS, &held).await;
    // I4
    plane.kill_and_restart().await;
    let http = plane.http();
    assert_eq!(http.get(WIDGETS).await.expect(200)["items"].as_array().unwrap().len(), 2);

    let mut other = definition();
    other["metadata"]["name"] = "others.example.com".into();
    other["spec"]["names"] = json!({"plural": "others", "kind": "Other", "shortNames": ["wd"]});
    http.create(DEFINITIONS, &other).await;
    let refused = http
        .until(&format!("{DEFINITIONS}/others.example.com"), "judged", |object| {
            object["status"]["conditions"].as_array().is_some_and(|conditions| conditions.len() == 2)
        })
        .await;
    assert_eq!(refused["status"]["conditions"][0]["reason"], "ShortNamesConflict");

    let path = format!("{DEFINITIONS}/widgets.example.com");
    let ending = http.delete(&path).await.expect(200);
    assert_eq!(ending["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    http.until_gone(&format!("{WIDGETS}/a")).await;
    let held =
        http.until(&format!("{WIDGETS}/b"), "ends", |b| b["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(held["kind"], "Widget");
    let answer = http.post(WIDGETS, &widget("c", json!({}))).await;
    let want = "create not allowed while custom resource definition is terminating";
    assert_eq!((answer.code, message(&answer).as_str()), (405, want));
    http.patch(&format!("{WIDGETS}/b"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    http.until_gone(&path).await;
    http.until_gone(WIDGETS).await;
    // The name of the deleted kind can be used again.
    let freed = established(&http, "others.example.com").await;
    assert_eq!(freed["status"]["acceptedNames"]["shortNames"], json!(["wd"]));
}

#[tokio::test]
async fn nesting_is_limited_to_a_hundred_levels() {
    let (_plane, http) = server().await;
    define(&http, &definition()).await;
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let widget = |levels: usize| widget("a", json!({"free": {"x": nested(levels)}}));
    // The widget, its spec and the free field add three levels around the lists.
    let (fits, deep) = (98, 101);
    http.create(WIDGETS, &widget(fits)).await;
    let path = format!("{WIDGETS}/a");
    let read = http.get(&path).await.expect(200);
    assert_eq!(read["spec"]["free"]["x"], nested(fits));
    let mut changed = read.clone();
    changed["spec"]["free"]["x"] = nested(deep);
    let change = json!([{"op": "add", "path": "/spec/free/x", "value": nested(deep)}]);
    for (door, method, path, content, body) in [
        ("create", Method::POST, WIDGETS, "application/json", widget(deep)),
        ("create in YAML", Method::POST, WIDGETS, "application/yaml", widget(deep)),
        ("update", Method::PUT, &path, "application/json", changed.clone()),
        ("update of the status", Method::PUT, &format!("{path}/status"), "application/json", changed),
        ("merge patch", Method::PATCH, &path, "application/merge-patch+json", widget(deep)),
        ("JSON patch", Method::PATCH, &path, "application/json-patch+json", change),
        (
            "apply",
            Method::PATCH,
            &format!("{path}?fieldManager=m&force=true"),
            "application/apply-patch+yaml",
            widget(deep),
        ),
    ] {
        let answer = http.send(method, path, &[("content-type", content)], body.to_string().into()).await;
        assert!((400..500).contains(&answer.code), "{door}: {}", answer.text());
        // YAML has its own limit, which is reached first.
        let is_yaml = content.ends_with("yaml");
        let want = if is_yaml { "is too deep" } else { "a value is nested more than 100 levels deep" };
        assert!(message(&answer).contains(want), "{door}: {}", message(&answer));
    }
    assert_eq!(http.get(&path).await.expect(200), read, "nothing of it is stored");
}

#[tokio::test]
async fn custom_objects_are_deleted_with_namespace_or_owner() {
    let plane = Plane::start().await;
    let http = plane.http();
    define(&http, &definition()).await;
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "old"}})).await;
    let old = WIDGETS.replace("/default/", "/old/");
    http.create(&old, &widget("a", json!({}))).await;
    let owner = http.create(WIDGETS, &widget("owner", json!({}))).await;
    let mut owned = json!({"metadata": {"name": "owned", "ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"]}]}});
    http.create("/api/v1/namespaces/default/configmaps", &owned).await;
    owned["apiVersion"] = "example.com/v1".into();
    owned["kind"] = "Widget".into();
    http.create(WIDGETS, &owned).await;
    http.delete("/api/v1/namespaces/old").await.expect(200);
    http.until_gone("/api/v1/namespaces/old").await;
    assert_eq!(http.get(&old).await.expect(200)["items"], json!([]));
    http.delete(&format!("{WIDGETS}/owner")).await.expect(200);
    http.until_gone("/api/v1/namespaces/default/configmaps/owned").await;
    http.until_gone(&format!("{WIDGETS}/owned")).await;
}

/// Like the group snapshots of CSI, whose API group is next to that of the built-in volume snapshots.
const SNAPSHOTS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: volumegroupsnapshots.groupsnapshot.storage.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-csi/external-snapshotter/pull/1337"}
spec:
  group: groupsnapshot.storage.k8s.io
  names:
    kind: VolumeGroupSnapshot
    listKind: VolumeGroupSnapshotList
    plural: volumegroupsnapshots
    shortNames: [vgs]
    singular: volumegroupsnapshot
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: ReadyToUse, type: boolean, jsonPath: .status.readyToUse}
    - {name: VolumeGroupSnapshotClass, type: string, jsonPath: .spec.volumeGroupSnapshotClassName}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        description: A snapshot of a group of volumes.
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [source]
            properties:
              source:
                description: What the snapshots are made of.
                type: object
                properties:
                  selector:
                    type: object
                    x-kubernetes-map-type: atomic
                    properties:
                      matchExpressions:
                        type: array
                        x-kubernetes-list-type: atomic
                        items:
                          type: object
                          required: [key, operator]
                          properties:
                            key: {type: string}
                            operator: {type: string}
                            values: {type: array, items: {type: string}, x-kubernetes-list-type: atomic}
                      matchLabels: {type: object, additionalProperties: {type: string}}
                    x-kubernetes-validations: [{rule: self == oldSelf, message: selector is immutable}]
                  volumeGroupSnapshotContentName: {type: string}
                x-kubernetes-validations:
                - rule: '!has(oldSelf.selector) || has(self.selector)'
                  message: selector is required once set
                - rule: |-
                    (has(self.selector) && !has(self.volumeGroupSnapshotContentName))
                    || (!has(self.selector) && has(self.volumeGroupSnapshotContentName))
                  message: exactly one of selector and volumeGroupSnapshotContentName must be set
              volumeGroupSnapshotClassName: {type: string}
          status:
            type: object
            properties:
              readyToUse: {type: boolean}
              creationTime: {type: string, format: date-time}
"#;

const SNAPSHOT: &str = "
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshot
metadata: {name: first, namespace: default}
spec: {volumeGroupSnapshotClassName: class, source: {selector: {matchLabels: {app: one}}}}
";

#[tokio::test]
async fn kubectl_handles_custom_kinds_like_its_own() {
    let (plane, http) = server().await;
    let kubectl = plane.kubectl();
    kubectl.apply(SNAPSHOTS).await;
    let name = "crd/volumegroupsnapshots.groupsnapshot.storage.k8s.io";
    kubectl.run(&["wait", "--for=condition=Established", "--timeout=30s", name]).await.ok();
    kubectl.apply(SNAPSHOT).await;
    assert!(kubectl.apply(SNAPSHOT).await.contains("unchanged"));
    let path = "/apis/groupsnapshot.storage.k8s.io/v1/namespaces/default/volumegroupsnapshots/first";
    let status = json!({"status": {"readyToUse": true}});
    http.patch(&format!("{path}/status"), &status).await.expect(200);
    let table = kubectl.run(&["get", "vgs"]).await.ok();
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words, ["NAME", "READYTOUSE", "VOLUMEGROUPSNAPSHOTCLASS", "first", "true", "class"]);
    let explained = kubectl.run(&["explain", "volumegroupsnapshot.spec.source"]).await.ok();
    assert!(explained.contains("What the snapshots are made of."), "{explained}");
    let source = |selector: Value| json!({"spec": {"source": {"selector": selector}}});
    let refused = http.patch(path, &source(json!({"matchLabels": {"app": "two"}}))).await;
    assert!(message(&refused).contains("selector is immutable"), "{}", message(&refused));
    let refused = http.patch(path, &source(Value::Null)).await;
    assert!(message(&refused).contains("selector is required once set"), "{}", message(&refused));
    let again =
        kubectl.run_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], SNAPSHOT).await.ok();
    assert!(again.contains("serverside-applied"), "{again}");
    kubectl.run(&["delete", "vgs", "first"]).await.ok();
    kubectl.run(&["delete", name]).await.ok();
    http.until_gone(&format!("{DEFINITIONS}/volumegroupsnapshots.groupsnapshot.storage.k8s.io")).await;
}
