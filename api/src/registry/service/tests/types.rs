//! Tests of the required and forbidden fields of each service type, one row per rule.

use super::rules::{FORBIDDEN, INVALID, NO_IP, REQUIRED, Row, UNSUPPORTED, check};
use super::*;

#[test]
fn types_are_validated() {
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
