//! The tables are consistent, and single rules are those of Kubernetes 1.36.

mod least_rights;
mod repair;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    AGGREGATE_TO, AUTO_UPDATE, LABEL, LABEL_VALUE, ORLOP_CONTROLLER, cluster_role_bindings, cluster_roles,
    reconcile, role_bindings, roles,
};

/// The namespace, if any, and the name of an object.
fn key(object: &Value) -> (Option<&str>, &str) {
    let metadata = &object["metadata"];
    (metadata["namespace"].as_str(), metadata["name"].as_str().expect("a name"))
}

/// All objects, each with its kind.
fn all() -> Vec<(&'static str, Value)> {
    let kinds = [
        ("ClusterRole", cluster_roles()),
        ("ClusterRoleBinding", cluster_role_bindings()),
        ("Role", roles()),
        ("RoleBinding", role_bindings()),
    ];
    kinds.into_iter().flat_map(|(kind, list)| list.into_iter().map(move |object| (kind, object))).collect()
}

/// The cluster role with this name.
fn cluster_role(name: &str) -> Value {
    cluster_roles().into_iter().find(|role| key(role) == (None, name)).expect("the role exists")
}

/// The strings of a list.
fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|value| value.as_str().expect("a string")).collect()
}

/// Whether a role has exactly this rule.
fn has_rule(role: &str, verbs: &[&str], group: &str, resource: &str) -> bool {
    let wanted = json!({ "verbs": verbs, "apiGroups": [group], "resources": [resource] });
    cluster_role(role)["rules"].as_array().is_some_and(|rules| rules.contains(&wanted))
}

#[test]
fn every_object_exists_once() {
    let mut counts = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (kind, object) in all() {
        *counts.entry(kind).or_insert(0) += 1;
        let (namespace, name) = key(&object);
        assert!(
            seen.insert((kind, namespace.map(str::to_owned), name.to_owned())),
            "{kind} {name} exists twice"
        );
    }
    // Upstream's, and orlop's own.
    let want =
        [("ClusterRole", 69 + 11), ("ClusterRoleBinding", 50 + 13), ("Role", 7 + 2), ("RoleBinding", 7 + 2)];
    assert_eq!(counts, BTreeMap::from(want));
}

#[test]
fn every_object_has_the_label_and_the_annotation() {
    for (kind, object) in all() {
        let (namespace, name) = key(&object);
        assert_eq!(object["metadata"]["labels"][LABEL], LABEL_VALUE, "{kind} {name}");
        assert_eq!(object["metadata"]["annotations"], json!({ AUTO_UPDATE: "true" }), "{kind} {name}");
        let wanted: &[Option<&str>] = match kind {
            "Role" | "RoleBinding" if name.starts_with(ORLOP_CONTROLLER) => {
                &[Some("kube-system"), Some("kube-node-lease")]
            }
            "Role" | "RoleBinding" => &[Some("kube-system"), Some("kube-public")],
            _ => &[None],
        };
        assert!(wanted.contains(&namespace), "{kind} {name} in {namespace:?}");
    }
}

#[test]
fn every_rule_is_valid_and_sorted() {
    for (kind, object) in all().into_iter().filter(|(kind, _)| kind.ends_with("Role")) {
        let name = key(&object).1;
        for rule in object["rules"].as_array().into_iter().flatten() {
            let context = format!("{kind} {name}: {rule}");
            let field = |field: &str| strings(&rule[field]);
            assert!(!field("verbs").is_empty(), "{context}");
            assert_ne!(field("resources").is_empty(), field("nonResourceURLs").is_empty(), "{context}");
            assert_eq!(field("resources").is_empty(), field("apiGroups").is_empty(), "{context}");
            assert!(field("resourceNames").is_empty() || !field("resources").is_empty(), "{context}");
            for list in ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"] {
                assert!(field(list).is_sorted_by(|a, b| a < b), "{context}: {list}");
            }
        }
    }
}

#[test]
fn every_binding_has_a_role_and_known_subjects() {
    let cluster: BTreeSet<String> = cluster_roles().iter().map(|role| key(role).1.to_owned()).collect();
    let namespaced = roles();
    for (kind, binding) in all().into_iter().filter(|(kind, _)| kind.ends_with("Binding")) {
        let (namespace, name) = key(&binding);
        let reference = &binding["roleRef"];
        let role = reference["name"].as_str().expect("a role");
        let exists = match reference["kind"].as_str() {
            Some("ClusterRole") => cluster.contains(role),
            _ => namespaced.iter().any(|other| key(other) == (namespace, role)),
        };
        assert!(exists, "{kind} {name}");
        let subjects = binding["subjects"].as_array();
        assert_eq!(subjects.is_none(), name == "system:node", "{kind} {name}");
        for subject in subjects.into_iter().flatten() {
            let account = subject["kind"] == "ServiceAccount";
            assert_eq!(account, subject["namespace"] == "kube-system", "{kind} {name}: {subject}");
            assert_eq!(
                !account,
                subject["apiGroup"] == "rbac.authorization.k8s.io",
                "{kind} {name}: {subject}"
            );
        }
    }
}

#[test]
fn every_aggregated_role_has_a_source() {
    let all = cluster_roles();
    let mut count = 0;
    for role in all.iter().filter(|role| role.get("aggregationRule").is_some()) {
        count += 1;
        let name = key(role).1;
        assert_eq!(role["rules"], Value::Null, "{name}");
        let label = format!("{AGGREGATE_TO}{name}");
        let selectors = json!([{ "matchLabels": { label.clone(): "true" } }]);
        assert_eq!(role["aggregationRule"]["clusterRoleSelectors"], selectors, "{name}");
        let source = format!("system:aggregate-to-{name}");
        let sources = all.iter().filter(|other| other["metadata"]["labels"][&label] == "true");
        assert!(sources.map(|other| key(other).1).any(|other| other == source), "{name}");
    }
    assert_eq!(count, 3);
}

/// The verb for former versions of Secrets: rules with other verbs on all resources of all groups do not contain it.
#[test]
fn only_the_administrator_reads_former_versions_of_secrets() {
    let permits = |role: &Value| {
        role["rules"].as_array().into_iter().flatten().any(|rule| {
            let has = |field: &str, wanted: &str| {
                strings(&rule[field]).iter().any(|value| *value == "*" || *value == wanted)
            };
            has("verbs", "read-former-versions")
                && has("apiGroups", "orlop.dev")
                && has("resources", "secrets")
        })
    };
    let roles: Vec<Value> =
        all().into_iter().filter(|(kind, _)| kind.ends_with("Role")).map(|(_, role)| role).collect();
    let found: Vec<&str> = roles.iter().filter(|role| permits(role)).map(|role| key(role).1).collect();
    assert_eq!(found, ["cluster-admin"]);
}

#[test]
fn single_rules_are_upstreams() {
    for (case, role, verbs, group, resource) in [
        ("1 edit", "system:aggregate-to-edit", &["create"][..], "", "pods/eviction"),
        ("2 view", "system:aggregate-to-view", &["get", "list", "watch"], "", "namespaces"),
        ("3 node", "system:node", &["create"], "", "serviceaccounts/token"),
        (
            "4 scheduler",
            "system:kube-scheduler",
            &["patch", "update"],
            "resource.k8s.io",
            "resourceclaims/binding",
        ),
        ("5 manager", "system:kube-controller-manager", &["list", "watch"], "*", "*"),
        ("6 quota", "system:controller:resourcequota-controller", &["list", "watch"], "*", "*"),
        ("7 root", "cluster-admin", &["*"], "*", "*"),
    ] {
        assert!(has_rule(role, verbs, group, resource), "{case}");
    }
    let view = cluster_role("system:aggregate-to-view").to_string();
    assert!(!view.contains("\"secrets\""), "8 view excludes secrets");
    let scheduler = cluster_role("system:kube-scheduler").to_string();
    assert!(!scheduler.contains("devicetaintrules"), "9 the gate DRADeviceTaintRules is off by default");
    assert!(!scheduler.contains("scheduling.k8s.io"), "10 the gate GenericWorkload is off by default");
}

#[test]
fn reconciled_bootstrap_objects_need_no_write() {
    for (kind, object) in all() {
        assert_eq!(reconcile(None, &object), Some(object.clone()), "{kind} {}", key(&object).1);
        assert_eq!(reconcile(Some(&object), &object), None, "{kind} {}", key(&object).1);
    }
}
