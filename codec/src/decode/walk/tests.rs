use orlop_apimachinery::thread_time::assert_linear;
use serde_json::json;

use super::*;
use crate::decode::json::Reader;
use crate::decode::{conform, zero_object};

const CORE: &str = "io.k8s.api.core.v1.";

fn ty(name: &str) -> TypeId {
    let full = if name.contains('.') { name.to_owned() } else { format!("{CORE}{name}") };
    types().named(&full).unwrap_or_else(|| panic!("no type {full}"))
}

/// Fits a value from memory and checks that its text form gives the same result.
fn fit(name: &str, value: Value) -> Value {
    let text = value.to_string();
    let from_text = walk(&mut Reader::new(text.as_bytes()), ty(name)).expect("sound JSON");
    let conformed = conform(value, ty(name)).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(conformed.object, from_text.object);
    Value::Object(conformed.object)
}

#[test]
fn empty_values_are_omitted_or_written_as_in_upstream_structs() {
    let cases = [
        // Plain fields are omitted when empty, including lists and maps.
        (
            "PodSpec",
            json!({"containers": [], "volumes": [], "nodeSelector": {}, "hostNetwork": false, "nodeName": ""}),
            json!({"containers": null}),
        ),
        // Pointer fields stay when set.
        (
            "PodSpec",
            json!({"containers": null, "priority": 0, "enableServiceLinks": false, "securityContext": {}}),
            json!({"containers": null, "priority": 0, "enableServiceLinks": false, "securityContext": {}}),
        ),
        (
            "PersistentVolumeClaimSpec",
            json!({"storageClassName": "", "volumeMode": null, "resources": {"limits": null, "requests": {}}}),
            json!({"storageClassName": "", "resources": {}}),
        ),
        // So do pointer fields that are written as `null` when unset.
        (
            "AzureFilePersistentVolumeSource",
            json!({"secretName": "a", "shareName": "b", "secretNamespace": ""}),
            json!({"secretName": "a", "shareName": "b", "secretNamespace": ""}),
        ),
        // Nulls in lists and maps become zero values.
        ("ConfigMap", json!({"data": {"k": null}}), json!({"metadata": {}, "data": {"k": ""}})),
        ("PodSpec", json!({"containers": [null]}), json!({"containers": [{"name": "", "resources": {}}]})),
        (
            "VolumeResourceRequirements",
            json!({"requests": {"storage": null}}),
            json!({"requests": {"storage": "0"}}),
        ),
        // A null or zero time is unset; a time that is always written becomes null.
        (
            "ContainerStateTerminated",
            json!({"exitCode": 0, "startedAt": "0001-01-01T00:00:00Z"}),
            json!({"exitCode": 0, "startedAt": null, "finishedAt": null}),
        ),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
            json!({"creationTimestamp": null, "deletionTimestamp": null, "generation": 0, "labels": {"a": ""}}),
            json!({"labels": {"a": ""}}),
        ),
        ("HTTPGetAction", json!({"port": "80", "path": ""}), json!({"port": "80"})),
        ("HTTPGetAction", json!({}), json!({"port": 0})),
        ("Secret", json!({"data": {"a": ""}}), json!({"metadata": {}, "data": {"a": ""}})),
    ];
    for (name, value, want) in cases {
        let text = value.to_string();
        assert_eq!(fit(name, value), want, "{name} {text}");
    }
}

#[test]
fn free_form_values_are_unchanged() {
    let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "n": [1, null, 2.5, ""]});
    let entry = json!({"fieldsV1": fields.clone()});
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";
    assert_eq!(fit(meta, entry), json!({"fieldsV1": fields}));
}

/// Parsers that stop at 128 levels can read every accepted value back, also inside an event or a list.
#[test]
fn values_nested_too_deeply_are_rejected() {
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";
    let schema = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let lists = |times: usize| format!("{{\"fieldsV1\":{}{}}}", "[".repeat(times), "]".repeat(times));
    let structs =
        |times: usize| format!("{}{}", "{\"not\":".repeat(times), "{}".to_owned() + &"}".repeat(times));
    for (case, name, text, fits) in [
        ("1 free-form", meta, lists(100), true),
        ("2 free-form, one more", meta, lists(101), false),
        ("3 free-form, many more", meta, lists(9_000), false),
        ("4 a type that holds itself", schema, structs(100), true),
        ("5 such a type, one more", schema, structs(101), false),
        ("6 such a type, many more", schema, structs(9_000), false),
    ] {
        let Some(id) = types().named(name) else {
            assert_eq!(name, schema, "{case}");
            continue;
        };
        let walked = walk(&mut Reader::new(text.as_bytes()), id).expect("sound JSON");
        match walked.misfit {
            None => {
                assert!(fits, "{case}");
                let shown = Value::Object(walked.object).to_string();
                let around = format!("[[[[{shown}]]]]");
                serde_json::from_str::<Value>(&around).unwrap_or_else(|error| panic!("{case}: {error}"));
            }
            Some(why) => assert!(!fits && why.contains("more than 100 levels deep"), "{case}: {why}"),
        }
    }
}

#[test]
fn zero_objects_match_watch_bookmarks() {
    let cases = [
        ("Pod", json!({"metadata": {}, "spec": {"containers": null}, "status": {}})),
        ("PersistentVolumeClaim", json!({"metadata": {}, "spec": {"resources": {}}, "status": {}})),
        ("ConfigMap", json!({"metadata": {}})),
        ("io.k8s.api.storage.v1.CSINode", json!({"metadata": {}, "spec": {"drivers": null}})),
    ];
    for (name, want) in cases {
        assert_eq!(zero_object(ty(name)), want, "{name}");
    }
    let node = zero_object(ty("Node"));
    assert_eq!(node["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], json!(""));
}

#[test]
fn conform_lists_unknown_fields_and_removes_kind_and_version() {
    let value = json!({
        "kind": "Pod", "apiVersion": "v1",
        "spec": {"containers": [{"name": "a", "foo": 1}], "bar": {"baz": []}},
    });
    let conformed = conform(value, ty("Pod")).expect("fits");
    assert_eq!(conformed.unknown, ["spec.bar", "spec.containers[0].foo"]);
    assert_eq!(conformed.type_meta, ("v1".to_owned(), "Pod".to_owned()));
    let want = json!({
        "metadata": {}, "status": {}, "spec": {"containers": [{"name": "a", "resources": {}}]},
    });
    assert_eq!(Value::Object(conformed.object), want);
    let error = conform(json!({"spec": {"containers": {}}}), ty("Pod")).expect_err("no list");
    assert_eq!(
        error,
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"
    );
}

#[test]
fn findings_are_limited_and_reported_once() {
    let many: Vec<String> = (0..150).map(|n| format!("\"x{n}\":1")).collect();
    let text = format!("{{{}}}", many.join(","));
    let walked = walk(&mut Reader::new(text.as_bytes()), ty("ConfigMap")).expect("sound JSON");
    assert_eq!(walked.findings.len(), MAX_FINDINGS);
    let twice = br#"{"x":1,"x":2,"data":{},"data":null,"data":{"a":"b"}}"#;
    let walked = walk(&mut Reader::new(twice), ty("ConfigMap")).expect("sound JSON");
    assert_eq!(walked.findings, [Finding::Unknown("x".into()), Finding::Duplicate("data".into())]);
    assert_eq!(Value::Object(walked.object), json!({"metadata": {}, "data": {"a": "b"}}));
}

#[test]
fn field_names_in_findings_are_quoted() {
    assert_eq!(Finding::Unknown("a\"b\\c\n".into()).to_string(), r#"unknown field "a\"b\\c\n""#);
    assert_eq!(Finding::Duplicate("data.x".into()).to_string(), r#"duplicate field "data.x""#);
}

#[test]
fn repeated_members_cost_linear_time() {
    for member in [r#""nfs":null,"#, r#""rbd":null,"#, r#""csi":{"driver":"d","volumeHandle":"h"},"#] {
        let text = |n: usize| format!("{{\"spec\":{{{}\"capacity\":{{}}}}}}", member.repeat(n));
        assert_linear(member, 2_000, text, |text| {
            walk(&mut Reader::new(text.as_bytes()), ty("PersistentVolume")).expect("sound JSON").findings
        });
    }
}

#[test]
fn later_null_replaces_an_earlier_value() {
    let text = r#"{"spec":{"volumeName":null,"volumeName":"a","volumeName":null}}"#;
    let walked = walk(&mut Reader::new(text.as_bytes()), ty("PersistentVolumeClaim")).expect("sound JSON");
    assert_eq!(walked.object["spec"].get("volumeName"), None);
    assert_eq!(walked.findings, [Finding::Duplicate("spec.volumeName".to_owned())]);
}

#[test]
fn document_with_too_many_values_is_rejected() {
    let walked = |text: String| walk(&mut Reader::new(text.as_bytes()), ty("Pod")).map_err(|error| error.0);
    for item in ["{},", "null,", "{\"name\":\"a\"},"] {
        let text = |n: usize| format!("{{\"spec\":{{\"containers\":[{}{{}}]}}}}", item.repeat(n));
        assert!(walked(text(1_000)).is_ok(), "{item}");
        let error = walked(text(70_000)).expect_err("too many containers");
        assert!(error.starts_with("the document has too many values"), "{item} {error}");
    }
}

#[test]
fn accepted_document_is_accepted_again() {
    let text = |n: usize| format!("{{\"spec\":{{\"containers\":[{}{{}}]}}}}", "{},".repeat(n));
    // In the response, each container has a name and resources.
    let accepted = walk(&mut Reader::new(text(29_000).as_bytes()), ty("Pod")).expect("few enough").object;
    let again = Value::Object(accepted).to_string();
    assert!(walk(&mut Reader::new(again.as_bytes()), ty("Pod")).is_ok());
    assert!(walk(&mut Reader::new(text(30_000).as_bytes()), ty("Pod")).is_err());
}
