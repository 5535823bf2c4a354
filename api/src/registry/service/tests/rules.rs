//! Tests of the validation of services, one row per rule. The rules about its type are in `types`.

use super::super::super::testing::causes;
use super::*;

pub(super) type Row<'a> = (&'a str, &'a str, &'a str);
pub(super) const INVALID: &str = "FieldValueInvalid";
pub(super) const REQUIRED: &str = "FieldValueRequired";
pub(super) const FORBIDDEN: &str = "FieldValueForbidden";
const DUPLICATE: &str = "FieldValueDuplicate";
pub(super) const UNSUPPORTED: &str = "FieldValueNotSupported";
pub(super) const NO_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

#[track_caller]
pub(super) fn check(case: &str, service: &Object, want: &[Row<'_>]) {
    assert_eq!(causes(|errors| Service.validate(service, errors)), want, "{case}");
}

#[test]
fn ports_are_validated() {
    let label = "Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                 or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
                 used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let twice = "Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":5,\
                 \"TargetPort\":0,\"NodePort\":0}";
    let cases: [(&str, Value, &[Row<'_>]); 13] = [
        ("1 good", json!([{"port": 80, "name": "a", "targetPort": "http"}, {"port": 81, "name": "b"}]), &[]),
        ("2 none", json!([]), &[(REQUIRED, "spec.ports", "Required value")]),
        (
            "3 no names",
            json!([{"port": 80}, {"port": 81, "name": "b"}]),
            &[(REQUIRED, "spec.ports[0].name", "Required value")],
        ),
        ("4 a name", json!([{"port": 80, "name": "A"}]), &[(INVALID, "spec.ports[0].name", label)]),
        (
            "5 a name twice",
            json!([{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
            &[(DUPLICATE, "spec.ports[1].name", "Duplicate value: \"a\"")],
        ),
        (
            "6 a number",
            json!([{"port": 65536, "targetPort": 1}]),
            &[(
                INVALID,
                "spec.ports[0].port",
                "Invalid value: 65536: must be between 1 and 65535, inclusive",
            )],
        ),
        (
            "7 a protocol",
            json!([{"port": 80, "protocol": "tcp"}]),
            &[(
                UNSUPPORTED,
                "spec.ports[0].protocol",
                "Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            )],
        ),
        (
            "8 a target",
            json!([{"port": 80, "targetPort": 65536}]),
            &[(
                INVALID,
                "spec.ports[0].targetPort",
                "Invalid value: 65536: must be between 1 and 65535, inclusive",
            )],
        ),
        (
            "9 a target's name",
            json!([{"port": 80, "targetPort": "1"}]),
            &[(
                INVALID,
                "spec.ports[0].targetPort",
                "Invalid value: \"1\": must contain at least one letter (a-z)",
            )],
        ),
        (
            "10 a port of nodes",
            json!([{"port": 80, "nodePort": 30000}]),
            &[(FORBIDDEN, "spec.ports[0].nodePort", "Forbidden: may not be used when `type` is 'ClusterIP'")],
        ),
        (
            "11 a port twice",
            json!([{"port": 5, "name": "a"}, {"port": 5, "name": "b"}]),
            &[(DUPLICATE, "spec.ports[1]", twice)],
        ),
        (
            "12 a port over two protocols",
            json!([{"port": 5, "name": "a"}, {"port": 5, "name": "b", "protocol": "UDP"}]),
            &[],
        ),
        (
            "13 an application",
            json!([{"port": 5, "appProtocol": "/"}]),
            &[
                (INVALID, "spec.ports[0].appProtocol", "Invalid value: \"/\": prefix part must be non-empty"),
                (INVALID, "spec.ports[0].appProtocol", "Invalid value: \"/\": name part must be non-empty"),
            ],
        ),
    ];
    for (case, ports, want) in cases {
        let found = causes(|errors| Service.validate(&with(json!({"ports": ports})), errors));
        let found = if case.starts_with("13") { found.into_iter().take(2).collect() } else { found };
        assert_eq!(found, want, "{case}");
    }
    let nodes =
        json!([{"port": 5, "name": "a", "nodePort": 30000}, {"port": 6, "name": "b", "nodePort": 30000}]);
    check(
        "14 a port of nodes twice",
        &with(json!({"type": "NodePort", "ports": nodes})),
        &[(DUPLICATE, "spec.ports[1].nodePort", "Duplicate value: 30000")],
    );
}

#[test]
fn addresses_are_validated() {
    let ips = |ips: &[&str]| json!({"clusterIP": ips.first(), "clusterIPs": ips, "ipFamilies": []});
    let no_ip = format!("Invalid value: \"x\": {NO_IP}");
    let cases: [(&str, Value, &[Row<'_>]); 13] = [
        ("1 good", ips(&["10.0.0.5"]), &[]),
        ("2 two families", ips(&["10.0.0.5", "fd00::5"]), &[]),
        (
            "3 one family twice",
            ips(&["10.0.0.5", "10.0.0.6"]),
            &[(
                INVALID,
                "spec.clusterIPs",
                "Invalid value: [\"10.0.0.5\",\"10.0.0.6\"]: may specify no more than one IP for each IP family",
            )],
        ),
        (
            "4 three",
            ips(&["10.0.0.5", "fd00::5", "10.0.0.6"]),
            &[(
                INVALID,
                "spec.clusterIPs",
                "Invalid value: [\"10.0.0.5\",\"fd00::5\",\"10.0.0.6\"]: may only hold up to 2 values",
            )],
        ),
        ("5 no address", ips(&["x"]), &[(INVALID, "spec.clusterIPs[0]", &no_ip)]),
        (
            "6 none and one",
            ips(&["None", "10.0.0.5"]),
            &[(
                INVALID,
                "spec.clusterIPs",
                "Invalid value: [\"None\",\"10.0.0.5\"]: 'None' must be the first and only value",
            )],
        ),
        (
            "7 different ones",
            json!({"clusterIP": "10.0.0.6"}),
            &[(
                INVALID,
                "spec.clusterIPs",
                "Invalid value: [\"10.0.0.5\"]: first value must match `clusterIP`",
            )],
        ),
        (
            "8 the list alone",
            json!({"clusterIP": ""}),
            &[(
                INVALID,
                "spec.clusterIPs",
                "Invalid value: [\"10.0.0.5\"]: must be empty when `clusterIP` is not specified",
            )],
        ),
        ("9 no list", json!({"clusterIPs": []}), &[(REQUIRED, "spec.clusterIPs", "Required value")]),
        (
            "10 an unknown family",
            json!({"ipFamilies": ["IPv5"]}),
            &[(
                UNSUPPORTED,
                "spec.ipFamilies[0]",
                "Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\"",
            )],
        ),
        (
            "11 a family twice",
            json!({"ipFamilies": ["IPv4", "IPv4"]}),
            &[(DUPLICATE, "spec.ipFamilies[1]", "Duplicate value: \"IPv4\"")],
        ),
        (
            "12 another family",
            json!({"ipFamilies": ["IPv6"]}),
            &[(
                INVALID,
                "spec.clusterIPs[0]",
                "Invalid value: \"10.0.0.5\": expected an IPv6 value as indicated by `ipFamilies[0]`",
            )],
        ),
        (
            "13 an unknown policy",
            json!({"ipFamilyPolicy": "Both"}),
            &[(
                UNSUPPORTED,
                "spec.ipFamilyPolicy",
                "Unsupported value: \"Both\": supported values: \"PreferDualStack\", \"RequireDualStack\", \
                 \"SingleStack\"",
            )],
        ),
    ];
    for (case, given, want) in cases {
        check(case, &with(given), want);
    }
}

#[test]
fn updates_are_validated() {
    let two = json!({
        "clusterIPs": ["10.0.0.5", "fd00::5"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack",
    });
    let balanced = json!({
        "type": "LoadBalancer", "loadBalancerClass": "a", "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30001,
    });
    let cases: [(&str, Value, Value, &[Row<'_>]); 8] = [
        ("1 nothing", json!({}), json!({}), &[]),
        (
            "2 the address",
            json!({}),
            json!({"clusterIP": "10.0.0.6", "clusterIPs": ["10.0.0.6"]}),
            &[(INVALID, "spec.clusterIPs[0]", "Invalid value: [\"10.0.0.6\"]: may not change once set")],
        ),
        (
            "3 none any more",
            json!({}),
            json!({"clusterIP": "", "clusterIPs": []}),
            &[(INVALID, "spec.clusterIPs[0]", "Invalid value: []: primary clusterIP can not be unset")],
        ),
        (
            "4 another family",
            json!({}),
            json!({"ipFamilies": ["IPv6"]}),
            &[(INVALID, "spec.ipFamilies[0]", "Invalid value: [\"IPv6\"]: may not change once set")],
        ),
        (
            "5 one of two",
            two.clone(),
            json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
            &[(
                INVALID,
                "spec.ipFamilyPolicy",
                "Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary \
                 clusterIP",
            )],
        ),
        ("6 one of two, as it should be", two, json!({"ipFamilyPolicy": "SingleStack"}), &[]),
        (
            "7 the balancer",
            balanced,
            json!({
                "type": "LoadBalancer", "loadBalancerClass": "b", "externalTrafficPolicy": "Local",
                "healthCheckNodePort": 30002,
            }),
            &[
                (INVALID, "spec.loadBalancerClass", "Invalid value: \"b\": may not change once set"),
                (FORBIDDEN, "spec.healthCheckNodePort", "Forbidden: field is immutable"),
            ],
        ),
        (
            "8 another type",
            json!({}),
            json!({"type": "ExternalName", "clusterIP": "", "clusterIPs": [], "ipFamilies": []}),
            &[],
        ),
    ];
    for (case, old, new, want) in cases {
        let found = causes(|errors| Service.validate_update(&with(new), &with(old), errors));
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn statuses_are_validated() {
    let path = "status.loadBalancer.ingress";
    let no_ip = format!("Invalid value: \"x\": {NO_IP}");
    let cases: [(&str, &str, Value, &[Row<'_>]); 6] = [
        ("1 good", "LoadBalancer", json!({"ip": "1.2.3.4", "ipMode": "VIP"}), &[]),
        (
            "2 no balancer",
            "ClusterIP",
            json!({"ip": "1.2.3.4"}),
            &[(FORBIDDEN, path, "Forbidden: may only be used when `type` is 'LoadBalancer'")],
        ),
        ("3 no IP", "LoadBalancer", json!({"ip": "x"}), &[(INVALID, &format!("{path}[0].ip"), &no_ip)]),
        (
            "4 a mode of nothing",
            "LoadBalancer",
            json!({"hostname": "a.example", "ipMode": "VIP"}),
            &[(
                FORBIDDEN,
                &format!("{path}[0].ipMode"),
                "Forbidden: may not be specified when `ip` is not set",
            )],
        ),
        (
            "5 an unknown mode",
            "LoadBalancer",
            json!({"ip": "1.2.3.4", "ipMode": "x"}),
            &[(
                UNSUPPORTED,
                &format!("{path}[0].ipMode"),
                "Unsupported value: \"x\": supported values: \"Proxy\", \"VIP\"",
            )],
        ),
        (
            "6 an address as a name",
            "LoadBalancer",
            json!({"hostname": "1.2.3.4"}),
            &[(
                INVALID,
                &format!("{path}[0].hostname"),
                "Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
            )],
        ),
    ];
    for (case, kind, ingress, want) in cases {
        let mut service = object(json!({"spec": {"type": kind}}));
        service.set(&["status", "loadBalancer", "ingress"], json!([ingress]));
        let found = causes(|errors| Service.validate_status(&service, &service, errors));
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn validation_of_many_ports_takes_linear_time() {
    let ports: Vec<Value> = (1..20_000)
        .map(|i| json!({"name": format!("p{i}"), "port": i, "protocol": "TCP", "targetPort": i}))
        .collect();
    let mut service =
        Object::from_value(json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None", "ports": ports}}));
    Service.defaults(&mut service);
    let begun = orlop_apimachinery::thread_time::ThreadTime::start();
    assert_eq!(causes(|errors| Service.validate(&service, errors)), []);
    let took = begun.spent();
    assert!(took.as_secs() < 8, "each port looked at all the others: {took:?}");
}
