//! The schemas and priority levels that every cluster has.
//!
//! Upstream: apiserver pkg/apis/flowcontrol/bootstrap.

use serde_json::{Value, json};

/// The annotation of objects whose spec the server restores.
pub const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// An object that every cluster has.
#[derive(Clone, Debug, PartialEq)]
pub struct BootstrapObject {
    /// Whether the spec is fixed. The spec of other objects is restored only if they have the annotation [`AUTO_UPDATE`].
    pub mandatory: bool,
    /// The name and the spec.
    pub object: Value,
}

fn object(mandatory: bool, name: &str, spec: &Value) -> BootstrapObject {
    BootstrapObject { mandatory, object: json!({"metadata": {"name": name}, "spec": spec}) }
}

/// The priority levels of every cluster.
pub fn priority_levels() -> Vec<BootstrapObject> {
    let reject = json!({"type": "Reject"});
    let limited = |shares: i64, lendable: i64, response: &Value| {
        json!({"type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response,
        }})
    };
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let mut levels =
        vec![object(true, "catch-all", &limited(5, 0, &reject)), object(true, "exempt", &exempt)];
    for (name, shares, lendable, queues, hand) in [
        ("system", 30, 33, 64, 6),
        ("node-high", 40, 25, 64, 6),
        ("leader-election", 10, 0, 16, 4),
        ("workload-high", 40, 50, 128, 6),
        ("workload-low", 100, 90, 128, 6),
        ("global-default", 20, 50, 128, 6),
    ] {
        let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": 50});
        let queue = json!({"type": "Queue", "queuing": queuing});
        levels.push(object(false, name, &limited(shares, lendable, &queue)));
    }
    levels
}

/// The flow schemas of every cluster.
pub fn flow_schemas() -> Vec<BootstrapObject> {
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    let user = |name: &str| json!({"kind": "User", "user": {"name": name}});
    let everyone = || vec![group("system:unauthenticated"), group("system:authenticated")];
    let accounts =
        json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}});
    let resources = |verbs: &[&str], group: &str, resources: &[&str], cluster: bool| {
        let mut rule =
            json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
        if cluster {
            rule["clusterScope"] = true.into();
        }
        rule
    };
    let urls = |verb: &str, urls: &[&str]| json!({"verbs": [verb], "nonResourceURLs": urls});
    let everything = |subjects: Vec<Value>| {
        json!({
            "subjects": subjects, "resourceRules": [resources(&["*"], "*", &["*"], true)],
            "nonResourceRules": [urls("*", &["*"])],
        })
    };
    let schema = |mandatory: bool, name: &str, level: &str, precedence: i64, method: &str, rule: Value| {
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule],
        });
        if !method.is_empty() {
            spec["distinguisherMethod"] = json!({ "type": method });
        }
        object(mandatory, name, &spec)
    };
    let (nodes, leases) = (|| vec![group("system:nodes")], "coordination.k8s.io");
    let (manager, scheduler) = (user("system:kube-controller-manager"), user("system:kube-scheduler"));
    let probes = json!({
        "subjects": everyone(), "nonResourceRules": [urls("get", &["/healthz", "/readyz", "/livez"])],
    });
    let elections = json!({
        "subjects": [manager, scheduler, accounts],
        "resourceRules": [resources(&["get", "create", "update"], leases, &["leases"], false)],
    });
    let node_reports = json!({
        "subjects": nodes(),
        "resourceRules": [
            resources(&["*"], "", &["nodes", "nodes/status"], true),
            resources(&["*"], leases, &["leases"], false),
        ],
    });
    let (by_user, by_namespace) = ("ByUser", "ByNamespace");
    let (high, low) = ("workload-high", "workload-low");
    let account_groups = vec![group("system:serviceaccounts")];
    vec![
        schema(true, "exempt", "exempt", 1, "", everything(vec![group("system:masters")])),
        schema(true, "catch-all", "catch-all", 10_000, by_user, everything(everyone())),
        schema(false, "system-nodes", "system", 500, by_user, everything(nodes())),
        schema(false, "system-node-high", "node-high", 400, by_user, node_reports),
        schema(false, "probes", "exempt", 2, "", probes),
        schema(false, "system-leader-election", "leader-election", 100, by_user, elections),
        schema(false, "kube-controller-manager", high, 800, by_namespace, everything(vec![manager.clone()])),
        schema(false, "kube-scheduler", high, 800, by_namespace, everything(vec![scheduler.clone()])),
        schema(
            false,
            "kube-system-service-accounts",
            high,
            900,
            by_namespace,
            everything(vec![accounts.clone()]),
        ),
        schema(false, "service-accounts", low, 9000, by_user, everything(account_groups)),
        schema(false, "global-default", "global-default", 9900, by_user, everything(everyone())),
    ]
}

fn mandatory(objects: Vec<BootstrapObject>, name: &str) -> Option<Value> {
    let found = objects.into_iter().find(|one| one.mandatory && one.object["metadata"]["name"] == name);
    found.map(|one| one.object)
}

/// The mandatory priority level of a name.
pub(super) fn mandatory_priority_level(name: &str) -> Option<Value> {
    matches!(name, "exempt" | "catch-all").then(|| mandatory(priority_levels(), name)).flatten()
}

/// The mandatory flow schema of a name.
pub(super) fn mandatory_flow_schema(name: &str) -> Option<Value> {
    matches!(name, "exempt" | "catch-all").then(|| mandatory(flow_schemas(), name)).flatten()
}
