use orlop_api::registry;

use super::*;
use crate::decode::decode_object;

fn decode(plural: &str, media: Media, body: &str, validation: FieldValidation) -> Result<Decoded, String> {
    let kind =
        registry::BUILTIN_KINDS.iter().find(|kind| kind.names().plural == plural).expect("a known kind");
    decode_object(*kind, media, body.as_bytes(), validation).map_err(|error| {
        assert_eq!((error.code, error.reason), (400, "BadRequest"));
        error.message
    })
}

fn json(plural: &str, body: &str) -> Result<Decoded, String> {
    decode(plural, Media::Json, body, FieldValidation::Warn)
}

#[test]
fn invalid_bodies_are_rejected_with_upstream_messages() {
    let deep = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","x":{}"#, "[".repeat(10_001));
    let cases = [
        (
            "configmaps",
            "",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; \
             json parse error: unexpected end of JSON input (<empty>)",
        ),
        (
            "configmaps",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yj\n",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; \
             json parse error: invalid character 'a' looking for beginning of value \
             (61706956657273696f6e3a2076310a6b696e643a20436f6e6669674d6170 ...)",
        ),
        (
            "pods",
            r#"{"apiVersion":"v1","kind":"Pod","spec":{"priority":05}}"#,
            "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; \
             json parse error: invalid character '5' after object key:value pair \
             ({\"apiVersion\":\"v1\",\"kind\":\"Pod ...)",
        ),
        (
            "configmaps",
            &deep,
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; \
             json parse error: invalid character '[' exceeded max depth \
             ({\"apiVersion\":\"v1\",\"kind\":\"Con ...)",
        ),
        (
            "configmaps",
            "[1]",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; \
             json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b315d)",
        ),
        (
            "configmaps",
            r#"{"kind":5}"#,
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; \
             json parse error: json: cannot unmarshal number into Go struct field .kind of type string \
             ({\"kind\":5})",
        ),
        (
            "configmaps",
            r#"{"apiVersion":"a/b/c","kind":"ConfigMap"}"#,
            "the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion \
             string: a/b/c ({\"apiVersion\":\"a/b/c\",\"kind\":\" ...)",
        ),
        (
            "configmaps",
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to \
             (core.ConfigMap): unknown conversion",
        ),
        (
            "configmaps",
            r#"{"apiVersion":"v1","kind":"Nope"}"#,
            "Nope in version \"v1\" cannot be handled as a ConfigMap: no kind \"Nope\" is registered for \
             version \"v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            "storageclasses",
            r#"{"apiVersion":"storage.k8s.io/v2","kind":"StorageClass"}"#,
            "StorageClass in version \"v2\" cannot be handled as a StorageClass: no kind \"StorageClass\" is \
             registered for version \"storage.k8s.io/v2\" in scheme \
             \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            "configmaps",
            r#"{"apiVersion":"v1","kind":"Container"}"#,
            "Container in version \"v1\" cannot be handled as a ConfigMap: no kind \"Container\" is \
             registered for version \"v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            "events",
            r#"{"apiVersion":"events.k8s.io/v1","kind":"Event"}"#,
            "the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)",
        ),
        (
            "configmaps",
            r#"{"data":{"a":5}}"#,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into \
             Go struct field ConfigMap.data of type string",
        ),
    ];
    for (plural, body, want) in cases {
        let head: String = body.chars().take(60).collect();
        assert_eq!(json(plural, body).map(|_| ()), Err(want.to_owned()), "{head}");
    }
}

#[test]
fn wrong_value_type_is_reported_with_its_field() {
    let cases = [
        (
            "configmaps",
            r#"{"data":[]}"#,
            "array into Go struct field ConfigMap.data of type map[string]string",
        ),
        ("configmaps", r#"{"data":{"a":true}}"#, "bool into Go struct field ConfigMap.data of type string"),
        ("secrets", r#"{"data":{"a":1}}"#, "number into Go struct field Secret.data of type []uint8"),
        (
            "pods",
            r#"{"metadata":{"labels":{"a":1}}}"#,
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "pods",
            r#"{"spec":{"terminationGracePeriodSeconds":30.0}}"#,
            "number 30.0 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            "pods",
            r#"{"spec":{"terminationGracePeriodSeconds":9223372036854775808}}"#,
            "number 9223372036854775808 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type \
             int64",
        ),
        (
            "pods",
            r#"{"spec":{"containers":[{"name":"a"},{"name":1}]}}"#,
            "number into Go struct field Container.spec.containers.name of type string",
        ),
        ("pods", r#"{"spec":"x"}"#, "string into Go struct field Pod.spec of type v1.PodSpec"),
        // Only the first mismatch is reported, and only if the rest of the text is valid JSON.
        (
            "pods",
            r#"{"spec":{"nodeName":1,"hostname":2}}"#,
            "number into Go struct field PodSpec.spec.nodeName of type string",
        ),
    ];
    for (plural, body, want) in cases {
        let error = json(plural, body).map(|_| ()).expect_err(body);
        assert!(error.ends_with(&format!("json: cannot unmarshal {want}")), "{body}: {error}");
    }
    let error = json("pods", r#"{"spec":{"nodeName":1},"#).map(|_| ()).expect_err("unsound");
    assert!(error.contains("unexpected end of JSON input"), "{error}");
    let both = r#"{"spec":{"nodeName":1,"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}"#;
    let error = json("pods", both).map(|_| ()).expect_err("a bad quantity");
    assert!(error.ends_with("[-+]?[0-9]*)$'"), "{error}");
}

#[test]
fn missing_kind_and_version_default_to_the_path() {
    for body in
        ["{}", "null", " {} ", r#"{"kind":"ConfigMap"}"#, r#"{"apiVersion":"v1"}"#, r#"{"kind":null}"#]
    {
        let decoded = json("configmaps", body).expect(body);
        assert_eq!(decoded.object.into_value(), serde_json::json!({"metadata": {}}), "{body}");
    }
    let decoded = json("configmaps", r#"{"kind":"ConfigMap","apiVersion":"v1"}"#).expect("sound");
    assert_eq!(decoded.type_meta, ("v1".to_owned(), "ConfigMap".to_owned()));
}

#[test]
fn unknown_and_duplicate_fields_follow_field_validation() {
    let body = r#"{"apiVersion":"v1","Kind":"Pod","metadata":{"name":"a","foo":1,"foo":2,"name":"b"},
        "spec":{"containers":[{"name":"c","foo":"x","resources":{"bar":{}},"env":[{"name":"A","vlaue":"t"}]}],
        "bogus":[[{"a":[1]}]],"nodeSelector":{"k":"1","k":"2"}}}"#;
    let want = [
        r#"unknown field "Kind""#,
        r#"unknown field "metadata.foo""#,
        r#"duplicate field "metadata.name""#,
        r#"unknown field "spec.containers[0].foo""#,
        r#"unknown field "spec.containers[0].resources.bar""#,
        r#"unknown field "spec.containers[0].env[0].vlaue""#,
        r#"unknown field "spec.bogus""#,
        r#"duplicate field "spec.nodeSelector.k""#,
    ];
    let decoded = decode("pods", Media::Json, body, FieldValidation::Warn).expect("lenient");
    assert_eq!(decoded.warnings, want);
    assert_eq!(decoded.object.name(), "b");
    assert_eq!(decoded.object.str_at(&["spec", "nodeSelector", "k"]), "2");
    assert_eq!(decoded.object.at(&["spec", "bogus"]), None);
    let ignored = decode("pods", Media::Json, body, FieldValidation::Ignore).expect("lenient");
    assert_eq!(ignored.warnings, Vec::<String>::new());
    let strict = decode("pods", Media::Json, body, FieldValidation::Strict).map(|_| ());
    let want = format!(
        "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: {}",
        want.join(", ")
    );
    assert_eq!(strict, Err(want));
    let sound = r#"{"metadata":{"name":"a"}}"#;
    decode("pods", Media::Json, sound, FieldValidation::Strict).expect("nothing to complain about");
}

#[test]
fn duplicate_yaml_keys_follow_field_validation() {
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: dd\ndata:\n  k: a\n  k: b\nbogus: 1\n";
    let decoded = decode("configmaps", Media::Yaml, body, FieldValidation::Warn).expect("lenient");
    assert_eq!(decoded.warnings, [r#"line 7: key "k" already set in map"#, r#"unknown field "bogus""#]);
    assert_eq!(decoded.object.str_at(&["data", "k"]), "b");
    let strict = decode("configmaps", Media::Yaml, body, FieldValidation::Strict).map(|_| ());
    let want = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: \
                unmarshal errors:\n  line 7: key \"k\" already set in map, unknown field \"bogus\"";
    assert_eq!(strict, Err(want.to_owned()));
}

#[test]
fn options_are_decoded_with_short_error_messages() {
    const OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    let cases = [
        (
            "{nope",
            "couldn't get version/kind; json parse error: invalid character 'n' looking for beginning of \
             object key string",
        ),
        (
            r#"{"gracePeriodSeconds":"5"}"#,
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            r#"{"kind":"ConfigMap","apiVersion":"v1"}"#,
            "no kind \"ConfigMap\" is registered for version \"v1\" in scheme \
             \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        ),
    ];
    for (body, want) in cases {
        let error = decode_typed(OPTIONS, Media::Json, body.as_bytes()).expect_err(body);
        assert_eq!(error.message, want);
    }
    let body = br#"{"kind":"DeleteOptions","apiVersion":"apps/v1","bogus":1,"gracePeriodSeconds":0}"#;
    let options = decode_typed(OPTIONS, Media::Json, body).expect("sound");
    assert_eq!(Value::Object(options), serde_json::json!({"gracePeriodSeconds": 0}));
    let error =
        decode_typed("io.k8s.api.core.v1.Binding", Media::Json, br#"{"kind":"Pod","apiVersion":"v1"}"#)
            .expect_err("another kind");
    assert_eq!(
        error.message,
        "Pod in version \"v1\" cannot be handled as a Binding: converting (v1.Pod) to (core.Binding): unknown \
         conversion"
    );
    let error =
        decode_typed("io.k8s.api.core.v1.Binding", Media::Json, br#"{"target":1}"#).expect_err("number");
    assert_eq!(
        error.message,
        "Binding in version \"v1\" cannot be handled as a Binding: json: cannot unmarshal number into Go struct \
         field Binding.target of type v1.ObjectReference"
    );
}

/// Bodies sent by `kubectl create` 1.32.
#[test]
fn protobuf_bodies_from_kubectl_are_decoded() {
    let cases: [(&str, &[u8], Value); 3] = [
        (
            "namespaces",
            b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x1b\x0a\x13\x0a\x03foo\x12\0\x1a\0\"\0*\x002\x008\0B\0\
              \x12\0\x1a\x02\x0a\0\x1a\0\"\0",
            serde_json::json!({"metadata": {"name": "foo"}, "spec": {}, "status": {}}),
        ),
        (
            "configmaps",
            b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x27\x0a\x13\x0a\x02c1\x12\0\x1a\x01d\"\0*\x002\x008\0B\0\
              \x12\x06\x0a\x01a\x12\x01b\x12\x08\x0a\x02zz\x12\x02yy\x1a\0\"\0",
            serde_json::json!({"metadata": {"name": "c1", "namespace": "d"}, "data": {"a": "b", "zz": "yy"}}),
        ),
        (
            "secrets",
            b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Secret\x12\x20\x0a\x13\x0a\x02s1\x12\0\x1a\x01d\"\0*\x002\x008\0B\0\
              \x12\x07\x0a\x02pw\x12\x01x\x1a\0\x1a\0\"\0",
            serde_json::json!({"metadata": {"name": "s1", "namespace": "d"}, "data": {"pw": "eA=="}}),
        ),
    ];
    for (plural, body, want) in cases {
        let kind =
            registry::BUILTIN_KINDS.iter().find(|kind| kind.names().plural == plural).expect("a known kind");
        let decoded =
            decode_object(*kind, Media::Protobuf, body, FieldValidation::Strict).expect("it is sound");
        assert_eq!(decoded.type_meta, ("v1".to_owned(), kind.names().kind.to_owned()));
        assert_eq!(decoded.object.into_value(), want, "{plural}");
    }
}

#[test]
fn patch_result_is_decoded_by_its_own_kind_and_version() {
    let names = registry::BUILTIN_KINDS
        .iter()
        .find(|kind| kind.names().plural == "configmaps")
        .expect("known")
        .names();
    let with = |kind: serde_json::Value, version: serde_json::Value| serde_json::json!({"kind": kind, "apiVersion": version, "metadata": {"name": "a"}, "data": {"k": "v"}});
    for (document, want) in [
        (with("ConfigMap".into(), "v1".into()), Ok(true)),
        // A missing kind defaults to the patched one; without a version every field is unknown.
        (with(Value::Null, "v1".into()), Ok(true)),
        (with("ConfigMap".into(), Value::Null), Ok(false)),
        (with("Secret".into(), "v1".into()), Err("illegal base64 data at input byte 0")),
        (
            with("Namespace".into(), "v1".into()),
            Err("converting (v1.Namespace) to (core.ConfigMap): unknown conversion"),
        ),
        (
            with("ConfigMap".into(), "v2".into()),
            Err("no kind \"ConfigMap\" is registered for version \"v2\" in scheme \
                 \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""),
        ),
        (
            with(5.into(), "v1".into()),
            Err("couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct \
                 field .kind of type string"),
        ),
    ] {
        let got =
            conform_patched(names, document.clone()).map(|conformed| conformed.object.contains_key("data"));
        assert_eq!(got, want.map_err(str::to_owned), "{document}");
    }
}
