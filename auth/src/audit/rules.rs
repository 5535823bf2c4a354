//! Finds the rule of a policy that decides how a request is recorded.
//!
//! Upstream: apiserver `pkg/audit/policy/checker.go`.

use crate::UserInfo;
use crate::request_info::{RequestInfo, RequestTarget, ResourceTarget};

use super::level::{Level, Stages};
use super::policy::{GroupResources, Policy, PolicyRule};

/// How a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAudit {
    /// The level.
    pub level: Level,
    /// The stages without an event.
    pub omit_stages: Stages,
    /// Record objects without their managed fields.
    pub omit_managed_fields: bool,
}

impl Policy {
    /// How a request is recorded. A request that failed authentication has no user.
    pub fn decide(&self, user: Option<&UserInfo>, request: &RequestInfo) -> RequestAudit {
        let rule = self.rules.iter().find(|rule| rule.matches(user, request));
        match rule {
            Some(rule) => RequestAudit {
                level: rule.level,
                omit_stages: rule.omit_stages,
                omit_managed_fields: rule.omit_managed_fields,
            },
            None => RequestAudit {
                level: Level::None,
                omit_stages: Stages::default(),
                omit_managed_fields: false,
            },
        }
    }
}

impl PolicyRule {
    fn matches(&self, user: Option<&UserInfo>, request: &RequestInfo) -> bool {
        let is_user = |users: &[String]| user.is_some_and(|user| users.contains(&user.username));
        let is_member = |groups: &[String]| {
            user.is_some_and(|user| user.groups.iter().any(|group| groups.contains(group)))
        };
        (self.users.is_empty() || is_user(&self.users))
            && (self.user_groups.is_empty() || is_member(&self.user_groups))
            && (self.verbs.is_empty() || self.verbs.iter().any(|verb| *verb == request.verb))
            && self.matches_target(&request.target)
    }

    fn matches_target(&self, target: &RequestTarget) -> bool {
        let is_for_resources = !self.namespaces.is_empty() || !self.resources.is_empty();
        match target {
            RequestTarget::Resource(at) if is_for_resources => {
                (self.namespaces.is_empty() || self.namespaces.contains(&at.namespace))
                    && (self.resources.is_empty() || self.resources.iter().any(|group| group.matches(at)))
            }
            RequestTarget::Path(_) if is_for_resources => false,
            RequestTarget::Resource(_) => self.non_resource_urls.is_empty(),
            RequestTarget::Path(path) => {
                self.non_resource_urls.is_empty()
                    || self.non_resource_urls.iter().any(|url| matches_path(url, path))
            }
        }
    }
}

impl GroupResources {
    fn matches(&self, at: &ResourceTarget) -> bool {
        self.group == at.group
            && (self.resources.is_empty()
                || (self.resource_names.is_empty() || self.resource_names.contains(&at.name))
                    && self.resources.iter().any(|resource| matches_resource(resource, at)))
    }
}

/// Whether an entry such as `pods`, `pods/log`, `pods/*`, `*/scale` or `*` matches.
fn matches_resource(entry: &str, at: &ResourceTarget) -> bool {
    if entry == "*" {
        return true;
    }
    match entry.split_once('/') {
        None => entry == at.resource && at.subresource.is_empty(),
        // As upstream, `pods/*` matches the pods too.
        Some((resource, "*")) => resource == at.resource,
        Some(("*", subresource)) => !subresource.is_empty() && subresource == at.subresource,
        Some((resource, subresource)) => resource == at.resource && subresource == at.subresource,
    }
}

/// Whether a path matches an entry such as `/healthz*`.
fn matches_path(entry: &str, path: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == entry,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(rules: Value) -> Policy {
        Policy::parse(json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
            .expect("a valid policy")
    }

    /// `verb group/namespace/resource/subresource/name`, or `verb path /a`.
    fn request(text: &str) -> RequestInfo {
        let (verb, target) = text.split_once(' ').expect("a verb");
        let target = match target.strip_prefix("path ") {
            Some(path) => RequestTarget::Path(path.to_owned()),
            None => {
                let parts: Vec<String> = target.split('/').map(str::to_owned).collect();
                let [group, namespace, resource, subresource, name] = parts.try_into().expect("five parts");
                let version = "v1".to_owned();
                RequestTarget::Resource(ResourceTarget {
                    group,
                    version,
                    namespace,
                    resource,
                    subresource,
                    name,
                    ..ResourceTarget::default()
                })
            }
        };
        RequestInfo { verb: verb.to_owned().into(), target }
    }

    #[test]
    fn every_field_of_a_rule_restricts_it() {
        let pod = "get /n/pods//a";
        let log = "get /n/pods/log/a";
        let scale = "update apps/n/deployments/scale/d";
        let node = "get //nodes//n1";
        let metrics = "get path /metrics";
        for (case, rule, request_text, want) in [
            ("1 empty", json!({}), pod, true),
            ("2 empty, a path", json!({}), metrics, true),
            ("3 the user", json!({"users": ["ann"]}), pod, true),
            ("4 another user", json!({"users": ["bob"]}), pod, false),
            ("5 a group", json!({"userGroups": ["x", "devs"]}), pod, true),
            ("6 no group", json!({"userGroups": ["x"]}), pod, false),
            ("7 the verb", json!({"verbs": ["list", "get"]}), pod, true),
            ("8 another verb", json!({"verbs": ["list"]}), pod, false),
            ("9 no wildcard of verbs", json!({"verbs": ["*"]}), pod, false),
            ("10 the namespace", json!({"namespaces": ["n"]}), pod, true),
            ("11 another namespace", json!({"namespaces": ["m"]}), pod, false),
            ("12 cluster scope", json!({"namespaces": [""]}), node, true),
            ("13 cluster scope, a pod", json!({"namespaces": [""]}), pod, false),
            ("14 a namespace, a path", json!({"namespaces": [""]}), metrics, false),
            ("15 the core group", json!({"resources": [{"group": ""}]}), pod, true),
            ("16 its subresources", json!({"resources": [{}]}), log, true),
            ("17 another group", json!({"resources": [{"group": "apps"}]}), pod, false),
            ("18 the resource", json!({"resources": [{"resources": ["pods"]}]}), pod, true),
            ("19 not its subresource", json!({"resources": [{"resources": ["pods"]}]}), log, false),
            ("20 the subresource", json!({"resources": [{"resources": ["pods/log"]}]}), log, true),
            ("21 not the resource", json!({"resources": [{"resources": ["pods/log"]}]}), pod, false),
            ("22 all subresources", json!({"resources": [{"resources": ["pods/*"]}]}), log, true),
            (
                "23 and the resource, as upstream",
                json!({"resources": [{"resources": ["pods/*"]}]}),
                pod,
                true,
            ),
            ("24 any resource", json!({"resources": [{"resources": ["*"]}]}), log, true),
            (
                "25 one subresource of any",
                json!({"resources": [{"group": "apps", "resources": ["*/scale"]}]}),
                scale,
                true,
            ),
            ("26 of any, another", json!({"resources": [{"resources": ["*/scale"]}]}), log, false),
            (
                "27 the name",
                json!({"resources": [{"resources": ["pods"], "resourceNames": ["a"]}]}),
                pod,
                true,
            ),
            (
                "28 another name",
                json!({"resources": [{"resources": ["pods"], "resourceNames": ["b"]}]}),
                pod,
                false,
            ),
            (
                "29 the second entry",
                json!({"resources": [{"group": "apps"}, {"resources": ["pods"]}]}),
                pod,
                true,
            ),
            ("30 resources, a path", json!({"resources": [{}]}), metrics, false),
            ("31 the path", json!({"nonResourceURLs": ["/metrics"]}), metrics, true),
            ("32 not below it", json!({"nonResourceURLs": ["/metrics"]}), "get path /metrics/a", false),
            ("33 a prefix", json!({"nonResourceURLs": ["/met*"]}), metrics, true),
            ("34 every path", json!({"nonResourceURLs": ["*"]}), metrics, true),
            ("35 a path, a resource", json!({"nonResourceURLs": ["*"]}), pod, false),
            ("36 all fields", json!({"users": ["ann"], "verbs": ["get"], "namespaces": ["m"]}), pod, false),
        ] {
            let mut rule = rule;
            rule["level"] = "Request".into();
            let user = UserInfo::new("ann", ["devs".to_owned()]);
            let found = policy(json!([rule])).decide(Some(&user), &request(request_text));
            assert_eq!(found.level == Level::Request, want, "{case}");
        }
    }

    #[test]
    fn first_matching_rule_decides() {
        let policy = policy(json!([
            {"level": "None", "users": ["ann"]},
            {"level": "RequestResponse", "verbs": ["get"], "omitStages": ["RequestReceived"], "omitManagedFields": true},
            {"level": "Metadata", "verbs": ["get", "list"]},
        ]));
        let level =
            |user: &str, text: &str| policy.decide(Some(&UserInfo::new(user, [])), &request(text)).level;
        assert_eq!(level("ann", "get /n/pods//a"), Level::None);
        assert_eq!(level("bob", "get /n/pods//a"), Level::RequestResponse);
        assert_eq!(level("bob", "list /n/pods//"), Level::Metadata);
        assert_eq!(level("bob", "delete /n/pods//a"), Level::None, "no rule matches");
        let found = policy.decide(None, &request("get /n/pods//a"));
        assert_eq!(found.level, Level::RequestResponse, "users match no request without a user");
        assert!(
            found.omit_managed_fields && found.omit_stages.contains(super::super::Stage::RequestReceived)
        );
    }
}
