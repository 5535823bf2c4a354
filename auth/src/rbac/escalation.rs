//! Prevents users from granting rights that they do not have.
//!
//! Upstream: pkg/registry/rbac/validation `rule.go`, `policy_compact.go`.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{Rule, uncovered};
use crate::UserInfo;

/// Maximum number of parts of rules, times the items of the owned rules.
const MAX_COMPARISONS: usize = 5_000_000;
/// Maximum number of parts of the rules of a role: verbs times groups times resources.
const MAX_PARTS: usize = 10_000;
/// Missing parts that an error lists.
const LISTED: usize = 100;

/// Why a user that has the owned rules may not grant others; `None` if it may.
pub fn escalation(user: &UserInfo, owned: &[Rule], wanted: &[Rule]) -> Option<String> {
    let subject = format!("user {:?} (groups={})", user.username, quoted(&user.groups));
    let parts = wanted.iter().fold(0_usize, |sum, rule| sum.saturating_add(rule.count_parts()));
    let items = owned.iter().fold(1_usize, |sum, rule| sum.saturating_add(rule.count_items()));
    if parts > MAX_PARTS || parts.saturating_mul(items) > MAX_COMPARISONS {
        return Some(format!(
            "{subject} is attempting to grant rules with too many combinations of verbs, groups and resources"
        ));
    }
    let missing = compact(uncovered(owned, wanted, LISTED));
    if missing.is_empty() {
        return None;
    }
    let lines: BTreeSet<String> = missing.iter().map(shown).collect();
    let lines = lines.into_iter().collect::<Vec<_>>().join("\n");
    Some(format!("{subject} is attempting to grant RBAC permissions not currently held:\n{lines}"))
}

/// Joins the verbs of rules that are otherwise equal.
fn compact(parts: Vec<Rule>) -> Vec<Rule> {
    let mut rules: BTreeMap<[Vec<String>; 4], Vec<String>> = BTreeMap::new();
    let mut paths = Vec::new();
    for Rule { verbs, api_groups, resources, resource_names, non_resource_urls } in parts {
        if !non_resource_urls.is_empty() {
            paths.push(Rule { verbs, non_resource_urls, ..Rule::default() });
            continue;
        }
        rules.entry([api_groups, resources, resource_names, Vec::new()]).or_default().extend(verbs);
    }
    let rules = rules.into_iter().map(|([api_groups, resources, resource_names, _], verbs)| Rule {
        verbs,
        api_groups,
        resources,
        resource_names,
        ..Rule::default()
    });
    rules.chain(paths).collect()
}

fn shown(rule: &Rule) -> String {
    let lists = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let lists = lists.iter().filter(|(_, list)| !list.is_empty());
    let lists: Vec<String> = lists.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
    format!("{{{}}}", lists.join(", "))
}

fn quoted(list: &[String]) -> String {
    let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", items.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], resources: &[&str]) -> Rule {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        Rule { verbs: list(verbs), api_groups: list(&[""]), resources: list(resources), ..Rule::default() }
    }

    #[test]
    fn missing_rights_are_listed_as_upstream() {
        let user = UserInfo::new("alice", ["devs".to_owned()]);
        let owned = [rule(&["get", "list"], &["configmaps"])];
        assert_eq!(escalation(&user, &owned, &[rule(&["list"], &["configmaps"])]), None);
        let wanted = [
            rule(&["get", "list"], &["secrets"]),
            rule(&["get", "delete"], &["configmaps"]),
            Rule { non_resource_urls: vec!["*".to_owned()], verbs: vec!["*".to_owned()], ..Rule::default() },
        ];
        assert_eq!(
            escalation(&user, &owned, &wanted).as_deref(),
            Some(
                "user \"alice\" (groups=[\"devs\" \"system:authenticated\"]) is attempting to grant RBAC permissions not \
                 currently held:\n{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}\n{APIGroups:[\"\"], \
                 Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"
            )
        );
    }

    #[test]
    fn combinations_are_limited() {
        let many: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
        let wanted =
            Rule { verbs: many.clone(), api_groups: many.clone(), resources: many, ..Rule::default() };
        let why = escalation(&UserInfo::new("a", []), &[], &[wanted]);
        assert!(why.is_some_and(|why| why.contains("too many combinations")));
    }
}
