//! Tests of ServiceCIDRs and IPAddresses.

use serde_json::{Value, json};

use super::{IpAddress, ServiceCidr, ip_address, service_cidr};
use crate::kind::Kind as _;
use crate::object::Object;
use crate::registry::volume_testing::{check, create_errors, now, update_errors, with};

fn ranges(ranges: &Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"cidrs": ranges}})
}

#[test]
fn invalid_ranges_are_rejected() {
    let family = |ranges: &str| {
        format!(
            "spec.cidrs: Invalid value: {{\"CIDRs\":{ranges}}}: may specify no more than one IP for each IP family, i.e \
             192.168.0.0/24 and 2001:db8::/64"
        )
    };
    for (case, given, want) in [
        ("1 valid", json!(["198.18.0.0/24"]), vec![]),
        ("2 both families", json!(["2001:db8::/64", "198.18.0.0/24"]), vec![]),
        ("3 none", json!([]), vec!["spec.cidrs: Required value: at least one CIDR required".to_owned()]),
        ("4 one family", json!(["10.0.0.0/8", "11.0.0.0/8"]), vec![family("[\"10.0.0.0/8\",\"11.0.0.0/8\"]")]),
        ("5 one invalid range of two", json!(["10.0.0.0/8", "x"]), vec![family("[\"10.0.0.0/8\",\"x\"]")]),
        (
            "6 three",
            json!(["10.0.0.0/8", "fd00::/8", "x"]),
            vec!["spec.cidrs: Invalid value: {\"CIDRs\":[\"10.0.0.0/8\",\"fd00::/8\",\"x\"]}: may only hold up to 2 values".to_owned()],
        ),
        (
            "7 no range",
            json!(["10.0.0.0"]),
            vec!["spec.cidrs[0]: Invalid value: \"10.0.0.0\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()],
        ),
        (
            "8 host bits",
            json!(["10.0.0.1/8"]),
            vec!["spec.cidrs[0]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length".to_owned()],
        ),
        (
            "9 other form",
            json!(["2001:DB8::/64"]),
            vec!["spec.cidrs[0]: Invalid value: \"2001:DB8::/64\": must be in canonical form (\"2001:db8::/64\")".to_owned()],
        ),
        (
            "10 leading zero",
            json!(["10.0.0.0/08"]),
            vec!["spec.cidrs[0]: Invalid value: \"10.0.0.0/08\": must not have leading 0s in IP or prefix length".to_owned()],
        ),
        (
            "11 mapped address",
            json!(["::ffff:10.0.0.0/104"]),
            vec!["spec.cidrs[0]: Invalid value: \"::ffff:10.0.0.0/104\": must not have an IPv4-mapped IPv6 address".to_owned()],
        ),
    ] {
        check(case, &create_errors(&ServiceCidr, &ranges(&given)), &want);
    }
}

#[test]
fn ranges_can_only_be_added() {
    let old = ranges(&json!(["198.18.0.0/24"]));
    let two = ranges(&json!(["198.18.0.0/24", "2001:db8::/64"]));
    for (case, old, new, want) in [
        ("1 added", &old, &two, vec![]),
        (
            "2 changed",
            &old,
            &ranges(&json!(["198.19.0.0/24"])),
            vec!["spec.cidrs[0]: Invalid value: \"198.19.0.0/24\": field is immutable"],
        ),
        ("3 removed", &two, &old, vec!["spec.cidrs: Invalid value: [\"198.18.0.0/24\"]: field is immutable"]),
    ] {
        check(case, &update_errors(&ServiceCidr, old, new), &want);
    }
}

fn address(change: &Value) -> Value {
    let whole = json!({"metadata": {"name": "10.0.0.5"}, "spec": {"parentRef": {
        "resource": "services", "namespace": "default", "name": "s",
    }}});
    with(&whole, change)
}

#[test]
fn invalid_addresses_are_rejected() {
    for (case, change, want) in [
        ("1 valid", json!({}), vec![]),
        ("2 no parent", json!({"spec": {"parentRef": null}}), vec!["spec.parentRef: Required value"]),
        (
            "3 empty parent",
            json!({"spec": {"parentRef": {"resource": "", "name": "", "namespace": ""}}}),
            vec!["spec.parentRef.resource: Required value", "spec.parentRef.name: Required value"],
        ),
        (
            "4 invalid parent",
            json!({"spec": {"parentRef": {"name": "a/b"}}}),
            vec!["spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'"],
        ),
    ] {
        check(case, &create_errors(&IpAddress, &address(&change)), &want);
    }
    for (name, why) in [
        ("2001:DB8::1", "must be a canonical format IP address"),
        ("a", "ParseAddr(\"a\"): unable to parse IP"),
        ("10.0.0.256", "ParseAddr(\"10.0.0.256\"): IPv4 field has value >255"),
        ("10.0.0", "ParseAddr(\"10.0.0\"): IPv4 address too short"),
        ("10.0.0.1.2", "ParseAddr(\"10.0.0.1.2\"): IPv4 address too long"),
        ("10.0.0.01", "ParseAddr(\"10.0.0.01\"): IPv4 field has octet with leading zero"),
        ("10..0.1", "ParseAddr(\"10..0.1\"): IPv4 field must have at least one digit (at \".0.1\")"),
        ("10.0.a.1", "ParseAddr(\"10.0.a.1\"): unexpected character (at \"a.1\")"),
    ] {
        let found = create_errors(&IpAddress, &address(&json!({"metadata": {"name": name}})));
        assert_eq!(found, [format!("metadata.name: Invalid value: {name:?}: {why}")]);
    }
}

#[test]
fn parent_is_immutable() {
    let changed = address(&json!({"spec": {"parentRef": {"name": "other"}}}));
    check(
        "parent",
        &update_errors(&IpAddress, &address(&json!({})), &changed),
        &[
            "spec.parentRef: Invalid value: {\"Group\":\"\",\"Resource\":\"services\",\"Namespace\":\"default\",\"Name\":\"other\"}: \
           field is immutable",
        ],
    );
    let labelled = address(&json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(update_errors(&IpAddress, &address(&json!({})), &labelled), [""; 0]);
}

#[test]
fn objects_of_the_server_are_valid() {
    let service = Object::from_value(json!({"metadata": {"namespace": "default", "name": "s"}}));
    for ip in ["10.0.0.5", "fd00::1"] {
        let object = ip_address::of_service(ip.parse().expect("an address"), &service);
        assert_eq!(ip_address::owner(&object), Some(("default", "s")));
        assert_eq!(create_errors(&IpAddress, &object.into_value()), [""; 0]);
    }
    assert_eq!(ip_address::owner(&Object::from_value(address(&json!({})))), None, "created by a client");
    let range = service_cidr::default_object("10.0.0.0/24", now());
    assert_eq!(create_errors(&ServiceCidr, &range.into_value()), [""; 0]);
}

#[test]
fn table_rows_show_parents_and_ranges() {
    let cells = |parent: Value| {
        let object = with(&address(&json!({})), &json!({"spec": {"parentRef": parent}}));
        let created = json!({"metadata": {"creationTimestamp": "2026-01-02T03:03:55Z"}});
        Value::from(IpAddress.cells(&Object::from_value(with(&object, &created)), now()))
    };
    assert_eq!(cells(json!({})), json!(["10.0.0.5", "services/default/s", "10s"]));
    let other = json!({"group": "a.Example", "resource": "Things", "namespace": null});
    assert_eq!(cells(other), json!(["10.0.0.5", "things.a.example/s", "10s"]));
    assert_eq!(cells(Value::Null), json!(["10.0.0.5", "<none>", "10s"]));
    let two = ranges(&json!(["198.18.0.0/24", "2001:db8::/64"]));
    let row = crate::registry::volume_testing::row(&ServiceCidr, &two);
    assert_eq!(row, json!(["a", "198.18.0.0/24,2001:db8::/64", "10s"]));
}
