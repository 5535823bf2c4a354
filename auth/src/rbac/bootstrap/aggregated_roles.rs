//! The roles for users of a namespace, `admin`, `edit` and `view`, and the roles with their rules.
//!
//! The role aggregation controller computes the rules of an aggregated role from all cluster roles with its label. `edit`
//! includes `view`, and `admin` includes `edit`.
//!
//! Upstream: `ClusterRoles`, `editRules` and `viewRules` in `policy.go`.

use serde_json::{Map, Value, json};

use super::{
    AGGREGATE_TO, APPS, AUTHORIZATION, AUTOSCALING, BATCH, COORDINATION, CORE, CORE_EVENTS, CREATE,
    DISCOVERY, EXTENSIONS, NETWORKING, POLICY, RBAC, READ, READ_WRITE, RESOURCE, Rule, WRITE, metadata, rule,
    rules,
};

/// An aggregated role.
struct Aggregated {
    name: &'static str,
    /// The role that includes this one.
    part_of: Option<&'static str>,
}

/// A role whose rules are part of an aggregated role.
struct Source {
    name: &'static str,
    part_of: &'static str,
    rules: &'static [Rule],
}

const AGGREGATED: &[Aggregated] = &[
    Aggregated { name: "admin", part_of: None },
    Aggregated { name: "edit", part_of: Some("admin") },
    Aggregated { name: "view", part_of: Some("edit") },
];

const SOURCES: &[Source] = &[
    Source {
        name: "system:aggregate-to-admin",
        part_of: "admin",
        rules: &[
            rule(CREATE, AUTHORIZATION, &["localsubjectaccessreviews"]),
            rule(READ_WRITE, RBAC, &["rolebindings", "roles"]),
        ],
    },
    Source { name: "system:aggregate-to-edit", part_of: "edit", rules: EDIT },
    Source { name: "system:aggregate-to-view", part_of: "view", rules: VIEW },
];

const EDIT: &[Rule] = &[
    // Reading these resources permits escalation, so `view` excludes them.
    rule(
        READ,
        CORE,
        &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"],
    ),
    rule(&["impersonate"], CORE, &["serviceaccounts"]),
    rule(WRITE, CORE, &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
    rule(CREATE, CORE, &["pods/eviction"]),
    rule(
        WRITE,
        CORE,
        &[
            "configmaps",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
    ),
    rule(CREATE, CORE, &["serviceaccounts/token"]),
    rule(WRITE, CORE_EVENTS, &["events"]),
    rule(
        WRITE,
        APPS,
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    rule(WRITE, AUTOSCALING, &["horizontalpodautoscalers"]),
    rule(WRITE, BATCH, &["cronjobs", "jobs"]),
    rule(
        WRITE,
        EXTENSIONS,
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "ingresses",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicationcontrollers/scale",
        ],
    ),
    rule(WRITE, POLICY, &["poddisruptionbudgets"]),
    rule(WRITE, NETWORKING, &["ingresses", "networkpolicies"]),
    rule(READ_WRITE, COORDINATION, &["leases"]),
    rule(WRITE, RESOURCE, &["resourceclaims", "resourceclaimtemplates"]),
];

const VIEW: &[Rule] = &[
    rule(
        READ,
        CORE,
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    rule(
        READ,
        CORE,
        &[
            "bindings",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
    ),
    // In a binding in a namespace, this rule permits reading that namespace.
    rule(READ, CORE, &["namespaces"]),
    rule(READ, CORE_EVENTS, &["events"]),
    rule(READ, DISCOVERY, &["endpointslices"]),
    rule(
        READ,
        APPS,
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    rule(READ, AUTOSCALING, &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    rule(READ, BATCH, &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    rule(
        READ,
        EXTENSIONS,
        &[
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "ingresses",
            "ingresses/status",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "replicationcontrollers/scale",
        ],
    ),
    rule(READ, POLICY, &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    rule(READ, NETWORKING, &["ingresses", "ingresses/status", "networkpolicies"]),
    rule(READ, RESOURCE, &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"]),
];

/// The aggregated roles and their sources.
pub(super) fn all() -> Vec<Value> {
    let aggregated = AGGREGATED.iter().map(|role| {
        let mut label = Map::new();
        label.insert(format!("{AGGREGATE_TO}{}", role.name), json!("true"));
        json!({
            "metadata": metadata(role.name, None, role.part_of),
            "rules": null,
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": label }] },
        })
    });
    let sources = SOURCES.iter().map(|role| {
        json!({ "metadata": metadata(role.name, None, Some(role.part_of)), "rules": rules(role.rules) })
    });
    aggregated.chain(sources).collect()
}
