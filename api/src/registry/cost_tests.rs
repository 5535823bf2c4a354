//! The cost of validation grows linearly with the longest lists that an object can contain.

use orlop_apimachinery::thread_time::assert_linear;
use serde_json::{Value, json};

use super::by_resource;
use crate::field_errors::FieldErrors;
use crate::object::Object;
use crate::validate::meta::validate_meta_update;

/// A name, the resource, and an object with a list of a length.
type Case = (&'static str, &'static str, &'static str, fn(usize) -> Value);

fn repeated(n: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..n).map(item).collect()
}

const CASES: [Case; 21] = [
    ("owners with controllers", "", "configmaps", |n| {
        json!({"metadata": {"name": "a", "ownerReferences": repeated(n, |n| json!({
            "apiVersion": "v1", "kind": "A", "name": "a", "uid": n.to_string(), "controller": true}))}})
    }),
    ("conditions of one type", "", "services", |n| {
        json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]},
            "status": {"conditions": repeated(n, |_| json!({"type": "a"}))}})
    }),
    ("addresses of a node", "", "nodes", |n| {
        json!({"metadata": {"name": "a"}, "status": {"addresses":
            repeated(n, |n| json!({"type": "Hostname", "address": n.to_string()}))}})
    }),
    (
        "ranges of a node",
        "",
        "nodes",
        |n| json!({"metadata": {"name": "a"}, "spec": {"podCIDRs": repeated(n, |n| json!(format!("10.0.0.0/{n}")))}}),
    ),
    ("families of a service", "", "services", |n| {
        json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}],
            "ipFamilies": repeated(n, |n| json!(n.to_string())), "clusterIPs": repeated(n, |n| json!(n.to_string()))}})
    }),
    ("devices and mounts", "", "pods", |n| {
        pod(&json!({"containers": [{"name": "a", "image": "a",
        "volumeDevices": repeated(n, |n| json!({"name": format!("d{n}"), "devicePath": format!("/d{n}")})),
        "volumeMounts": repeated(n, |n| json!({"name": format!("m{n}"), "mountPath": format!("/m{n}")}))}]}))
    }),
    ("tolerations", "", "pods", |n| {
        pod(&json!({"tolerations":
        repeated(n, |n| json!({"key": format!("k{n}"), "operator": "Exists"}))}))
    }),
    ("spread constraints", "", "pods", |n| {
        pod(&json!({"topologySpreadConstraints":
        repeated(n, |n| json!({"maxSkew": 1, "topologyKey": format!("k{n}"), "whenUnsatisfiable": "DoNotSchedule"}))}))
    }),
    ("tolerations of a class", "node.k8s.io", "runtimeclasses", |n| {
        json!({"metadata": {"name": "a"}, "handler": "h", "scheduling": {"tolerations":
            repeated(n, |n| json!({"key": format!("k{n}"), "operator": "Exists"}))}})
    }),
    ("failure policy of a job", "batch", "jobs", |n| {
        json!({"metadata": {"name": "a"}, "spec": {"podFailurePolicy": {"rules": repeated(n, |n| json!({
            "action": "FailJob", "onExitCodes": {"operator": "In", "values": [n + 1]}}))}}})
    }),
    ("pods of a job that are not counted", "batch", "jobs", |n| {
        json!({"metadata": {"name": "a"}, "spec": {},
            "status": {"uncountedTerminatedPods": {"failed": repeated(n, |n| json!(n.to_string()))}}})
    }),
    ("conditions of a pod", "", "pods", |n| {
        let mut pod =
            pod(&json!({"readinessGates": repeated(n, |n| json!({"conditionType": format!("k{n}")}))}));
        pod["status"] =
            json!({"conditions": repeated(n, |n| json!({"type": format!("k{n}"), "status": "False"}))});
        pod
    }),
    ("init containers", "", "pods", |n| {
        pod(&json!({"initContainers":
        repeated(n, |n| json!({"name": format!("c{n}"), "image": "a", "restartPolicy": "Always"}))}))
    }),
    (
        "scopes of a quota",
        "",
        "resourcequotas",
        |n| json!({"metadata": {"name": "a"}, "spec": {"scopes": repeated(n, |n| json!(format!("s{n}")))}}),
    ),
    ("scopes of a quota of many resources", "", "resourcequotas", |n| {
        let hard: serde_json::Map<_, _> = (0..n).map(|n| (format!("a.b/r{n}"), json!("1"))).collect();
        json!({"metadata": {"name": "a"}, "spec": {"hard": hard, "scopes": repeated(n, |_| json!("Terminating"))}})
    }),
    ("scope selectors of a quota of many resources", "", "resourcequotas", |n| {
        let hard: serde_json::Map<_, _> = (0..n).map(|n| (format!("a.b/r{n}"), json!("1"))).collect();
        let one = json!({"scopeName": "Terminating", "operator": "Exists"});
        json!({"metadata": {"name": "a"},
            "spec": {"hard": hard, "scopeSelector": {"matchExpressions": repeated(n, |_| one.clone())}}})
    }),
    ("terminated containers", "", "pods", |n| {
        let mut pod = pod(&json!({"restartPolicy": "Never"}));
        pod["status"] = json!({"containerStatuses": repeated(n, |n| json!({"name": format!("c{n}"), "image": "",
            "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}))});
        pod
    }),
    (
        "topologies of a class",
        "storage.k8s.io",
        "storageclasses",
        |n| json!({"metadata": {"name": "a"}, "provisioner": "a/b", "allowedTopologies": repeated(n, |_| json!({}))}),
    ),
    ("drivers of a node", "storage.k8s.io", "csinodes", |n| {
        json!({"metadata": {"name": "a"}, "spec": {"drivers":
            repeated(n, |n| json!({"name": format!("d{n}"), "nodeID": "a"}))}})
    }),
    ("ports of a slice", "discovery.k8s.io", "endpointslices", |n| {
        json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [],
            "ports": repeated(n, |n| json!({"name": format!("p{n}"), "protocol": "TCP", "port": 1}))})
    }),
    ("addresses and ports", "", "endpoints", |n| {
        json!({"metadata": {"name": "a"}, "subsets": [{"addresses": repeated(n, |_| json!({"ip": "1.1.1.1"})),
            "ports": repeated(n, |n| json!({"name": format!("p{n}"), "port": 1}))}]})
    }),
];

fn pod(spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "a", "namespace": "b"},
        "spec": {"containers": [{"name": "a", "image": "a"}]}});
    for (name, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][name] = value.clone();
    }
    pod
}

#[test]
fn validation_of_long_lists_costs_linear_time() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap_or_default();
    for (case, group, plural, object) in CASES {
        let Some(kind) = by_resource(group, "v1", plural) else { panic!("{plural}") };
        let input = |n: usize| Object::from_value(object(n));
        assert_linear(case, 800, input, |object| {
            let mut errors = FieldErrors::new();
            validate_meta_update(object, object, kind.policy().names, false, &mut errors);
            kind.validate(object, &mut errors);
            kind.validate_create(object, &mut errors);
            kind.validate_update(object, object, &mut errors);
            kind.validate_status(object, object, &mut errors);
            (kind.warnings(object, None), kind.cells(object, now))
        });
    }
}
