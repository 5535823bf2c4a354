//! The aggregated ClusterRoles that a change of a ClusterRole affects.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use orlop_apimachinery::labels::Selector;

use super::rules::{equal_rules, selecting, selectors_of};

/// The selectors of all aggregated roles, by name.
#[derive(Default)]
pub(super) struct AggregatedRoles(BTreeMap<Arc<str>, Vec<Selector>>);

impl AggregatedRoles {
    /// Records a change of the role `name`. Returns the aggregated roles whose rules may differ after it: the role itself, and those that
    /// selected its old state or select its new one. A change of anything but rules and selection affects none.
    pub(super) fn change(
        &mut self,
        name: &Arc<str>,
        old: Option<&ClusterRole>,
        new: Option<&ClusterRole>,
    ) -> Vec<Arc<str>> {
        let has_same_rules = equal_rules(rules(old), rules(new));
        let (mut affected, mut is_affected) = (Vec::new(), false);
        match new.and_then(selectors_of) {
            Some(selectors) => {
                let before = self.0.insert(Arc::clone(name), selectors);
                is_affected = before.as_ref() != self.0.get(name) || !has_same_rules;
            }
            None => drop(self.0.remove(name)),
        }
        if is_affected {
            affected.push(Arc::clone(name));
        }
        let others = self.0.iter().filter(|(other, selectors)| {
            let selected_by = |role: Option<&ClusterRole>| role.and_then(|role| selecting(selectors, role));
            let (before, after) = (selected_by(old), selected_by(new));
            *other != name && (before != after || before.is_some() && !has_same_rules)
        });
        affected.extend(others.map(|(other, _)| Arc::clone(other)));
        affected
    }
}

fn rules(role: Option<&ClusterRole>) -> &[k8s_openapi::api::rbac::v1::PolicyRule] {
    role.and_then(|role| role.rules.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn role(role: Value) -> ClusterRole {
        serde_json::from_value(role).unwrap()
    }

    fn aggregated(selectors: &Value, resource: &str) -> ClusterRole {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
        role(json!({"metadata": {"labels": {"to": "all"}}, "rules": rules,
            "aggregationRule": {"clusterRoleSelectors": selectors}}))
    }

    fn plain(to: &str, resource: &str) -> Option<ClusterRole> {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
        Some(role(json!({"metadata": {"labels": {"to": to}}, "rules": rules})))
    }

    fn select(to: &str) -> Value {
        json!({"matchLabels": {"to": to}})
    }

    #[test]
    fn change_affects_the_roles_that_selected_or_select_the_changed_one() {
        let known = [
            ("edit", json!([select("edit")])),
            ("view", json!([select("view")])),
            ("both", json!([select("view"), select("edit")])),
            ("all", json!([select("all")])),
            ("set", json!([{"matchExpressions": [{"key": "to", "operator": "Exists"}]}])),
        ];
        let other_label = |mut role: Option<ClusterRole>| {
            let labels = role.as_mut().unwrap().metadata.labels.as_mut().unwrap();
            labels.insert("more".to_owned(), "x".to_owned());
            role
        };
        let is = |name: &str, selectors: Value, resource: &str| {
            (name.to_owned(), Some(aggregated(&selectors, resource)))
        };
        let view = |resource| is("view", json!([select("view")]), resource);
        let new = |role: Option<ClusterRole>| ("new".to_owned(), role);
        let rows = [
            ("1 created", new(None), plain("view", "pods"), vec!["both", "set", "view"]),
            ("2 created, selected by one", new(None), plain("other", "pods"), vec!["set"]),
            ("3 without labels", new(None), Some(role(json!({"metadata": {}}))), vec![]),
            ("4 deleted", new(plain("edit", "pods")), None, vec!["both", "edit", "set"]),
            (
                "5 other rules",
                new(plain("view", "pods")),
                plain("view", "nodes"),
                vec!["both", "set", "view"],
            ),
            ("6 equal", new(plain("view", "pods")), plain("view", "pods"), vec![]),
            ("7 moved", new(plain("view", "pods")), plain("edit", "pods"), vec!["both", "edit", "view"]),
            ("8 no longer selected", new(plain("view", "pods")), plain("x", "pods"), vec!["both", "view"]),
            ("9 other label", new(plain("view", "pods")), other_label(plain("view", "pods")), vec![]),
            (
                "10 own rules",
                view("pods"),
                Some(aggregated(&json!([select("view")]), "x")),
                vec!["view", "all", "set"],
            ),
            ("11 own selectors", view("pods"), Some(aggregated(&json!([select("x")]), "pods")), vec!["view"]),
            ("12 aggregated no more", view("pods"), plain("all", "pods"), vec![]),
            ("13 aggregated again", new(plain("all", "x")), Some(aggregated(&json!([]), "x")), vec!["new"]),
            ("14 own labels", view("pods"), None, vec!["all", "set"]),
            ("15 aggregated, equal", view("pods"), view("pods").1, vec![]),
        ];
        for (case, (name, old), new, expected) in rows {
            let mut roles = AggregatedRoles::default();
            for (name, selectors) in &known {
                roles.change(&Arc::from(*name), None, Some(&aggregated(selectors, "pods")));
            }
            let affected = roles.change(&Arc::from(name), old.as_ref(), new.as_ref());
            assert_eq!(affected.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), expected, "{case}");
        }
    }

    #[test]
    fn deleted_aggregated_role_is_never_affected() {
        let mut roles = AggregatedRoles::default();
        let view = aggregated(&json!([select("view")]), "pods");
        assert_eq!(roles.change(&"view".into(), None, Some(&view)), ["view".into()]);
        assert!(roles.change(&"view".into(), Some(&view), None).is_empty());
        assert!(roles.change(&"new".into(), None, plain("view", "pods").as_ref()).is_empty());
    }
}
