//! Which requests a FlowSchema matches. Pure.
//!
//! Upstream: apiserver `pkg/util/flowcontrol/rule.go`.

use orlop_apimachinery::text::compare;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use serde_json::Value;

/// A FlowSchema, prepared for comparisons with requests.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) uid: String,
    /// The name of its priority level.
    pub(super) level: String,
    /// Schemas with lower numbers come first.
    pub(super) precedence: i64,
    pub(super) method: Option<Distinguisher>,
    rules: Vec<Rule>,
}

/// How the requests of a schema are separated into flows. Without a method, they are one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distinguisher {
    User,
    Namespace,
}

#[derive(Debug)]
struct Rule {
    users: Names,
    groups: Names,
    /// Namespace and name of service accounts, sorted; `*` is every account of the namespace.
    accounts: Vec<(String, String)>,
    resources: Vec<ResourceRule>,
    urls: Vec<UrlRule>,
    /// Whether the rule matches each request of its subjects.
    matches_all: bool,
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Names,
    groups: Names,
    /// `pods` or `pods/log`.
    resources: Names,
    cluster_scope: bool,
    namespaces: Names,
}

#[derive(Debug)]
struct UrlRule {
    verbs: Names,
    urls: Vec<String>,
}

/// The names in a list of a rule.
#[derive(Debug)]
enum Names {
    All,
    /// Sorted.
    Some(Vec<String>),
}

impl Names {
    /// `*` is every name if it is alone, as validation requires.
    fn of(mut names: Vec<String>) -> Self {
        if names == ["*"] {
            return Names::All;
        }
        names.sort_unstable();
        Names::Some(names)
    }

    fn of_list(rule: &Value, field: &str) -> Self {
        Names::of(strings(rule, field))
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Names::All => true,
            Names::Some(names) => names.binary_search_by(|other| compare(other, name)).is_ok(),
        }
    }

    /// Whether it has `resource/subresource`, or `resource` if there is no subresource.
    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        let Names::Some(names) = self else { return true };
        if subresource.is_empty() {
            return self.has(resource);
        }
        let wanted = || resource.bytes().chain([b'/']).chain(subresource.bytes());
        names.binary_search_by(|name| name.bytes().cmp(wanted())).is_ok()
    }

    fn is_all(&self) -> bool {
        matches!(self, Names::All)
    }
}

/// The user of a request, for the comparison with subjects.
#[derive(Debug)]
pub(super) struct FlowUser<'u, G> {
    pub(super) name: &'u str,
    pub(super) groups: &'u [G],
}

impl Schema {
    /// Prepares a stored FlowSchema.
    pub(super) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let method = match text(&spec["distinguisherMethod"], "type") {
            "ByUser" => Some(Distinguisher::User),
            "ByNamespace" => Some(Distinguisher::Namespace),
            _ => None,
        };
        Schema {
            name: text(&object["metadata"], "name").to_owned(),
            uid: text(&object["metadata"], "uid").to_owned(),
            level: text(&spec["priorityLevelConfiguration"], "name").to_owned(),
            precedence: spec["matchingPrecedence"].as_i64().unwrap_or_default(),
            method,
            rules: items(spec, "rules").iter().map(Rule::of).collect(),
        }
    }

    /// The cost of a comparison with a request, in rules. Lists of names are sorted, so their length hardly counts.
    pub(super) fn cost(&self) -> usize {
        let urls = |rule: &Rule| rule.urls.iter().map(|rule| rule.urls.len()).sum::<usize>();
        self.rules.iter().map(|rule| 1 + rule.resources.len() + urls(rule)).sum::<usize>().max(1)
    }

    /// Whether it matches a request. `is_resource` is false for non-resource paths. `info` has the other attributes of the
    /// request; it is called only if they are relevant.
    pub(super) fn matches<'r, G: AsRef<str>>(
        &self,
        user: &FlowUser<'_, G>,
        is_resource: bool,
        info: &impl Fn() -> &'r RequestInfo,
    ) -> bool {
        self.rules.iter().any(|rule| {
            let is_relevant = match is_resource {
                true => !rule.resources.is_empty(),
                false => !rule.urls.is_empty(),
            };
            is_relevant && rule.has_subject(user) && (rule.matches_all || rule.permits(info()))
        })
    }
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let (mut users, mut groups, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
        for subject in items(rule, "subjects") {
            match text(subject, "kind") {
                "User" => users.push(text(&subject["user"], "name").to_owned()),
                "Group" => groups.push(text(&subject["group"], "name").to_owned()),
                "ServiceAccount" => {
                    let account = &subject["serviceAccount"];
                    accounts.push((text(account, "namespace").to_owned(), text(account, "name").to_owned()));
                }
                _ => {}
            }
        }
        accounts.sort_unstable();
        // Among subjects, unlike in lists, `*` need not be alone.
        let subjects = |names: Vec<String>| match names.iter().any(|name| name == "*") {
            true => Names::All,
            false => Names::of(names),
        };
        let resources: Vec<_> = items(rule, "resourceRules").iter().map(ResourceRule::of).collect();
        let urls: Vec<_> = items(rule, "nonResourceRules").iter().map(UrlRule::of).collect();
        let matches_all =
            resources.iter().any(ResourceRule::matches_all) && urls.iter().any(UrlRule::matches_all);
        Rule { users: subjects(users), groups: subjects(groups), accounts, resources, urls, matches_all }
    }

    fn has_subject<G: AsRef<str>>(&self, user: &FlowUser<'_, G>) -> bool {
        self.users.has(user.name)
            || self.groups.is_all()
            || user.groups.iter().any(|group| self.groups.has(group.as_ref()))
            || self.has_account(user.name)
    }

    fn has_account(&self, user: &str) -> bool {
        if self.accounts.is_empty() {
            return false;
        }
        let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        account.is_some_and(|(namespace, name)| {
            let has = |name: &str| {
                let order =
                    |(of, other): &(String, String)| (of.as_str(), other.as_str()).cmp(&(namespace, name));
                self.accounts.binary_search_by(order).is_ok()
            };
            has("*") || has(name)
        })
    }

    fn permits(&self, info: &RequestInfo) -> bool {
        match &info.target {
            RequestTarget::Resource(at) => self.resources.iter().any(|rule| rule.permits(&info.verb, at)),
            RequestTarget::Path(path) => self.urls.iter().any(|rule| rule.permits(&info.verb, path)),
        }
    }
}

impl ResourceRule {
    fn of(rule: &Value) -> Self {
        ResourceRule {
            verbs: Names::of_list(rule, "verbs"),
            groups: Names::of_list(rule, "apiGroups"),
            resources: Names::of_list(rule, "resources"),
            cluster_scope: rule["clusterScope"] == true,
            namespaces: Names::of_list(rule, "namespaces"),
        }
    }

    fn matches_all(&self) -> bool {
        self.cluster_scope
            && [&self.verbs, &self.groups, &self.resources, &self.namespaces]
                .iter()
                .all(|names| names.is_all())
    }

    fn permits(&self, verb: &str, at: &ResourceTarget) -> bool {
        let is_in_scope = match at.namespace.as_str() {
            "" => self.cluster_scope,
            namespace => self.namespaces.has(namespace),
        };
        is_in_scope
            && self.verbs.has(verb)
            && self.groups.has(&at.group)
            && self.resources.has_resource(&at.resource, &at.subresource)
    }
}

impl UrlRule {
    fn of(rule: &Value) -> Self {
        UrlRule { verbs: Names::of_list(rule, "verbs"), urls: strings(rule, "nonResourceURLs") }
    }

    fn matches_all(&self) -> bool {
        self.verbs.is_all() && self.urls.iter().any(|url| url == "*")
    }

    fn permits(&self, verb: &str, path: &str) -> bool {
        self.verbs.has(verb) && self.urls.iter().any(|url| has_url(url, path))
    }
}

/// Whether a URL of a rule covers a path: `*` covers all, any other URL also the paths below it.
fn has_url(url: &str, path: &str) -> bool {
    if url == "*" || url == path {
        return true;
    }
    let below = url.strip_suffix('*').unwrap_or(url);
    let below = below.strip_suffix('/').unwrap_or(below);
    path.strip_prefix(below).is_some_and(|rest| rest.starts_with('/'))
}

fn items<'v>(of: &'v Value, field: &str) -> &'v [Value] {
    of[field].as_array().map_or(&[], Vec::as_slice)
}

fn text<'v>(of: &'v Value, field: &str) -> &'v str {
    of[field].as_str().unwrap_or_default()
}

fn strings(of: &Value, field: &str) -> Vec<String> {
    items(of, field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use orlop_api::query::Query;
    use serde_json::json;

    use super::*;

    fn matches(rule: &Value, user: &str, groups: &[&str], method: &Method, uri: &str) -> bool {
        let schema = Schema::of(&json!({"metadata": {"name": "s"}, "spec": {"rules": [rule]}}));
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let info = RequestInfo::of(method, path, &Query::parse(Some(query)));
        let is_resource = matches!(info.target, RequestTarget::Resource(_));
        assert_eq!(is_resource, RequestInfo::is_resource_path(path), "{uri}");
        schema.matches(&FlowUser { name: user, groups }, is_resource, &|| &info)
    }

    #[test]
    fn subjects_are_users_groups_and_accounts() {
        let everything = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
        let user = |name: &str| json!({"kind": "User", "user": {"name": name}});
        let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
        let account = |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}});
        for (case, subject, name, groups, want) in [
            ("1 user", user("ann"), "ann", &[][..], true),
            ("2 another user", user("ann"), "bob", &["ann"], false),
            ("3 all users", user("*"), "bob", &[], true),
            ("4 group", group("dev"), "ann", &["ops", "dev"], true),
            ("5 another group", group("dev"), "dev", &["ops"], false),
            ("6 all groups", group("*"), "ann", &[], true),
            ("7 account", account("ns", "a"), "system:serviceaccount:ns:a", &[], true),
            ("8 another account", account("ns", "a"), "system:serviceaccount:ns:b", &[], false),
            ("9 another namespace", account("ns", "a"), "system:serviceaccount:ns2:a", &[], false),
            ("10 all accounts", account("ns", "*"), "system:serviceaccount:ns:b", &[], true),
            ("11 of that namespace", account("ns", "*"), "system:serviceaccount:ns2:b", &[], false),
            ("12 no account", account("ns", "*"), "ns:b", &[], false),
            ("13 unknown kind", json!({"kind": "Robot"}), "", &[""], false),
        ] {
            let rule = json!({"subjects": [user("x"), subject], "nonResourceRules": [everything]});
            assert_eq!(matches(&rule, name, groups, &Method::GET, "/x"), want, "{case}");
        }
    }

    #[test]
    fn resource_rules_follow_upstream() {
        let rule =
            |verbs: &[&str], groups: &[&str], resources: &[&str], cluster: bool, namespaces: &[&str]| {
                json!({
                    "verbs": verbs, "apiGroups": groups, "resources": resources, "clusterScope": cluster,
                    "namespaces": namespaces,
                })
            };
        let all = &["*"][..];
        let (get, put, post) = (&Method::GET, &Method::PUT, &Method::POST);
        let pod = "/api/v1/namespaces/n/pods/p";
        let pods = &["pods"][..];
        for (case, rule, method, uri, want) in [
            ("1 everything", rule(all, all, all, true, all), get, pod, true),
            ("2 verb", rule(&["get", "list"], all, all, true, all), get, pod, true),
            ("3 another verb", rule(&["list"], all, all, true, all), get, pod, false),
            ("4 watch", rule(&["watch"], all, pods, true, all), get, "/api/v1/pods?watch=1", true),
            ("5 core group", rule(all, &[""], all, true, all), get, pod, true),
            ("6 another group", rule(all, &["apps"], all, true, all), get, pod, false),
            ("7 resource", rule(all, all, pods, false, all), get, pod, true),
            (
                "8 without its subresources",
                rule(all, all, pods, true, all),
                put,
                &format!("{pod}/status"),
                false,
            ),
            (
                "9 subresource",
                rule(all, all, &["pods/status"], true, all),
                put,
                &format!("{pod}/status"),
                true,
            ),
            ("10 without the resource", rule(all, all, &["pods/status"], true, all), get, pod, false),
            ("11 all subresources", rule(all, all, all, true, all), post, &format!("{pod}/exec"), true),
            ("12 namespace", rule(all, all, all, false, &["m", "n"]), get, pod, true),
            ("13 another namespace", rule(all, all, all, true, &["m"]), get, pod, false),
            ("14 cluster scope", rule(all, all, all, true, &[]), get, "/api/v1/pods", true),
            ("15 not in namespaces", rule(all, all, all, true, &[]), get, pod, false),
            ("16 only in namespaces", rule(all, all, all, false, all), get, "/api/v1/nodes/n", false),
            (
                "17 a namespace is in itself",
                rule(all, all, all, false, &["n"]),
                get,
                "/api/v1/namespaces/n",
                true,
            ),
            ("18 a path", rule(all, all, all, true, all), get, "/api", false),
            ("19 nothing", json!({}), get, pod, false),
        ] {
            let rule = json!({
                "subjects": [{"kind": "User", "user": {"name": "*"}}], "resourceRules": [rule],
            });
            assert_eq!(matches(&rule, "ann", &[], method, uri), want, "{case}");
        }
    }

    #[test]
    fn non_resource_rules_follow_upstream() {
        for (url, path, want) in [
            ("*", "/x", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", true),
            ("/healthz", "/healthzx", false),
            ("/debug/*", "/debug/a/b", true),
            ("/debug/*", "/debug", false),
            ("/debug/*", "/debug/", true),
            ("/debug/", "/debug/a", true),
            ("/openapi*", "/openapi/v2", true),
            ("/openapi*", "/openapiv2", false),
            ("/apis", "/apis/apps/v1", true),
            ("*", "/api/v1/pods", false),
        ] {
            let rule = |verb: &str| {
                let rule = json!({"verbs": [verb], "nonResourceURLs": [url]});
                json!({"subjects": [{"kind": "Group", "group": {"name": "*"}}], "nonResourceRules": [rule]})
            };
            assert_eq!(matches(&rule("get"), "ann", &[], &Method::GET, path), want, "{url} {path}");
            assert!(!matches(&rule("post"), "ann", &[], &Method::GET, path), "{url} {path}");
        }
    }
}
