//! Rules of roles: what they permit, and whether rules contain a rule.
//!
//! Upstream: component-helpers `auth/rbac/validation/{policy_comparator,rule}.go`, pkg/apis/rbac/v1 `evaluation_helpers.go`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::request_info::{RequestInfo, RequestTarget};

/// A rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// The permitted verbs; `*` is every verb.
    pub verbs: Vec<String>,
    /// The API groups; `*` is every group.
    pub api_groups: Vec<String>,
    /// Resources, `RESOURCE/SUBRESOURCE` or `*/SUBRESOURCE`; `*` is every resource and subresource.
    pub resources: Vec<String>,
    /// The names of the objects; none is every name.
    pub resource_names: Vec<String>,
    /// Non-resource paths, of which the last character may be `*`.
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

/// Everything.
const ALL: &str = "*";

fn contains(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

impl Rule {
    /// Whether the rule permits a request.
    pub fn permits(&self, request: &RequestInfo) -> bool {
        if !contains(&self.verbs, &request.verb) {
            return false;
        }
        match &request.target {
            RequestTarget::Resource(at) => {
                contains(&self.api_groups, &at.group)
                    && self.resources.iter().any(|rule| resource_matches(rule, &at.resource, &at.subresource))
                    && (self.resource_names.is_empty() || self.resource_names.contains(&at.name))
            }
            RequestTarget::Path(path) => self.non_resource_urls.iter().any(|rule| path_matches(rule, path)),
        }
    }

    /// The rule as in reviews, without empty lists.
    pub fn shown(&self) -> Value {
        let mut shown = json!({"verbs": self.verbs});
        for (name, list) in [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ] {
            if !list.is_empty() {
                shown[name] = json!(list);
            }
        }
        shown
    }

    /// The number of [`parts`](Self::parts).
    pub(super) fn count_parts(&self) -> usize {
        let names = self.resource_names.len().max(1);
        let of_verb = self.api_groups.len().saturating_mul(self.resources.len()).saturating_mul(names);
        self.verbs.len().saturating_mul(of_verb.saturating_add(self.non_resource_urls.len()))
    }

    /// The number of items in all lists.
    pub(super) fn count_items(&self) -> usize {
        let lists =
            [&self.verbs, &self.api_groups, &self.resources, &self.resource_names, &self.non_resource_urls];
        lists.iter().map(|list| list.len()).sum()
    }

    /// The parts of a rule, each with one verb and one resource and name, or one verb and one path.
    fn parts(&self) -> Vec<Rule> {
        let one = |text: &String| vec![text.clone()];
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for group in &self.api_groups {
                for resource in &self.resources {
                    let part = Rule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Rule::default()
                    };
                    match self.resource_names.is_empty() {
                        true => parts.push(part),
                        false => parts.extend(
                            self.resource_names
                                .iter()
                                .map(|name| Rule { resource_names: one(name), ..part.clone() }),
                        ),
                    }
                }
            }
            parts.extend(self.non_resource_urls.iter().map(|path| Rule {
                verbs: one(verb),
                non_resource_urls: one(path),
                ..Rule::default()
            }));
        }
        parts
    }

    /// Whether this rule permits everything that a part of another one permits.
    fn covers_part(&self, part: &Rule) -> bool {
        let all_of = |own: &[String], wanted: &[String]| {
            own.iter().any(|item| item == ALL) || wanted.iter().all(|item| own.contains(item))
        };
        if !all_of(&self.verbs, &part.verbs) || !all_of(&self.api_groups, &part.api_groups) {
            return false;
        }
        let resources = self.resources.iter().any(|item| item == ALL)
            || part.resources.iter().all(|wanted| {
                self.resources.contains(wanted)
                    || wanted.split_once('/').is_some_and(|(_, subresource)| {
                        self.resources.iter().any(|own| own.strip_prefix("*/") == Some(subresource))
                    })
            });
        let names = self.resource_names.is_empty()
            || (!part.resource_names.is_empty()
                && part.resource_names.iter().all(|name| self.resource_names.contains(name)));
        let paths = part.non_resource_urls.iter().all(|wanted| {
            self.non_resource_urls.iter().any(|own| own == wanted || path_matches(own, wanted))
        });
        resources && names && paths
    }
}

/// The parts of the wanted rules that the owned rules do not contain, at most `most`. Costs the number of parts times that of the items
/// of owned rules.
pub(super) fn uncovered(owned: &[Rule], wanted: &[Rule], most: usize) -> Vec<Rule> {
    let parts = wanted.iter().flat_map(Rule::parts);
    parts.filter(|part| !owned.iter().any(|rule| rule.covers_part(part))).take(most).collect()
}

fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    match rule.split_once('/') {
        Some((of, sub)) => sub == subresource && (of == ALL || of == resource),
        None => false,
    }
}

fn path_matches(rule: &str, path: &str) -> bool {
    rule == path || rule.strip_suffix(ALL).is_some_and(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use http::Method;
    use orlop_api::query::Query;

    use super::*;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str, paths: &str) -> Rule {
        let list = |text: &str| {
            text.split_terminator(' ').map(|item| if item == "core" { "" } else { item }.to_owned()).collect()
        };
        Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            non_resource_urls: list(paths),
        }
    }

    #[test]
    fn rule_permits_what_it_names() {
        let pods = rule("get list", "core", "pods", "", "");
        let logs = rule("get", "core", "pods/log", "", "");
        let any_status = rule("*", "*", "*/status", "", "");
        let one = rule("get list delete create", "core", "pods", "a", "");
        let paths = rule("get", "", "", "", "/healthz /metrics/*");
        for (case, rule, method, uri, want) in [
            ("verb", &pods, "GET", "/api/v1/namespaces/n/pods/a", true),
            ("other verb", &pods, "DELETE", "/api/v1/namespaces/n/pods/a", false),
            ("other group", &pods, "GET", "/apis/apps/v1/namespaces/n/pods/a", false),
            ("subresource of a named resource", &pods, "GET", "/api/v1/namespaces/n/pods/a/log", false),
            ("named subresource", &logs, "GET", "/api/v1/namespaces/n/pods/a/log", true),
            ("resource of a named subresource", &logs, "GET", "/api/v1/namespaces/n/pods/a", false),
            (
                "subresource of any",
                &any_status,
                "PUT",
                "/apis/apps/v1/namespaces/n/deployments/d/status",
                true,
            ),
            (
                "another subresource",
                &any_status,
                "PUT",
                "/apis/apps/v1/namespaces/n/deployments/d/scale",
                false,
            ),
            ("name", &one, "GET", "/api/v1/namespaces/n/pods/a", true),
            ("other name", &one, "GET", "/api/v1/namespaces/n/pods/b", false),
            ("list without the name", &one, "GET", "/api/v1/namespaces/n/pods", false),
            (
                "list with the name",
                &one,
                "GET",
                "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Da",
                true,
            ),
            ("create has no name", &one, "POST", "/api/v1/namespaces/n/pods", false),
            ("path", &paths, "GET", "/healthz", true),
            ("below a path", &paths, "GET", "/healthz/ping", false),
            ("below a path with *", &paths, "GET", "/metrics/slis", true),
            ("resource rules do not permit paths", &rule_of_everything(), "GET", "/metrics", false),
        ] {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let request = RequestInfo::of(&method, path, &Query::parse(Some(query)));
            assert_eq!(rule.permits(&request), want, "{case}");
        }
    }

    fn rule_of_everything() -> Rule {
        rule("*", "*", "*", "", "")
    }

    #[test]
    fn missing_parts_are_found() {
        let owned = [
            rule("get list", "core", "pods */status", "", "/a /b/*"),
            rule("delete", "core", "pods", "x", ""),
        ];
        for (case, wanted, want) in [
            ("the same", rule("list", "core", "pods", "", ""), 0),
            ("a name of all", rule("get", "core", "pods", "y", ""), 0),
            ("all names of one", rule("delete", "core", "pods", "", ""), 1),
            ("the same name", rule("delete", "core", "pods", "x", ""), 0),
            ("two names", rule("delete", "core", "pods", "x y", ""), 1),
            ("a subresource of any", rule("get", "core", "nodes/status", "", ""), 0),
            ("another subresource", rule("get", "core", "pods/log", "", ""), 1),
            ("each verb and group", rule("get update", "core apps", "pods", "", ""), 3),
            ("everything", rule("*", "core", "pods", "", ""), 1),
            ("paths", rule("get", "", "", "", "/a /b/c /b/* /c"), 1),
        ] {
            assert_eq!(uncovered(&owned, &[wanted], 100).len(), want, "{case}");
        }
        assert!(uncovered(&[rule_of_everything()], &[rule("get", "g", "r/s", "n", "")], 1).is_empty());
    }
}
