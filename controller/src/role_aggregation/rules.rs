//! The rules of an aggregated ClusterRole.

use std::collections::HashMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use orlop_apimachinery::labels::Selector;

use crate::workload::owned::fits;

/// The limit of the JSON of all rules, in bytes: the store accepts no larger object.
pub(super) const MAX_BYTES: usize = 2 << 20;

/// The rules of the selected roles are larger than an object can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rules of the selected ClusterRoles have more than {MAX_BYTES} bytes, the limit of an object")]
pub(super) struct TooLarge;

/// The selectors of an aggregated role; `None` for a role without an aggregation rule. An invalid selector selects nothing. The server
/// admits one only in old objects.
pub(super) fn selectors_of(role: &ClusterRole) -> Option<Vec<Selector>> {
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.iter().flatten();
    Some(selectors.filter_map(|selector| Selector::from_label_selector(selector).ok()).collect())
}

/// The first of the selectors that selects the role.
pub(super) fn selecting(selectors: &[Selector], role: &ClusterRole) -> Option<usize> {
    selectors.iter().position(|selector| fits(selector, role.metadata.labels.as_ref()))
}

/// Whether the rules are equal. As upstream, an absent list equals an empty one.
pub(super) fn equal_rules(a: &[PolicyRule], b: &[PolicyRule]) -> bool {
    a.iter().map(lists).eq(b.iter().map(lists))
}

/// The lists of a rule.
fn lists(rule: &PolicyRule) -> [&[String]; 5] {
    let PolicyRule { api_groups, non_resource_urls, resource_names, resources, verbs } = rule;
    let [a, b, c, d] = [api_groups, non_resource_urls, resource_names, resources]
        .map(|list| list.as_deref().unwrap_or_default());
    [a, b, c, d, verbs]
}

/// Collects the rules of the roles that selectors select, each rule once. The order is upstream's: by the first selector that selects a
/// role with the rule, then by the name of the role, then as in the role. The cost is linear in the rules of the selected roles.
pub(super) struct AggregatedRules<'s> {
    selectors: &'s [Selector],
    /// The rules by the JSON of their lists, with their positions: the selector, and the number of rules read before.
    rules: HashMap<Box<[u8]>, (usize, usize, PolicyRule)>,
    /// The number of rules of the selected roles so far.
    read: usize,
    /// The sum of the lengths of the keys. A valid rule is longer in an object, because its lists have names.
    bytes: usize,
}

impl<'s> AggregatedRules<'s> {
    /// Starts without rules.
    pub(super) fn new(selectors: &'s [Selector]) -> Self {
        Self { selectors, rules: HashMap::new(), read: 0, bytes: 0 }
    }

    /// Adds the rules of a role if it is selected. The roles must arrive in the order of their names.
    ///
    /// # Errors
    /// No object can contain these rules. Further roles change nothing about that.
    pub(super) fn add(&mut self, role: &ClusterRole) -> Result<(), TooLarge> {
        let Some(selector) = selecting(self.selectors, role) else { return Ok(()) };
        let mut key = Vec::new();
        for rule in role.rules.iter().flatten() {
            key.clear();
            // Strings in a vector: writing them as JSON cannot fail.
            let _ = serde_json::to_writer(&mut key, &lists(rule));
            let read = self.read;
            self.read += 1;
            match self.rules.get_mut(key.as_slice()) {
                // An earlier selector also selects a later role.
                Some(known) if selector < known.0 => (known.0, known.1) = (selector, read),
                Some(_) => {}
                None => {
                    self.bytes += key.len();
                    if self.bytes > MAX_BYTES {
                        return Err(TooLarge);
                    }
                    self.rules.insert(key.as_slice().into(), (selector, read, rule.clone()));
                }
            }
        }
        Ok(())
    }

    /// The rules in order.
    pub(super) fn finish(self) -> Vec<PolicyRule> {
        let mut rules: Vec<_> = self.rules.into_values().collect();
        rules.sort_unstable_by_key(|(selector, read, _)| (*selector, *read));
        rules.into_iter().map(|(.., rule)| rule).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::slice::from_ref;

    use orlop_apimachinery::thread_time::assert_linear;
    use serde_json::{Value, json};

    use super::*;

    fn role(name: &str, labels: Value, resources: &[&str]) -> ClusterRole {
        let rules: Vec<_> = resources
            .iter()
            .map(|r| json!({"apiGroups": [""], "resources": [r], "verbs": ["get"]}))
            .collect();
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "rules": rules})).unwrap()
    }

    fn selectors(selectors: &Value) -> Vec<Selector> {
        let role = json!({"metadata": {}, "aggregationRule": {"clusterRoleSelectors": selectors}});
        selectors_of(&serde_json::from_value(role).unwrap()).unwrap()
    }

    fn aggregated(selectors: &[Selector], roles: &[ClusterRole]) -> Result<Vec<PolicyRule>, TooLarge> {
        let mut rules = AggregatedRules::new(selectors);
        roles.iter().try_for_each(|role| rules.add(role))?;
        Ok(rules.finish())
    }

    #[test]
    fn rules_have_the_order_of_upstream() {
        let roles = [
            role("a", json!({"to": "x"}), &["nodes"]),
            role("b", json!({"to": "x"}), &["pods", "nodes"]),
            role("c", json!({"to": "y"}), &["pods", "events", "events"]),
            role("d", json!({"to": "z"}), &["secrets"]),
            role("e", json!({"to": "y", "and": "x"}), &["events", "nodes", "leases"]),
        ];
        let (x, y) = (json!({"matchLabels": {"to": "x"}}), json!({"matchLabels": {"to": "y"}}));
        let either = json!({"matchExpressions": [{"key": "to", "operator": "In", "values": ["x", "y"]}]});
        let invalid = json!({"matchExpressions": [{"key": "to", "operator": "Near"}]});
        let rows: [(Value, &[&str]); 8] = [
            (json!([]), &[]),
            (json!([x]), &["nodes", "pods"]),
            (json!([x, x, x]), &["nodes", "pods"]),
            (json!([x, y]), &["nodes", "pods", "events", "leases"]),
            (json!([y, x]), &["pods", "events", "nodes", "leases"]),
            (json!([either, y]), &["nodes", "pods", "events", "leases"]),
            (json!([{"matchLabels": {"and": "x"}}, either]), &["events", "nodes", "leases", "pods"]),
            (json!([invalid, {"matchLabels": {"to": "z"}}]), &["secrets"]),
        ];
        for (rule, expected) in rows {
            let found = aggregated(&selectors(&rule), &roles).unwrap();
            let resources: Vec<_> = found.iter().flat_map(|rule| rule.resources.iter().flatten()).collect();
            assert_eq!(resources, expected, "{rule}");
        }
    }

    #[test]
    fn absent_list_equals_an_empty_one() {
        let rule = |rule: Value| -> PolicyRule { serde_json::from_value(rule).unwrap() };
        let short = rule(json!({"nonResourceURLs": ["/a"], "verbs": ["get"]}));
        let long =
            rule(json!({"apiGroups": [], "nonResourceURLs": ["/a"], "resources": [], "verbs": ["get"]}));
        let other = rule(json!({"resources": ["/a"], "verbs": ["get"]}));
        assert!(equal_rules(from_ref(&short), from_ref(&long)));
        assert!(!equal_rules(from_ref(&short), from_ref(&other)));
        assert!(!equal_rules(from_ref(&short), &[]));
        let mut role = role("a", json!({}), &[]);
        role.rules = Some(vec![short.clone(), long, other.clone()]);
        assert_eq!(aggregated(&selectors(&json!([{}])), &[role]), Ok(vec![short, other]));
    }

    /// Roles with 200 different rules each.
    fn many(roles: usize, prefix: &str) -> Vec<ClusterRole> {
        let named = |at: usize| {
            let names: Vec<String> = (0..200).map(|rule| format!("{prefix}{at}-{rule}")).collect();
            role(
                &format!("r{at:04}"),
                json!({"to": "x"}),
                &names.iter().map(String::as_str).collect::<Vec<_>>(),
            )
        };
        (0..roles).map(named).collect()
    }

    #[test]
    fn rules_that_no_object_can_contain_are_refused_early() {
        let selectors = selectors(&json!([{"matchLabels": {"to": "x"}}]));
        let (roles, mut rules) = (many(30, &"x".repeat(1000)), AggregatedRules::new(&selectors));
        let refused = roles.iter().position(|role| rules.add(role) == Err(TooLarge)).unwrap();
        assert!((9..11).contains(&refused), "{refused}");
        assert!(rules.bytes <= MAX_BYTES + 2048, "{}", rules.bytes);
        let repeated: Vec<ClusterRole> = roles[..1].iter().cycle().take(30).cloned().collect();
        assert_eq!(aggregated(&selectors, &repeated).unwrap().len(), 200, "equal rules count once");
    }

    #[test]
    fn cost_is_linear_in_the_rules() {
        let twenty = selectors(&json!(vec![json!({"matchLabels": {"to": "x"}}); 20]));
        assert_linear(
            "different rules",
            2,
            |n| many(n, "a"),
            |roles| aggregated(&twenty, roles).unwrap().len(),
        );
        let equal = |n| many(1, "a").into_iter().cycle().take(n).collect::<Vec<_>>();
        assert_linear("equal rules", 4, equal, |roles| aggregated(&twenty, roles).unwrap().len());
    }
}
