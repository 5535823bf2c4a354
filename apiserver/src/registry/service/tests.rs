//! Rules, defaults and cells of services, one row per rule.

use super::super::testing::{causes, kind_now, object};
use super::*;

type Row<'a> = (&'a str, &'a str, &'a str);
const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";
const DUPLICATE: &str = "FieldValueDuplicate";
const UNSUPPORTED: &str = "FieldValueNotSupported";
const NO_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// A service with defaults.
fn service(spec: Value) -> Object {
    let mut service = object(json!({"metadata": {"name": "s"}, "spec": spec}));
    Service.defaults(&mut service);
    service
}

/// The same with one port and an address, and what is given on top.
fn with(given: Value) -> Object {
    let mut spec = json!({
        "ports": [{"port": 80}], "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"], "ipFamilies": ["IPv4"],
    });
    for (key, value) in given.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    service(spec)
}

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

#[test]
fn defaults_are_filled_in() {
    let got = service(json!({"ports": [{"port": 80}, {"port": 5, "targetPort": "a", "protocol": "UDP"}]}));
    let want = json!({
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ports": [
            {"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 5, "targetPort": "a", "protocol": "UDP"},
        ],
    });
    assert_eq!(got.at(&["spec"]), Some(&want));
    let got = service(json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"}));
    let want = json!({
        "type": "LoadBalancer", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
        "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
    });
    assert_eq!(got.at(&["spec"]), Some(&want));
    let got = service(json!({"type": "ExternalName", "externalName": "a"}));
    let want = json!({"type": "ExternalName", "externalName": "a", "sessionAffinity": "None"});
    assert_eq!(got.at(&["spec"]), Some(&want));
}

#[test]
fn what_is_reserved() {
    for (case, spec, want) in [
        ("1 an address", json!({"clusterIPs": ["10.0.0.5"]}), &["/registry/serviceips/10.0.0.5"][..]),
        ("2 none on purpose", json!({"clusterIPs": ["None"]}), &[]),
        ("3 outside", json!({"type": "ExternalName", "clusterIPs": ["10.0.0.5"]}), &[]),
        (
            "4 ports of nodes, each once",
            json!({"type": "NodePort", "ports": [{"nodePort": 30001}, {"nodePort": 30001}, {"nodePort": 0}, {}]}),
            &["/registry/servicenodeports/30001"],
        ),
        ("5 ports that are not used", json!({"ports": [{"nodePort": 30001}]}), &[]),
        (
            "6 health",
            json!({"type": "LoadBalancer", "healthCheckNodePort": 30002}),
            &["/registry/servicenodeports/30002"],
        ),
    ] {
        assert_eq!(Service.reserved(&service(spec)), want, "{case}");
    }
}

#[test]
fn cells() {
    for (case, service, want) in [
        (
            "1 inside",
            service(
                json!({"clusterIPs": ["10.0.0.5"], "ports": [{"port": 80}], "selector": {"a": "b", "c": "d"}}),
            ),
            ["ClusterIP", "10.0.0.5", "<none>", "80/TCP", "<unknown>", "a=b,c=d"],
        ),
        (
            "2 on nodes",
            service(json!({
                "type": "NodePort", "clusterIPs": ["10.0.0.5"], "externalIPs": ["1.1.1.1", "1.1.1.2"],
                "ports": [{"port": 80, "nodePort": 30001}, {"port": 5, "protocol": "UDP"}],
            })),
            ["NodePort", "10.0.0.5", "1.1.1.1,1.1.1.2", "80:30001/TCP,5/UDP", "<unknown>", "<none>"],
        ),
        (
            "3 outside",
            service(json!({"type": "ExternalName", "externalName": "a.example"})),
            ["ExternalName", "<none>", "a.example", "<none>", "<unknown>", "<none>"],
        ),
        (
            "4 waiting",
            service(json!({"type": "LoadBalancer"})),
            ["LoadBalancer", "<none>", "<pending>", "<none>", "<unknown>", "<none>"],
        ),
    ] {
        let got = Service.cells(&service, kind_now());
        assert_eq!(got[1..], want.map(Value::from), "{case}");
        assert_eq!(got.len(), Service.columns().len());
    }
    let mut balanced = service(json!({"type": "LoadBalancer"}));
    balanced.set(&["status", "loadBalancer", "ingress"], json!([{"ip": "1.2.3.4"}, {"hostname": "a"}]));
    assert_eq!(Service.cells(&balanced, kind_now())[3], "1.2.3.4,a");
}

#[test]
fn fields_follow_the_type() {
    let old = with(json!({"type": "NodePort", "ports": [{"name": "a", "port": 1, "nodePort": 30001}]}));
    // A client that knows nothing of what the server filled in.
    let mut new =
        service(json!({"type": "NodePort", "ports": [{"name": "a", "port": 2}, {"name": "b", "port": 3}]}));
    fields::keep_given(&mut new, &old);
    fields::join_addresses(&mut new, Some(&old));
    assert_eq!(new.str_at(&["spec", "clusterIP"]), "10.0.0.5");
    assert_eq!(texts(&new, "clusterIPs").collect::<Vec<_>>(), ["10.0.0.5"]);
    let nodes: Vec<i64> = ports(&new).iter().map(|port| number(port, "nodePort")).collect();
    assert_eq!(nodes, [30001, 0], "by name");

    let mut inside = old.clone();
    inside.set(&["spec", "type"], "ClusterIP");
    fields::drop_with_type(&mut inside, &old);
    assert_eq!(number(&ports(&inside)[0], "nodePort"), 0);
    assert_eq!(inside.at(&["spec", "externalTrafficPolicy"]), None);
    assert_eq!(inside.str_at(&["spec", "clusterIP"]), "10.0.0.5", "the address stays");

    let mut outside = old.clone();
    outside.set(&["spec", "type"], "ExternalName");
    fields::drop_with_type(&mut outside, &old);
    for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert_eq!(outside.at(&["spec", name]), None, "{name}");
    }
}

#[test]
fn families() {
    let settle = |spec: Value, old: Option<Value>| {
        let mut service = service(spec);
        let old = old.map(super::tests::service);
        let mut errors = FieldErrors::new();
        fields::settle_families(&mut service, old.as_ref(), "IPv4", &mut errors);
        let texts: Vec<String> = errors.causes().iter().map(|cause| cause.message.clone()).collect();
        let families: Vec<String> = super::texts(&service, "ipFamilies").map(str::to_owned).collect();
        (service.str_at(&["spec", "ipFamilyPolicy"]).to_owned(), families.join(","), texts)
    };
    let none = json!({"clusterIP": "None", "clusterIPs": ["None"]});
    let selected = json!({"clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"}});
    for (case, spec, policy, families, error) in [
        ("1 as most", json!({}), "SingleStack", "IPv4", None),
        ("2 if it can be", json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack", "IPv4", None),
        (
            "3 it must be",
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "RequireDualStack",
            "",
            Some(
                "Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
            ),
        ),
        (
            "4 another family",
            json!({"ipFamilies": ["IPv6"]}),
            "SingleStack",
            "IPv6",
            Some("Invalid value: \"IPv6\": not configured on this cluster"),
        ),
        (
            "5 an address of another family",
            json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}),
            "SingleStack",
            "",
            Some("Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster"),
        ),
        (
            "6 two and one",
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"}),
            "SingleStack",
            "IPv4,IPv6",
            Some(
                "Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP \
                 families are specified",
            ),
        ),
        ("7 without address and selector", none, "RequireDualStack", "IPv4,IPv6", None),
        ("8 without address", selected, "SingleStack", "IPv4", None),
    ] {
        let error: Vec<String> = error.map(str::to_owned).into_iter().collect();
        assert_eq!(settle(spec, None), (policy.to_owned(), families.to_owned(), error), "{case}");
    }
    let kept = settle(json!({}), Some(json!({"ipFamilyPolicy": "PreferDualStack"})));
    assert_eq!(kept.0, "PreferDualStack", "what it was");
}
