use serde_json::json;

use super::super::testing::{causes, kind_now, object};
use super::*;

#[test]
fn type_is_defaulted_and_string_data_is_merged() {
    for (case, given, want) in [
        ("type", json!({}), json!({"type": "Opaque"})),
        ("empty type", json!({"type": ""}), json!({"type": "Opaque"})),
        (
            "stringData wins over data",
            json!({"data": {"a": "MQ=="}, "stringData": {"a": "two", "b": "three"}, "type": "x"}),
            json!({"data": {"a": "dHdv", "b": "dGhyZWU="}, "type": "x"}),
        ),
    ] {
        let mut secret = object(given);
        Secret.defaults(&mut secret);
        assert_eq!(secret.into_value(), want, "{case}");
    }
}

#[test]
fn data_of_well_known_types_is_validated() {
    let large = STANDARD.encode("x".repeat(MAX_BYTES + 1));
    let required = |path| ("FieldValueRequired", path, "Required value");
    for (case, body, want) in [
        (
            "key ..",
            json!({"data": {"..": "eA=="}}),
            vec![("FieldValueInvalid", "data[..]", "Invalid value: \"..\": must not be '..'")],
        ),
        (
            "too large",
            json!({"data": {"a": large}}),
            vec![("FieldValueTooLong", "data", "Too long: may not be more than 1048576 bytes")],
        ),
        (
            "service account token",
            json!({"type": "kubernetes.io/service-account-token"}),
            vec![required("metadata.annotations[kubernetes.io/service-account.name]")],
        ),
        (
            "service account token, named",
            json!({"type": "kubernetes.io/service-account-token",
                "metadata": {"annotations": {"kubernetes.io/service-account.name": "sa"}}}),
            vec![],
        ),
        ("dockercfg missing", json!({"type": "kubernetes.io/dockercfg"}), vec![required("data[.dockercfg]")]),
        (
            "dockerconfigjson missing",
            json!({"type": "kubernetes.io/dockerconfigjson"}),
            vec![required("data[.dockerconfigjson]")],
        ),
        (
            "dockerconfigjson no JSON",
            json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}}),
            vec![(
                "FieldValueInvalid",
                "data[.dockerconfigjson]",
                "Invalid value: \"<secret contents redacted>\": invalid character 'x' looking for beginning of value",
            )],
        ),
        (
            "dockercfg empty",
            json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": ""}}),
            vec![(
                "FieldValueInvalid",
                "data[.dockercfg]",
                "Invalid value: \"<secret contents redacted>\": unexpected end of JSON input",
            )],
        ),
        (
            "dockercfg an array",
            json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "W10="}}),
            vec![(
                "FieldValueInvalid",
                "data[.dockercfg]",
                "Invalid value: \"<secret contents redacted>\": json: cannot unmarshal array into Go value of type map[string]interface {}",
            )],
        ),
        (
            "basic-auth without both",
            json!({"type": "kubernetes.io/basic-auth"}),
            vec![required("data[username]"), required("data[password]")],
        ),
        ("basic-auth", json!({"type": "kubernetes.io/basic-auth", "data": {"password": ""}}), vec![]),
        ("ssh-auth", json!({"type": "kubernetes.io/ssh-auth"}), vec![required("data[ssh-privatekey]")]),
        (
            "tls",
            json!({"type": "kubernetes.io/tls"}),
            vec![required("data[tls.crt]"), required("data[tls.key]")],
        ),
        ("other type", json!({"type": "example.com/x"}), vec![]),
    ] {
        assert_eq!(causes(|errors| Secret.validate(&object(body), errors)), want, "{case}");
    }
}

#[test]
fn type_and_immutable_data_cannot_change() {
    let old = json!({"type": "Opaque", "immutable": true, "data": {"a": "MQ=="}});
    for (case, new, want) in [
        ("same", old.clone(), vec![]),
        (
            "type",
            json!({"type": "foo", "immutable": true, "data": {"a": "MQ=="}}),
            vec![("FieldValueInvalid", "type", "Invalid value: \"foo\": field is immutable")],
        ),
        (
            "data",
            json!({"type": "Opaque", "immutable": true}),
            vec![("FieldValueForbidden", "data", "Forbidden: field is immutable when `immutable` is set")],
        ),
    ] {
        let got = causes(|errors| Secret.validate_update(&object(new), &object(old.clone()), errors));
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn table_row_shows_type_and_number_of_keys() {
    let secret = object(json!({
        "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "type": "Opaque", "data": {"k": "dg=="},
    }));
    assert_eq!(Secret.cells(&secret, kind_now()), vec![json!("a"), json!("Opaque"), json!(1), json!("60s")]);
    assert_eq!(Secret.field(&secret, "type"), "Opaque");
}
