//! Tests of the `EndpointSlice` kind.

use serde_json::json;

use super::super::testing::{causes, kind_now, object};
use super::*;

type Row<'a> = (&'a str, &'a str, &'a str);
const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";

fn slice(endpoint: Value) -> Value {
    json!({"addressType": "IPv4", "endpoints": [endpoint], "ports": []})
}

#[test]
fn invalid_slices_are_rejected() {
    let port = |port: Value| json!({"addressType": "IPv4", "endpoints": null, "ports": [port]});
    let fqdn = |name: &str| json!({"addressType": "FQDN", "endpoints": [{"addresses": [name]}]});
    let zones: Vec<Value> = (0..9).map(|i| json!({"name": format!("z{i}")})).collect();
    let cases: [(&str, Value, &[Row<'_>]); 19] = [
        ("1 good", slice(json!({"addresses": ["10.1.2.3"], "hostname": "a", "nodeName": "n"})), &[]),
        ("2 nothing", json!({"addressType": "IPv6", "endpoints": null, "ports": null}), &[]),
        ("3 no type", json!({"addressType": ""}), &[(REQUIRED, "addressType", "Required value")]),
        (
            "4 an unknown type",
            json!({"addressType": "IP"}),
            &[(
                "FieldValueNotSupported",
                "addressType",
                "Unsupported value: \"IP\": supported values: \"FQDN\", \"IPv4\", \"IPv6\"",
            )],
        ),
        (
            "5 no address",
            slice(json!({"addresses": []})),
            &[(REQUIRED, "endpoints[0].addresses", "Required value: must contain at least 1 address")],
        ),
        (
            "6 another family",
            slice(json!({"addresses": ["2001:db8::1"]})),
            &[(
                INVALID,
                "endpoints[0].addresses[0]",
                "Invalid value: \"2001:db8::1\": must be a valid IPv4 address",
            )],
        ),
        (
            "7 loopback",
            slice(json!({"addresses": ["127.0.0.1"]})),
            &[(
                INVALID,
                "endpoints[0].addresses[0]",
                "Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            )],
        ),
        ("8 a host name", fqdn("a.example."), &[]),
        (
            "9 a short host name",
            fqdn("a"),
            &[(
                INVALID,
                "endpoints[0].addresses[0]",
                "Invalid value: \"a\": should be a domain with at least two segments separated by dots",
            )],
        ),
        ("10 no host name", fqdn("."), &[(REQUIRED, "endpoints[0].addresses[0]", "Required value")]),
        (
            "11 too many addresses",
            slice(json!({"addresses": vec!["10.1.2.3"; 101]})),
            &[("FieldValueTooMany", "endpoints[0].addresses", "Too many: 101: must have at most 100 items")],
        ),
        (
            "12 too many endpoints",
            json!({"addressType": "IPv4", "endpoints": vec![Value::Null; 1001]}),
            &[("FieldValueTooMany", "endpoints", "Too many: 1001: must have at most 1000 items")],
        ),
        (
            "13 too many ports",
            json!({"addressType": "IPv4", "ports": vec![Value::Null; 20_001]}),
            &[("FieldValueTooMany", "ports", "Too many: 20001: must have at most 20000 items")],
        ),
        (
            "14 too many hints",
            slice(json!({"addresses": ["10.1.2.3"], "hints": {"forZones": zones}})),
            &[("FieldValueTooMany", "endpoints[0].hints.forZones", "Too many: 9: must have at most 8 items")],
        ),
        (
            "15 a hint twice",
            slice(json!({"addresses": ["10.1.2.3"], "hints": {"forZones": [{"name": "z"}, {"name": "z"}]}})),
            &[("FieldValueDuplicate", "endpoints[0].hints.forZones[1].name", "Duplicate value: \"z\"")],
        ),
        (
            "16 a port",
            port(json!({"name": "a", "protocol": "UDP", "port": 5, "appProtocol": "a.example/b"})),
            &[],
        ),
        (
            "17 a port without a protocol",
            port(json!({"name": ""})),
            &[(REQUIRED, "ports[0].protocol", "Required value")],
        ),
        (
            "18 a port of an unknown one",
            port(json!({"name": "", "protocol": "x"})),
            &[(
                "FieldValueNotSupported",
                "ports[0].protocol",
                "Unsupported value: \"x\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            )],
        ),
        (
            "19 a name twice",
            json!({
                "addressType": "IPv4",
                "ports": [{"name": "", "protocol": "TCP"}, {"name": "", "protocol": "TCP"}],
            }),
            &[("FieldValueDuplicate", "ports[1].name", "Duplicate value: \"\"")],
        ),
    ];
    for (case, value, want) in cases {
        let found = causes(|errors| EndpointSlice.validate(&object(value), errors));
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn changes_of_labels_and_endpoints_increment_the_generation() {
    let old = object(json!({
        "metadata": {"name": "s", "generation": 4, "labels": {"a": "b"}}, "addressType": "IPv4", "endpoints": [],
    }));
    for (case, path, value, want) in [
        ("1 nothing", &["metadata", "annotations", "x"][..], json!("y"), 4),
        ("2 labels", &["metadata", "labels", "a"], json!("c"), 5),
        ("3 endpoints", &["endpoints"], json!([{"addresses": ["10.1.2.3"]}]), 5),
    ] {
        let mut new = old.clone();
        new.set(path, value);
        EndpointSlice.prepare_update(&mut new, &old, kind_now());
        assert_eq!(new.at(&["metadata", "generation"]), Some(&json!(want)), "{case}");
    }
    let mut new = old.clone();
    new.set(&["addressType"], "IPv6");
    let found = causes(|errors| EndpointSlice.validate_update(&new, &old, errors));
    assert_eq!(found, [(INVALID, "addressType", "Invalid value: \"IPv6\": field is immutable")]);
}

#[test]
fn port_name_and_protocol_are_defaulted() {
    let mut slice = object(json!({"ports": [{}, {"name": "a", "protocol": "UDP"}]}));
    EndpointSlice.defaults(&mut slice);
    let want = json!([{"name": "", "protocol": "TCP"}, {"name": "a", "protocol": "UDP"}]);
    assert_eq!(slice.into_value()["ports"], want);
}

#[test]
fn table_row_shows_the_first_addresses() {
    let slice = object(json!({
        "metadata": {"name": "s", "creationTimestamp": "2026-01-01T00:00:00Z"}, "addressType": "IPv4",
        "ports": [{"port": 5}, {"name": "a"}, {"name": ""}],
        "endpoints": [{"addresses": ["1.1.1.1", "1.1.1.2"]}, {"addresses": ["1.1.1.3", "1.1.1.4", "1.1.1.5"]}],
    }));
    let want = ["s", "IPv4", "5,a,*", "1.1.1.1,1.1.1.2,1.1.1.3 + 2 more...", "60s"].map(Value::from);
    assert_eq!(EndpointSlice.cells(&slice, kind_now()), want);
    let bare = object(json!({"metadata": {"name": "s"}, "ports": null}));
    assert_eq!(EndpointSlice.cells(&bare, kind_now())[2..4], ["<unset>", "<unset>"].map(Value::from));
    assert_eq!(EndpointSlice.columns().len(), want.len());
}
