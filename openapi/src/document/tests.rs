use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn documents() -> Documents {
    let pod = ResourceDoc {
        group: "",
        version: "v1",
        kind: "Pod",
        list_kind: "PodList".to_owned(),
        plural: "pods",
        namespaced: true,
        schema: "io.k8s.api.core.v1.Pod",
        own_schema: None,
        selectable: Vec::new(),
        verbs: ALL,
        delete_returns_object: true,
        subresources: vec![
            SubresourceDoc {
                name: "status",
                group: "",
                version: "v1",
                kind: "Pod",
                schema: "io.k8s.api.core.v1.Pod",
                verbs: &["get", "patch", "update"],
            },
            SubresourceDoc {
                name: "eviction",
                group: "policy",
                version: "v1",
                kind: "Eviction",
                schema: "io.k8s.api.policy.v1.Eviction",
                verbs: &["create"],
            },
        ],
    };
    let class = ResourceDoc {
        group: "storage.k8s.io",
        kind: "StorageClass",
        list_kind: "StorageClassList".to_owned(),
        plural: "storageclasses",
        namespaced: false,
        schema: "io.k8s.api.storage.v1.StorageClass",
        subresources: Vec::new(),
        ..pod.clone()
    };
    Documents::new(&[pod, class])
}

#[test]
fn own_schemas_are_parsed_only_to_write_a_document() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let own_schema = OwnSchema::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        Some(json!({"type": "object", "properties": {"spec": {"type": "string"}}}))
    });
    let widget = ResourceDoc {
        group: "example.com",
        version: "v1",
        kind: "Widget",
        list_kind: "WidgetList".to_owned(),
        plural: "widgets",
        namespaced: true,
        schema: "com.example.v1.Widget",
        own_schema: Some(own_schema),
        selectable: vec!["spec.color"],
        verbs: ALL,
        delete_returns_object: false,
        subresources: Vec::new(),
    };
    let documents = Documents::new(&[widget]);
    assert_eq!(count.load(Ordering::Relaxed), 0);
    for _ in 0..2 {
        let document = parsed(documents.v3("apis/example.com/v1").expect("there is one"));
        let spec = &document["components"]["schemas"]["com.example.v1.Widget"]["properties"]["spec"];
        assert_eq!(*spec, json!({"type": "string"}));
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}

fn parsed(document: &Document) -> Value {
    serde_json::from_slice(&document.body).expect("documents are JSON")
}

#[test]
fn index_contains_each_document_with_its_hash() {
    let documents = documents();
    let index = parsed(&index(documents.v3_entries(), std::iter::once("apis/other.example/v1".to_owned())));
    let paths = [
        ".well-known/openid-configuration",
        "api",
        "api/v1",
        "apis",
        "apis/storage.k8s.io",
        "apis/storage.k8s.io/v1",
        "openid/v1/jwks",
        "orlop",
        "version",
    ];
    for path in paths {
        let hash = &documents.v3(path).expect("there is one").hash;
        assert_eq!(hash.len(), 128);
        assert!(hash.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()));
        let url = format!("/openapi/v3/{path}?hash={hash}");
        assert_eq!(index["paths"][path]["serverRelativeURL"], url);
    }
    let other = &index["paths"]["apis/other.example/v1"]["serverRelativeURL"];
    assert_eq!(other, "/openapi/v3/apis/other.example/v1");
    assert_eq!(index["paths"].as_object().expect("an object").len(), paths.len() + 1);
    assert!(documents.v3("apis/nothing/v1").is_none());
}

#[test]
fn schemas_contain_kinds_and_merge_rules() {
    let document = parsed(documents().v3("api/v1").expect("there is one"));
    assert_eq!(document["openapi"], "3.0.0");
    let schemas = &document["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    let kind = json!([{ "group": "", "kind": "Pod", "version": "v1" }]);
    assert_eq!(pod["x-kubernetes-group-version-kind"], kind);
    let list = &schemas["io.k8s.api.core.v1.PodList"]["x-kubernetes-group-version-kind"];
    assert_eq!(list, &json!([{ "group": "", "kind": "PodList", "version": "v1" }]));
    assert!(pod["description"].as_str().expect("a text").starts_with("Pod is a collection"));
    let spec = &pod["properties"]["spec"];
    assert_eq!(spec["allOf"], json!([{ "$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec" }]));
    assert!(spec["description"].is_string());
    let pod_spec = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"];
    let containers = &pod_spec["containers"];
    assert_eq!(containers["type"], "array");
    assert_eq!(containers["items"]["$ref"], "#/components/schemas/io.k8s.api.core.v1.Container");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(pod_spec["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(pod_spec["nodeSelector"]["additionalProperties"]["type"], "string");
    assert_eq!(pod_spec["nodeSelector"]["x-kubernetes-map-type"], "atomic");
    let grace = &pod_spec["terminationGracePeriodSeconds"];
    assert_eq!((&grace["type"], &grace["format"]), (&json!("integer"), &json!("int64")));
    let limits = &schemas["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"];
    let quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity";
    assert_eq!(limits["additionalProperties"]["$ref"], format!("#/components/schemas/{quantity}"));
    assert_eq!(schemas[quantity]["oneOf"], json!([{ "type": "number" }, { "type": "string" }]));
    assert!(schemas["io.k8s.api.policy.v1.Eviction"].is_object());
    assert!(schemas["io.k8s.api.storage.v1.StorageClass"].is_null(), "another document's");
}

#[test]
fn every_reference_resolves() {
    let documents = documents();
    for (path, _) in documents.v3_entries() {
        let document = parsed(documents.v3(path).expect("there is one"));
        check_references(&document, &document, "/components/");
    }
    let document = parsed(documents.v2_json());
    check_references(&document, &document, "/");
}

fn check_references(document: &Value, value: &Value, prefix: &str) {
    match value {
        Value::Object(members) => {
            // `$ref` may also be the name of a property, whose value is an object.
            if let Some(Value::String(reference)) = members.get("$ref") {
                let pointer = reference.strip_prefix('#').expect("references are local");
                assert!(pointer.starts_with(prefix), "{reference}");
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            members.values().for_each(|member| check_references(document, member, prefix));
        }
        Value::Array(items) => items.iter().for_each(|item| check_references(document, item, prefix)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn operation_ids_are_unique() {
    let mut seen = BTreeSet::new();
    let document = parsed(documents().v3("api/v1").expect("there is one"));
    for (path, item) in document["paths"].as_object().expect("an object") {
        for (method, operation) in item.as_object().expect("an object") {
            if let Some(id) = operation["operationId"].as_str() {
                assert!(seen.insert(id.to_owned()), "{method} {path}: {id}");
            }
        }
    }
    assert!(seen.contains("createCoreV1NamespacedPod"), "{seen:?}");
}

fn names(parameters: &Value) -> Vec<&str> {
    parameters.as_array().into_iter().flatten().filter_map(|p| p["name"].as_str()).collect()
}

#[test]
fn v2_document_has_definitions_and_paths() {
    let document = parsed(documents().v2_json());
    assert_eq!(document["swagger"], "2.0");
    let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
    assert_eq!(pod["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    // kubectl before 1.27 looks for these parameters.
    assert_eq!(names(&patch["parameters"]), ["dryRun", "fieldValidation"]);
    for path in
        ["/api/", "/api/v1/", "/apis/", "/apis/storage.k8s.io/", "/apis/storage.k8s.io/v1/", "/version/"]
    {
        assert!(document["paths"][path]["get"].is_object(), "{path}");
    }
}

/// Parses the fields of a protobuf message: number and content of the length-delimited ones, without the numbers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().expect("no end within a number");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if *first < 0x80 {
                break;
            }
        }
        value
    }
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        if tag & 7 == 0 {
            varint(&mut bytes);
            continue;
        }
        assert_eq!(tag & 7, 2, "other fields are length-delimited");
        let length = usize::try_from(varint(&mut bytes)).expect("it fits");
        let (content, rest) = bytes.split_at(length);
        bytes = rest;
        out.push((tag >> 3, content));
    }
    out
}

fn one(message: &[u8], number: u64) -> &[u8] {
    let mut found = fields(message).into_iter().filter(|(n, _)| *n == number).map(|(_, content)| content);
    let first = found.next().unwrap_or_else(|| panic!("no field {number}"));
    assert!(found.next().is_none(), "field {number} more than once");
    first
}

/// The value of an entry `{1: name, 2: value}` in a repeated field.
fn entry<'a>(message: &'a [u8], number: u64, name: &str) -> &'a [u8] {
    let entries = fields(message).into_iter().filter(|(n, _)| *n == number);
    let found = entries.map(|(_, entry)| entry).find(|entry| one(entry, 1) == name.as_bytes());
    one(found.unwrap_or_else(|| panic!("no {name}")), 2)
}

#[test]
fn v2_protobuf_document_matches_the_json() {
    let documents = documents();
    let bytes = &documents.v2_protobuf().body;
    assert_eq!(one(bytes, 1), b"2.0");
    assert_eq!(one(one(bytes, 2), 1), b"Kubernetes");
    let definitions = one(bytes, 9);
    let json = parsed(documents.v2_json());
    let count = json["definitions"].as_object().expect("an object").len();
    assert_eq!(fields(definitions).len(), count);
    let spec = entry(definitions, 1, "io.k8s.api.core.v1.PodSpec");
    assert_eq!(one(one(spec, 22), 1), b"object");
    assert_eq!(one(spec, 19), b"containers");
    let properties = one(spec, 25);
    let containers = entry(properties, 1, "containers");
    assert_eq!(one(one(containers, 22), 1), b"array");
    let items = one(one(containers, 23), 1);
    assert_eq!(one(items, 1), b"#/definitions/io.k8s.api.core.v1.Container");
    assert_eq!(one(entry(containers, 31, "x-kubernetes-patch-merge-key"), 2), b"\"name\"\n");
    let grace = entry(properties, 1, "terminationGracePeriodSeconds");
    assert_eq!(one(grace, 2), b"int64");
    let selector = one(one(entry(properties, 1, "nodeSelector"), 21), 1);
    assert_eq!(one(one(selector, 22), 1), b"string");
    let pod = entry(definitions, 1, "io.k8s.api.core.v1.Pod");
    let kind = one(entry(pod, 31, "x-kubernetes-group-version-kind"), 2);
    assert_eq!(kind, b"[{\"group\":\"\",\"kind\":\"Pod\",\"version\":\"v1\"}]\n");
    let patch = one(entry(one(bytes, 8), 2, "/api/v1/namespaces/{namespace}/pods/{name}"), 8);
    let parameters: Vec<&[u8]> =
        fields(patch).into_iter().filter(|(number, _)| *number == 8).map(|(_, content)| content).collect();
    assert_eq!(one(one(parameters[0], 2), 1), b"#/parameters/body-78PwaGsr");
    let query = one(one(one(parameters[1], 1), 2), 3);
    assert_eq!((one(query, 2), one(query, 4)), (&b"query"[..], &b"dryRun"[..]));
    let namespace = one(one(entry(one(bytes, 10), 1, "namespace-vgWSWtn3"), 2), 4);
    assert_eq!((one(namespace, 2), one(namespace, 4)), (&b"path"[..], &b"namespace"[..]));
}

#[test]
fn non_resource_endpoints_are_documented() {
    let documents = documents();
    let orlop = parsed(documents.v3("orlop").expect("there is one"));
    let paths: Vec<&String> = orlop["paths"].as_object().expect("paths").keys().collect();
    for path in ["/livez", "/readyz/{check}", "/metrics", "/orlop/snapshot", "/openapi/v3"] {
        assert!(paths.contains(&&path.to_owned()), "{path} in {paths:?}");
    }
    for (path, success, fields) in [
        ("/orlop/sign-in", "200", ["token", "user", "expires"]),
        ("/orlop/sign-in/codes", "201", ["code", "link", "expires"]),
    ] {
        let responses = &orlop["paths"][path]["post"]["responses"];
        let schema = &responses[success]["content"]["application/json"]["schema"];
        assert_eq!(schema["required"], json!(fields), "{path}");
        for error in ["401", "403", "404", "429"] {
            assert!(responses[error]["description"].is_string(), "{path} {error}");
        }
    }
    let version = parsed(documents.v3("version").expect("there is one"));
    assert_eq!(version["paths"]["/version/"]["get"]["operationId"], "getCodeVersion");
}

#[test]
fn groups_have_documents_of_their_own() {
    let documents = documents();
    for (path, endpoint) in
        [("api", "/api/"), ("apis", "/apis/"), ("apis/storage.k8s.io", "/apis/storage.k8s.io/")]
    {
        let document = parsed(documents.v3(path).unwrap_or_else(|| panic!("{path}")));
        assert!(document["paths"][endpoint]["get"].is_object(), "{path}: {document}");
    }
    assert!(documents.v3("apis/").is_none());
}

#[test]
fn custom_schemas_contain_the_fields_of_every_object() {
    let of = |schema: Value| {
        let own_schema = OwnSchema::new(move || Some(schema.clone()));
        let custom = ResourceDoc {
            group: "example.com",
            version: "v1",
            kind: "Widget",
            list_kind: "WidgetList".to_owned(),
            plural: "widgets",
            namespaced: true,
            schema: "com.example.v1.Widget",
            own_schema: Some(own_schema),
            selectable: vec!["spec.color"],
            verbs: &["get", "list"],
            delete_returns_object: false,
            subresources: Vec::new(),
        };
        Documents::new(&[custom])
    };
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"]});
    let port = json!({"x-kubernetes-int-or-string": true});
    let documents = of(json!({"type": "object", "properties": {"port": port, "object": embedded}}));
    let document = parsed(documents.v3("apis/example.com/v1").expect("there is one"));
    let schemas = &document["components"]["schemas"];
    let properties = &schemas["com.example.v1.Widget"]["properties"];
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(properties["metadata"]["allOf"], json!([{"$ref": meta}]));
    assert_eq!(properties["port"]["anyOf"], json!([{"type": "integer"}, {"type": "string"}]));
    assert_eq!(properties["object"]["required"], json!(["kind", "apiVersion"]));
    assert_eq!(properties["object"]["properties"]["metadata"]["allOf"], json!([{"$ref": meta}]));
    assert_eq!(schemas["com.example.v1.WidgetList"]["description"], "WidgetList is a list of Widget");
    for schema in ["com.example.v1.Widget", "com.example.v1.WidgetList"] {
        let selectable = &schemas[schema]["x-kubernetes-selectable-fields"];
        assert_eq!(*selectable, json!([{"fieldPath": "spec.color"}]), "{schema}");
    }

    let text = json!({"type": "string", "default": "d"});
    let documents = of(json!({"type": "object", "required": ["null", "text"], "properties": {
        "text": text, "null": {"type": "string", "nullable": true, "description": "D"}, "port": port,
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"text": text}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "list": {"type": "array", "items": text}, "map": {"type": "object", "additionalProperties": text}}}));
    let definition = &parsed(documents.v2_json())["definitions"]["com.example.v1.Widget"];
    let properties = &definition["properties"];
    let text = json!({"type": "string"});
    for (name, want) in [
        ("text", text.clone()),
        ("null", json!({"description": "D"})),
        ("port", json!({"x-kubernetes-int-or-string": true})),
        ("open", json!({"x-kubernetes-preserve-unknown-fields": true})),
        (
            "embedded",
            json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        ),
        ("list", json!({"type": "array", "items": text})),
        ("map", json!({"type": "object", "additionalProperties": text})),
    ] {
        assert_eq!(properties[name], want, "{name}");
    }
    assert_eq!(definition["required"], json!(["text"]));

    let open = of(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let definition = &parsed(open.v2_json())["definitions"]["com.example.v1.Widget"];
    assert_eq!(definition["type"], "object");
    assert_eq!(definition["properties"], Value::Null);
    let missing = parsed(of(Value::Null).v3("apis/example.com/v1").expect("there is one"));
    assert_eq!(missing["components"]["schemas"]["com.example.v1.Widget"]["properties"], Value::Null);
}
