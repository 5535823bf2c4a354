//! Tests of the defaults, cells and fields of services; [`rules`] contains those of the validation.

mod rules;
mod types;

use super::super::testing::{kind_now, object};
use super::*;

/// A service after defaulting.
fn service(spec: Value) -> Object {
    let mut service = object(json!({"metadata": {"name": "s"}, "spec": spec}));
    Service.defaults(&mut service);
    service
}

/// A service with one port and an address, and `given` applied.
fn with(given: Value) -> Object {
    let mut spec = json!({
        "ports": [{"port": 80}], "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"], "ipFamilies": ["IPv4"],
    });
    for (key, value) in given.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    service(spec)
}

#[test]
fn missing_fields_are_defaulted() {
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
fn addresses_and_node_ports_are_reserved() {
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
fn table_rows_show_addresses_and_ports() {
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
fn omitted_fields_are_restored_and_unused_ones_dropped() {
    let old = with(json!({"type": "NodePort", "ports": [{"name": "a", "port": 1, "nodePort": 30001}]}));
    // A client that omits the server-assigned values.
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
fn ip_families_are_determined_by_policy_and_cluster() {
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
