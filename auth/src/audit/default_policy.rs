//! The policy of a server without a policy file (docs/audit.md). It records no bodies.

use super::level::{Level, Stage, Stages};
use super::policy::{GroupResources, Policy, PolicyRule};
use crate::UserInfo;

/// The caches of the controllers, and the scheduler.
const COMPONENTS: [&str; 2] = [UserInfo::CONTROLLER_MANAGER, UserInfo::SCHEDULER];
/// The group of the controllers' service accounts.
const ACCOUNTS: &str = "system:serviceaccounts:kube-system";

const NODES: &str = "system:nodes";

impl Default for Policy {
    fn default() -> Self {
        Policy {
            rules: vec![
                // Health checks and versions.
                PolicyRule {
                    verbs: texts(&["get", "head"]),
                    non_resource_urls: texts(&["/healthz*", "/livez*", "/readyz*", "/version*"]),
                    ..rule(Level::None)
                },
                // All access to Secrets is recorded.
                PolicyRule { resources: vec![resources("", &["secrets"])], ..rule(Level::Metadata) },
                PolicyRule {
                    users: texts(&COMPONENTS),
                    verbs: texts(&["get", "list", "watch"]),
                    ..rule(Level::None)
                },
                PolicyRule {
                    user_groups: texts(&[NODES, ACCOUNTS]),
                    verbs: texts(&["get", "list", "watch"]),
                    ..rule(Level::None)
                },
                // Periodic writes: leases, and the status that nodes report.
                PolicyRule {
                    user_groups: texts(&[NODES]),
                    verbs: texts(&["update", "patch"]),
                    resources: vec![
                        resources("coordination.k8s.io", &["leases"]),
                        resources("", &["nodes/status"]),
                    ],
                    ..rule(Level::None)
                },
                PolicyRule {
                    users: texts(&COMPONENTS),
                    verbs: texts(&["update", "patch"]),
                    resources: vec![resources("coordination.k8s.io", &["leases"])],
                    ..rule(Level::None)
                },
                rule(Level::Metadata),
            ],
        }
    }
}

/// A rule that matches every request.
fn rule(level: Level) -> PolicyRule {
    PolicyRule {
        level,
        users: Vec::new(),
        user_groups: Vec::new(),
        verbs: Vec::new(),
        resources: Vec::new(),
        namespaces: Vec::new(),
        non_resource_urls: Vec::new(),
        omit_stages: Stages::default().with(Stage::RequestReceived),
        omit_managed_fields: false,
    }
}

fn resources(group: &str, names: &[&str]) -> GroupResources {
    GroupResources { group: group.to_owned(), resources: texts(names), resource_names: Vec::new() }
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use orlop_api::query::Query;

    use super::*;
    use crate::request_info::RequestInfo;

    #[test]
    fn periodic_requests_are_left_out_and_bodies_never_recorded() {
        let policy = Policy::default();
        assert!(policy.rules.iter().all(|rule| rule.level <= Level::Metadata));
        let ann = UserInfo::new("ann", []);
        let controllers = UserInfo::controller_manager();
        let binder = UserInfo::service_account("kube-system", "persistent-volume-binder");
        let other = UserInfo::service_account("default", "persistent-volume-binder");
        let node = UserInfo::node("n1");
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1";
        let secret = "/api/v1/namespaces/default/secrets/a";
        for (case, user, method, path, want) in [
            ("1 a health check", &ann, "GET", "/livez", false),
            ("2 a part of one", &ann, "GET", "/readyz/ping", false),
            ("3 the version", &ann, "GET", "/version", false),
            ("4 another path", &ann, "GET", "/orlop/snapshot", true),
            ("5 a read", &ann, "GET", "/api/v1/pods", true),
            ("6 a read of a controller", &controllers, "GET", "/api/v1/pods", false),
            ("7 a watch of a controller", &controllers, "GET", "/api/v1/pods?watch=1", false),
            ("8 a write of a controller", &controllers, "DELETE", "/api/v1/namespaces/default/pods/a", true),
            ("9 a read of a node", &node, "GET", "/api/v1/pods", false),
            ("10 a Secret, read by a node", &node, "GET", secret, true),
            ("11 a Secret, read by a controller", &controllers, "GET", secret, true),
            ("12 a heartbeat", &node, "PUT", lease, false),
            ("13 a heartbeat of another user", &ann, "PUT", lease, true),
            ("14 a new lease", &node, "POST", lease, true),
            ("15 the status of a node", &node, "PATCH", "/api/v1/nodes/n1/status", false),
            ("16 a node", &node, "PATCH", "/api/v1/nodes/n1", true),
            ("18 a read of one controller", &binder, "GET", "/api/v1/pods", false),
            ("19 its write", &binder, "DELETE", "/api/v1/namespaces/default/pods/a", true),
            ("20 an account of the same name elsewhere", &other, "GET", "/api/v1/pods", true),
            ("17 the status of a pod", &node, "PATCH", "/api/v1/namespaces/default/pods/a/status", true),
        ] {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let method: Method = method.parse().expect("a method");
            let request = RequestInfo::of(&method, path, &Query::parse(Some(query)));
            let found = policy.decide(Some(user), &request);
            assert_eq!(found.level == Level::Metadata, want, "{case}");
            assert!(
                found.level == Level::None || found.omit_stages.contains(Stage::RequestReceived),
                "{case}"
            );
        }
    }
}
