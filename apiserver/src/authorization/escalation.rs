//! Rejects roles and bindings that grant rights which their author does not have.
//!
//! Upstream: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased, pkg/registry/rbac/helpers.go.

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::rbac::{Rule, escalation};
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use orlop_auth::selection::Selection;
use serde::Deserialize as _;

use crate::verbs::request::Request;

/// Maximum number of items in the rules of an author; further rules do not count.
const MAX_ITEMS: usize = 200_000;

/// The API group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";

/// The metadata that the garbage collector changes to delete an object, and the metadata that the server itself maintains. They grant
/// no rights.
const COLLECTION_FIELDS: [&str; 4] = ["finalizers", "ownerReferences", "managedFields", "resourceVersion"];

/// Checks a role or a binding before it is stored; other objects pass.
///
/// # Errors
/// 403 if the user lacks rights that the object grants; 404 if it binds a role that does not exist.
pub(crate) fn check(request: &Request, object: &Object, old: Option<&Object>) -> Result<(), ApiError> {
    let names = request.names();
    if names.group != GROUP || !request.server.authorizer.restricts(&request.user) {
        return Ok(());
    }
    // The garbage collector has fewer rights than the roles that it deletes.
    if old.is_some_and(|old| changes_only_collection_fields(object, old)) {
        return Ok(());
    }
    let namespace = &request.resource.namespace;
    let refuse = |why: &str| Err(ApiError::forbidden(names, object.name(), why));
    let role_of = |field: &str| object.str_at(&["roleRef", field]);
    let of_cluster = role_of("kind") == "ClusterRole";
    let is_binding = matches!(names.plural, "rolebindings" | "clusterrolebindings");
    // A right in the cluster is a right in each namespace.
    let (verb, resource, name) = match is_binding {
        true => ("bind", if of_cluster { "clusterroles" } else { "roles" }, role_of("name")),
        false => ("escalate", names.plural, object.name()),
    };
    if is_permitted(request, verb, resource, namespace, name) {
        return Ok(());
    }
    let index = request.server.authorizer.rbac.now();
    let rules = if is_binding {
        let rules = index.role(if of_cluster { "" } else { namespace }, name);
        rules.ok_or_else(|| ApiError::not_found(names, name))?.to_vec()
    } else {
        match object.at(&["rules"]).filter(|rules| !rules.is_null()).map(Vec::<Rule>::deserialize) {
            Some(Ok(rules)) => rules,
            // Rules that cannot be read might grant anything.
            Some(Err(error)) => {
                return refuse(&format!("the rules cannot be compared with those of the user: {error}"));
            }
            None => Vec::new(),
        }
    };
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

/// Whether an update changes at most [`COLLECTION_FIELDS`]. Pure.
fn changes_only_collection_fields(object: &Object, old: &Object) -> bool {
    let rest = |object: &Object| {
        let mut rest = object.clone();
        for field in COLLECTION_FIELDS {
            rest.remove(&["metadata", field]);
        }
        rest
    };
    rest(object) == rest(old)
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
        selection: Selection::default(),
    };
    let asked = RequestInfo { verb: verb.into(), target: RequestTarget::Resource(target) };
    request.server.authorizer.decide_blocking(&request.user, &asked).allowed
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_changes_of_collection_fields_need_no_rights() {
        let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}]);
        let collected = json!({"finalizers": null, "ownerReferences": owners, "managedFields": [{"manager": "gc"}],
            "resourceVersion": "2"});
        let old = json!({
            "metadata": {"name": "a", "uid": "1", "labels": {"l": "1"}, "finalizers": ["foregroundDeletion"],
                "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
            "subjects": [{"kind": "User", "name": "ann"}],
            "roleRef": {"kind": "ClusterRole", "name": "view"},
        });
        for (case, change, want) in [
            ("nothing", json!({}), true),
            ("a finalizer", json!({"metadata": {"finalizers": null}}), true),
            ("all fields", json!({ "metadata": collected }), true),
            ("rules", json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}), false),
            ("no rules", json!({"rules": null}), false),
            ("an aggregation", json!({"aggregationRule": {"clusterRoleSelectors": [{}]}}), false),
            ("subjects", json!({"subjects": [{"kind": "User", "name": "bob"}]}), false),
            ("the role", json!({"roleRef": {"name": "cluster-admin"}}), false),
            ("a label", json!({"metadata": {"labels": {"l": "2"}}}), false),
            ("an annotation", json!({"metadata": {"annotations": {"a": "b"}}}), false),
            ("the name", json!({"metadata": {"name": "b"}}), false),
        ] {
            let changed = |object: &Value, change: &Value| {
                let mut object = object.clone();
                json_patch::merge(&mut object, change);
                object
            };
            let is_allowed = |new: &Value| {
                let [new, old] = [new, &old].map(|value| Object::from_value(value.clone()));
                changes_only_collection_fields(&new, &old)
            };
            let new = changed(&old, &change);
            assert_eq!(is_allowed(&new), want, "{case}");
            let new = changed(&new, &json!({ "metadata": collected }));
            assert_eq!(is_allowed(&new), want, "{case}, and all fields");
        }
    }
}
