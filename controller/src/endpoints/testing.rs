//! Objects for the tests of these controllers.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::testing::merge_into;

/// A Service with one port and a selector, as the API server stores it.
pub(crate) fn service(more: Value) -> Value {
    let mut service = json!({"kind": "Service", "metadata": {"namespace": "ns", "name": "s", "uid": "uid-s",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}});
    merge_into(&mut service, &more);
    service
}

/// A pod of the Service on the node `n`.
pub(crate) fn pod(name: &str, ip: &str, ready: bool, more: Value) -> Value {
    let ready = if ready { "True" } else { "False" };
    let mut pod = json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"),
            "labels": {"app": "web"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "2024-01-02T03:04:05Z"}]}});
    merge_into(&mut pod, &more);
    pod
}

/// A Service with `count` ports that have the same target.
pub(crate) fn service_with_ports(count: usize, target: &Value) -> Value {
    let port = |nth: usize| json!({"name": format!("p{nth}"), "port": nth + 1, "targetPort": target});
    service(json!({"spec": {"ports": (0..count).map(port).collect::<Value>()}}))
}

/// The ready pod `p{nth}`, whose container port `http` has this number.
pub(crate) fn pod_with_port(nth: usize, number: usize) -> Value {
    let ports = json!([{"name": "http", "containerPort": number}]);
    pod(&format!("p{nth}"), &ip(nth), true, json!({"spec": {"containers": [{"name": "c", "ports": ports}]}}))
}

/// A different IP address for each number.
pub(crate) fn ip(number: usize) -> String {
    format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255)
}

/// A ready node.
pub(crate) fn node(name: &str, zone: &str, cpu: &str) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// `IP CONDITIONS` of the endpoints of slices, sorted. The conditions are the initials of those that are true, or `-`.
pub(crate) fn endpoints(slices: &[Value]) -> Vec<String> {
    let of = |slice: &Value| slice["endpoints"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<String> = slices
        .iter()
        .flat_map(of)
        .map(|endpoint| {
            let conditions = &endpoint["conditions"];
            let is_true = |name: &&str| conditions[*name] == true;
            let initials: String = ["ready", "serving", "terminating"]
                .iter()
                .filter(|name| is_true(name))
                .map(|name| &name[..1])
                .collect();
            let initials = if initials.is_empty() { "-".to_owned() } else { initials };
            format!("{} {initials}", endpoint["addresses"][0].as_str().unwrap())
        })
        .collect();
    all.sort();
    all
}
