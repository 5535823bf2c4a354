//! Tests of the `Endpoints` kind.

use serde_json::json;

use super::super::testing::{causes, kind_now, object};
use super::*;

type Row<'a> = (&'a str, &'a str, &'a str);
const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";

#[test]
fn invalid_endpoints_are_rejected() {
    let good = json!({"ip": "10.1.2.3", "hostname": "a", "nodeName": "n.example"});
    let port = json!({"port": 80, "protocol": "TCP"});
    let label = "Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                 or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
                 used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let cases: [(&str, Value, &[Row<'_>]); 10] = [
        ("1 good", json!({"addresses": [good], "ports": [port]}), &[]),
        ("2 not ready", json!({"notReadyAddresses": [good]}), &[]),
        (
            "3 no address",
            json!({"ports": [port]}),
            &[(REQUIRED, "subsets[0]", "Required value: must specify `addresses` or `notReadyAddresses`")],
        ),
        (
            "4 no IP",
            json!({"addresses": [{"ip": "x"}]}),
            &[(
                INVALID,
                "subsets[0].addresses[0].ip",
                "Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            )],
        ),
        (
            "5 loopback",
            json!({"notReadyAddresses": [{"ip": "127.0.0.1"}]}),
            &[(
                INVALID,
                "subsets[0].notReadyAddresses[0].ip",
                "Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            )],
        ),
        (
            "6 host name",
            json!({"addresses": [{"ip": "10.1.2.3", "hostname": "A"}]}),
            &[(INVALID, "subsets[0].addresses[0].hostname", label)],
        ),
        (
            "7 ports without names",
            json!({"addresses": [good], "ports": [port, {"port": 81, "protocol": "TCP", "name": "b"}]}),
            &[(REQUIRED, "subsets[0].ports[0].name", "Required value")],
        ),
        (
            "8 a port's name",
            json!({"addresses": [good], "ports": [{"port": 81, "protocol": "TCP", "name": "A"}]}),
            &[(INVALID, "subsets[0].ports[0].name", label)],
        ),
        (
            "9 a port's number",
            json!({"addresses": [good], "ports": [{"port": 0, "protocol": "TCP"}]}),
            &[(
                INVALID,
                "subsets[0].ports[0].port",
                "Invalid value: 0: must be between 1 and 65535, inclusive",
            )],
        ),
        (
            "10 a port's protocol",
            json!({"addresses": [good], "ports": [{"port": 1, "protocol": ""}]}),
            &[(REQUIRED, "subsets[0].ports[0].protocol", "Required value")],
        ),
    ];
    for (case, subset, want) in cases {
        let endpoints = object(json!({"subsets": [subset]}));
        assert_eq!(causes(|errors| Endpoints.validate(&endpoints, errors)), want, "{case}");
    }
}

#[test]
fn port_protocol_defaults_to_tcp() {
    let mut endpoints =
        object(json!({"subsets": [{"ports": [{"port": 1}, {"port": 2, "protocol": "UDP"}]}]}));
    Endpoints.defaults(&mut endpoints);
    let want = json!([{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "UDP"}]);
    assert_eq!(endpoints.into_value()["subsets"][0]["ports"], want);
}

#[test]
fn table_cell_shows_the_first_addresses() {
    let ips =
        |range: std::ops::Range<u8>| range.map(|i| json!({"ip": format!("10.0.0.{i}")})).collect::<Vec<_>>();
    for (subsets, want) in [
        (json!([]), "<none>"),
        (json!([{"notReadyAddresses": ips(1..3)}]), ""),
        (json!([{"addresses": ips(1..3)}]), "10.0.0.1,10.0.0.2"),
        (json!([{"addresses": [{"ip": "::1"}], "ports": [{"port": 5}]}]), "[::1]:5"),
        (
            json!([{"addresses": ips(1..3), "ports": [{"port": 5}, {"port": 6}]}]),
            "10.0.0.1:5,10.0.0.2:5,10.0.0.1:6 + 1 more...",
        ),
    ] {
        let endpoints = object(json!({"metadata": {"name": "e"}, "subsets": subsets}));
        assert_eq!(Endpoints.cells(&endpoints, kind_now())[1], want);
    }
    assert_eq!(Endpoints.columns().len(), 3);
}
