//! What makes a service a bad one, one row per rule.

use super::super::super::testing::causes;
use super::*;

type Row<'a> = (&'a str, &'a str, &'a str);
const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";
const DUPLICATE: &str = "FieldValueDuplicate";
const UNSUPPORTED: &str = "FieldValueNotSupported";
const NO_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

#[track_caller]
fn check(case: &str, service: &Object, want: &[Row<'_>]) {
    assert_eq!(causes(|errors| Service.validate(service, errors)), want, "{case}");
}

#[test]
fn ports_are_judged() {
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
fn addresses_are_judged() {
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
fn types_are_judged() {
    let external =
        json!({"type": "ExternalName", "ports": [], "clusterIP": "", "clusterIPs": [], "ipFamilies": []});
    let external = |key: &str, value: Value| {
        let mut spec = external.clone();
        spec["externalName"] = "a.example.".into();
        spec[key] = value;
        spec
    };
    let none = "may not be set for ExternalName services";
    let none = format!("Forbidden: {none}");
    let balancer = "Forbidden: may only be used when `type` is 'LoadBalancer'";
    let headless = json!({"clusterIP": "None", "clusterIPs": ["None"]});
    let headless = |kind: &str| {
        let mut spec = headless.clone();
        spec["type"] = kind.into();
        spec
    };
    let bad_cidr =
        "Invalid value: \"1.2.3.4\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let cases: [(&str, Value, &[Row<'_>]); 24] = [
        ("1 a name outside", external("ports", json!([])), &[]),
        (
            "2 no name",
            external("externalName", json!("")),
            &[(REQUIRED, "spec.externalName", "Required value")],
        ),
        (
            "3 with addresses",
            external("clusterIPs", json!(["10.0.0.5"])),
            &[(FORBIDDEN, "spec.clusterIPs", &none)],
        ),
        (
            "4 with a family",
            external("ipFamilies", json!(["IPv4"])),
            &[(FORBIDDEN, "spec.ipFamilies", &none)],
        ),
        (
            "5 with a policy",
            external("ipFamilyPolicy", json!("SingleStack")),
            &[(FORBIDDEN, "spec.ipFamilyPolicy", &none)],
        ),
        (
            "6 without an address, on nodes",
            headless("NodePort"),
            &[(
                INVALID,
                "spec.clusterIPs[0]",
                "Invalid value: \"None\": may not be set to 'None' for NodePort services",
            )],
        ),
        (
            "7 without an address, balanced",
            headless("LoadBalancer"),
            &[(
                INVALID,
                "spec.clusterIPs[0]",
                "Invalid value: \"None\": may not be set to 'None' for LoadBalancer services",
            )],
        ),
        ("8 without an address", headless("ClusterIP"), &[]),
        (
            "9 unknown",
            json!({"type": "Other"}),
            &[(
                UNSUPPORTED,
                "spec.type",
                "Unsupported value: \"Other\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \
                 \"NodePort\"",
            )],
        ),
        (
            "10 affinity",
            json!({"sessionAffinity": "Pod"}),
            &[(
                UNSUPPORTED,
                "spec.sessionAffinity",
                "Unsupported value: \"Pod\": supported values: \"ClientIP\", \"None\"",
            )],
        ),
        (
            "11 how long",
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}}),
            &[(
                INVALID,
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
                "Invalid value: 86401: must be greater than 0 and less than 86400",
            )],
        ),
        (
            "12 addresses outside",
            json!({"externalIPs": ["x", "127.0.0.1"]}),
            &[
                (INVALID, "spec.externalIPs[0]", &format!("Invalid value: \"x\": {NO_IP}")),
                (
                    INVALID,
                    "spec.externalIPs[1]",
                    "Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                ),
            ],
        ),
        (
            "13 sources",
            json!({"loadBalancerSourceRanges": ["1.2.3.0/24 "]}),
            &[(FORBIDDEN, "spec.LoadBalancerSourceRanges", balancer)],
        ),
        (
            "14 bad sources",
            json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["1.2.3.4"]}),
            &[(INVALID, "spec.LoadBalancerSourceRanges[0]", bad_cidr)],
        ),
        (
            "15 ports of nodes",
            json!({"allocateLoadBalancerNodePorts": false}),
            &[(FORBIDDEN, "spec.allocateLoadBalancerNodePorts", balancer)],
        ),
        ("16 a class", json!({"loadBalancerClass": "a"}), &[(FORBIDDEN, "spec.loadBalancerClass", balancer)]),
        ("17 a class", json!({"type": "LoadBalancer", "loadBalancerClass": "a/b"}), &[]),
        (
            "18 traffic from outside",
            json!({"externalTrafficPolicy": "Local"}),
            &[(
                INVALID,
                "spec.externalTrafficPolicy",
                "Invalid value: \"Local\": may only be set for externally-accessible services",
            )],
        ),
        (
            "19 traffic from outside",
            json!({"type": "NodePort", "externalTrafficPolicy": "Near"}),
            &[(
                UNSUPPORTED,
                "spec.externalTrafficPolicy",
                "Unsupported value: \"Near\": supported values: \"Cluster\", \"Local\"",
            )],
        ),
        (
            "20 health",
            json!({"healthCheckNodePort": 30000}),
            &[(
                INVALID,
                "spec.healthCheckNodePort",
                "Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is \
                 'Local'",
            )],
        ),
        (
            "21 no health",
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
            &[(REQUIRED, "spec.healthCheckNodePort", "Required value")],
        ),
        (
            "22 traffic inside",
            json!({"internalTrafficPolicy": "Near"}),
            &[(
                UNSUPPORTED,
                "spec.internalTrafficPolicy",
                "Unsupported value: \"Near\": supported values: \"Cluster\", \"Local\"",
            )],
        ),
        (
            "23 distribution",
            json!({"trafficDistribution": "Near"}),
            &[(
                UNSUPPORTED,
                "spec.trafficDistribution",
                "Unsupported value: \"Near\": supported values: \"PreferClose\", \"PreferSameNode\", \
                 \"PreferSameZone\"",
            )],
        ),
        (
            "24 labels",
            json!({"selector": {"a": "b c"}}),
            &[(
                INVALID,
                "spec.selector",
                "Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, \
                 '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            )],
        ),
    ];
    for (case, given, want) in cases {
        check(case, &with(given), want);
    }
    let mut annotated = with(json!({}));
    annotated.set(
        &["metadata", "annotations"],
        json!({
            "service.kubernetes.io/topology-aware-hints": "a", "service.kubernetes.io/topology-mode": "b",
            "service.beta.kubernetes.io/load-balancer-source-ranges": "1.2.3.4",
        }),
    );
    let (mode, sources) = (
        "metadata.annotations[service.kubernetes.io/topology-mode]",
        "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]",
    );
    let differ = "Invalid value: \"b\": must match annotations[service.kubernetes.io/topology-aware-hints] when both \
                  are specified";
    check(
        "annotations",
        &annotated,
        &[(INVALID, mode, differ), (FORBIDDEN, sources, balancer), (INVALID, sources, bad_cidr)],
    );
}

#[test]
fn changes_are_judged() {
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
fn statuses_are_judged() {
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
