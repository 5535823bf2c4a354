//! Rejects roles and bindings that grant rights which their author does not have.
//!
//! Upstream: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased.

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::rbac::{Rule, escalation};
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use serde::Deserialize as _;

use crate::verbs::request::Request;

/// Maximum number of items in the rules of an author; further rules do not count.
const MAX_ITEMS: usize = 200_000;

/// The API group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks a role or a binding before it is stored; other objects pass.
///
/// # Errors
/// 403 if the user lacks rights that the object grants; 404 if it binds a role that does not exist.
pub(crate) fn check(request: &Request, object: &Object, old: Option<&Object>) -> Result<(), ApiError> {
    let names = request.names();
    if names.group != GROUP || !request.server.authorizer.restricts(&request.user) {
        return Ok(());
    }
    let namespace = &request.resource.namespace;
    let refuse = |why: &str| Err(ApiError::forbidden(names, object.name(), why));
    let index = request.server.authorizer.rbac.now();
    let (verb, resource, name, rules) = match names.plural {
        "roles" | "clusterroles" => {
            let rules: Vec<Rule> = object.at(&["rules"]).map_or_else(Vec::new, rules_of);
            ("escalate", names.plural, object.name(), rules)
        }
        "rolebindings" | "clusterrolebindings" => {
            let role = object.str_at(&["roleRef", "name"]);
            let of_cluster = object.str_at(&["roleRef", "kind"]) == "ClusterRole";
            let resource = if of_cluster { "clusterroles" } else { "roles" };
            if is_permitted(request, "bind", resource, if of_cluster { "" } else { namespace }, role)
                || is_permitted(request, "bind", resource, namespace, role)
            {
                return Ok(());
            }
            let rules = index.role(if of_cluster { "" } else { namespace }, role);
            let rules = rules.ok_or_else(|| ApiError::not_found(names, role))?;
            ("bind", resource, role, rules.to_vec())
        }
        _ => return Ok(()),
    };
    if is_permitted(request, verb, resource, namespace, name) {
        return Ok(());
    }
    let owned = index.rules(&request.user, namespace, MAX_ITEMS).rules;
    drop(index);
    // Also for the removal of an aggregation rule: it freezes the rules of the role.
    let aggregates = |role: &Object| role.at(&["aggregationRule"]).is_some_and(|rule| !rule.is_null());
    if aggregates(object) || old.is_some_and(aggregates) {
        let everything = [everything(), every_path()];
        if escalation(&request.user, &owned, &everything).is_some() {
            return refuse("must have cluster-admin privileges to use the aggregationRule");
        }
    }
    match escalation(&request.user, &owned, &rules) {
        Some(why) => refuse(&why),
        None => Ok(()),
    }
}

fn rules_of(rules: &serde_json::Value) -> Vec<Rule> {
    // The object has been validated.
    Vec::deserialize(rules).unwrap_or_default()
}

fn all() -> Vec<String> {
    vec!["*".to_owned()]
}

fn everything() -> Rule {
    Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() }
}

fn every_path() -> Rule {
    Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() }
}

fn is_permitted(request: &Request, verb: &'static str, resource: &str, namespace: &str, name: &str) -> bool {
    let target = ResourceTarget {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        subresource: String::new(),
        name: name.to_owned(),
    };
    let asked = RequestInfo { verb: verb.into(), target: RequestTarget::Resource(target) };
    request.server.authorizer.decide(&request.user, &asked).allowed
}
