//! Pods: a node creates mirror pods of its own, and deletes, evicts and reports the pods on it.

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::node::MIRROR_POD;
use serde_json::Value;

use super::pod_references::api_reference;
use super::{existing, operation_name};
use crate::admission::request::{Lookup, Operation, Request};

pub(super) fn restrict(request: &Request<'_>, node: &str, lookup: &dyn Lookup) -> Result<(), ApiError> {
    match request.subresource {
        "" => match request.operation {
            Operation::Create => create(request, node, lookup),
            Operation::Delete => delete(request, node, lookup),
            Operation::Update => Err(request.refuse(&format!(
                "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
                operation_name(request.operation)
            ))),
        },
        "status" => status(request, node),
        "eviction" => evict(request, node, lookup),
        other => Err(request.refuse(&format!(
            "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
        ))),
    }
}

fn create(request: &Request<'_>, node: &str, lookup: &dyn Lookup) -> Result<(), ApiError> {
    let none = Object::default();
    let pod = request.object.as_deref().unwrap_or(&none);
    let refuse = |why: String| Err(request.refuse(&why));
    if pod.annotation(MIRROR_POD).is_none() {
        return refuse(format!(
            "pod does not have {MIRROR_POD:?} annotation, node {node:?} can only create mirror pods"
        ));
    }
    if pod.str_at(&["spec", "nodeName"]) != node {
        return refuse(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
    }
    let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let owner = match owners.map_or(&[][..], Vec::as_slice) {
        [owner] => owner,
        [] => {
            return refuse(format!(
                "node {node:?} can only create pods with an owner reference set to itself"
            ));
        }
        _ => {
            return refuse(format!(
                "node {node:?} can only create pods with a single owner reference set to itself"
            ));
        }
    };
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
        return refuse(format!("node {node:?} can only create pods with an owner reference set to itself"));
    }
    if owner["controller"] != true {
        return refuse(format!(
            "node {node:?} can only create pods with a controller owner reference set to itself"
        ));
    }
    if owner["blockOwnerDeletion"] == true {
        return refuse(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    let registered = existing(lookup, "", "nodes", "", node)?;
    let uid = owner["uid"].as_str().unwrap_or_default();
    if uid != registered.uid() {
        return refuse(format!("node {node} UID mismatch: expected {uid} got {}", registered.uid()));
    }
    // The node would get access to these objects.
    match api_reference(pod) {
        Ok(None) => Ok(()),
        Ok(Some(resource)) => refuse(format!("node {node:?} can not create pods that reference {resource}")),
        Err(why) => refuse(format!("error checking mirror pod for API references: {why}")),
    }
}

fn delete(request: &Request<'_>, node: &str, lookup: &dyn Lookup) -> Result<(), ApiError> {
    // As upstream, which finds no pod without a name: a node deletes nothing of a collection.
    let pod = existing(lookup, "", "pods", request.namespace, request.requested_name())?;
    if pod.field("spec.nodeName") == node {
        return Ok(());
    }
    Err(request.refuse(&format!("node {node:?} can only delete pods with spec.nodeName set to itself")))
}

fn evict(request: &Request<'_>, node: &str, lookup: &dyn Lookup) -> Result<(), ApiError> {
    if request.operation != Operation::Create {
        return Err(request.refuse(&format!("unexpected operation {}", operation_name(request.operation))));
    }
    let pod = existing(lookup, "", "pods", request.namespace, request.name)?;
    if pod.field("spec.nodeName") == node {
        return Ok(());
    }
    Err(request.refuse(&format!("node {node} can only evict pods with spec.nodeName set to itself")))
}

/// Rejects the status of a pod that is not on the node.
pub(super) fn reports_own(request: &Request<'_>, node: &str) -> Result<(), ApiError> {
    if request.old.is_some_and(|pod| pod.str_at(&["spec", "nodeName"]) == node) {
        return Ok(());
    }
    Err(request.refuse(&format!(
        "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
    )))
}

fn status(request: &Request<'_>, node: &str) -> Result<(), ApiError> {
    let (Operation::Update, Some(new), Some(old)) =
        (request.operation, request.object.as_deref(), request.old)
    else {
        return Err(request.refuse(&format!("unexpected operation {:?}", operation_name(request.operation))));
    };
    reports_own(request, node)?;
    let refuse = |why: String| Err(request.refuse(&why));
    if old.labels().filter(|labels| !labels.is_empty()) != new.labels().filter(|labels| !labels.is_empty()) {
        return refuse(format!("node {node:?} cannot update labels through pod status"));
    }
    if claim_statuses(old) != claim_statuses(new) {
        return refuse(format!("node {node:?} cannot update resource claim statues"));
    }
    let extended = |pod: &Object| {
        let status = pod.at(&["status", "extendedResourceClaimStatus"]).filter(|status| !status.is_null());
        status.cloned()
    };
    if extended(old) != extended(new) {
        return refuse(format!("node {node:?} cannot update extended resource claim status"));
    }
    Ok(())
}

/// The names of the resource claims in the status of a pod, with the names of the claims in its spec.
fn claim_statuses(pod: &Object) -> Vec<(Option<&str>, Option<&str>)> {
    let statuses = pod.at(&["status", "resourceClaimStatuses"]).and_then(Value::as_array);
    let statuses = statuses.into_iter().flatten();
    statuses.map(|status| (status["name"].as_str(), status["resourceClaimName"].as_str())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::NodeRestriction;
    use super::*;
    use crate::admission::testing::{Facts, Write};

    fn facts() -> Facts {
        let pod = |name: &str, node: &str| json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"nodeName": node}});
        Facts::new(&[
            ("nodes", json!({"metadata": {"name": "n1", "uid": "u1"}})),
            ("pods", pod("own", "n1")),
            ("pods", pod("other", "n2")),
        ])
    }

    /// The reason of the refusal, or `""`.
    fn why(write: Write) -> String {
        let outcome = write.in_namespace("ns").by_node("n1").mutate(&NodeRestriction, &facts());
        let Err(error) = outcome else { return String::new() };
        error.message.split_once("is forbidden: ").map_or(error.message.clone(), |(_, why)| why.to_owned())
    }

    /// A mirror pod of n1 with changes to its metadata and spec.
    fn mirror(metadata: Value, spec: Value) -> Value {
        let mut pod = json!({
            "metadata": {"name": "p", "annotations": {MIRROR_POD: "h"}, "ownerReferences": [owner(json!({}))]},
            "spec": {"nodeName": "n1"},
        });
        for (part, changes) in [("metadata", metadata), ("spec", spec)] {
            for (name, value) in changes.as_object().into_iter().flatten() {
                pod[part][name] = value.clone();
            }
        }
        pod
    }

    fn owner(changes: Value) -> Value {
        let mut owner =
            json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": true});
        for (name, value) in changes.as_object().into_iter().flatten() {
            owner[name] = value.clone();
        }
        owner
    }

    #[test]
    fn node_creates_its_own_mirror_pods() {
        let itself = "node \"n1\" can only create pods with an owner reference set to itself";
        let owned = |owners: Value| mirror(json!({"ownerReferences": owners}), json!({}));
        for (pod, want) in [
            (mirror(json!({}), json!({})), ""),
            (
                mirror(json!({"annotations": {}}), json!({})),
                "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods",
            ),
            (
                mirror(json!({}), json!({"nodeName": "n2"})),
                "node \"n1\" can only create pods with spec.nodeName set to itself",
            ),
            (owned(json!([])), itself),
            (owned(json!([owner(json!({"name": "n2"}))])), itself),
            (owned(json!([owner(json!({"kind": "Pod"}))])), itself),
            (owned(json!([owner(json!({"apiVersion": "v2"}))])), itself),
            (
                owned(json!([owner(json!({})), owner(json!({"uid": "u2"}))])),
                "node \"n1\" can only create pods with a single owner reference set to itself",
            ),
            (
                owned(json!([owner(json!({"controller": false}))])),
                "node \"n1\" can only create pods with a controller owner reference set to itself",
            ),
            (
                owned(json!([owner(json!({"blockOwnerDeletion": true}))])),
                "node \"n1\" must not set blockOwnerDeletion on an owner reference",
            ),
            (owned(json!([owner(json!({"uid": "u2"}))])), "node n1 UID mismatch: expected u2 got u1"),
            (
                mirror(json!({}), json!({"serviceAccountName": "a"})),
                "node \"n1\" can not create pods that reference serviceaccounts",
            ),
        ] {
            assert_eq!(why(Write::create("pods", pod.clone())), want, "{pod}");
        }
    }

    #[test]
    fn mirror_pod_needs_a_registered_node() {
        let mut write = Write::create("pods", mirror(json!({}), json!({}))).in_namespace("ns").by_node("n1");
        let error = write.mutate(&NodeRestriction, &Facts::none()).expect_err("no node");
        assert_eq!((error.code, error.message.as_str()), (404, "node \"n1\" not found"));
    }

    #[test]
    fn node_deletes_and_evicts_the_pods_on_it() {
        let named = |name: &str| json!({"metadata": {"name": name}});
        for (write, want) in [
            (Write::delete("pods", named("own")), ""),
            (
                Write::delete("pods", named("other")),
                "node \"n1\" can only delete pods with spec.nodeName set to itself",
            ),
            (Write::delete("pods", named("own")).of_collection(), "pod \"\" not found"),
            (Write::create("pods", named("own")).to("eviction"), ""),
            (
                Write::create("pods", named("other")).to("eviction"),
                "node n1 can only evict pods with spec.nodeName set to itself",
            ),
            (Write::create("pods", named("nope")).to("eviction"), "pod \"nope\" not found"),
            (
                Write::update("pods", named("own"), named("own")),
                "unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods",
            ),
            (
                Write::update("pods", named("own"), named("own")).to("ephemeralcontainers"),
                "unexpected pod subresource \"ephemeralcontainers\", only 'status' and 'eviction' are allowed",
            ),
            (
                Write::create("pods", named("own")).to("binding"),
                "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed",
            ),
        ] {
            assert_eq!(why(write), want);
        }
    }

    #[test]
    fn node_reports_the_status_of_the_pods_on_it() {
        let old = json!({
            "metadata": {"name": "own", "labels": {"a": "b"}}, "spec": {"nodeName": "n1"},
            "status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "d"}]},
        });
        let changed = |path: &[&str], value: Value| {
            let mut object = Object::from_value(old.clone());
            object.set(path, value);
            object.into_value()
        };
        for (new, want) in [
            (changed(&["status", "phase"], "Running".into()), ""),
            (
                changed(&["metadata", "labels", "a"], "c".into()),
                "node \"n1\" cannot update labels through pod status",
            ),
            (
                changed(&["metadata", "labels"], json!({})),
                "node \"n1\" cannot update labels through pod status",
            ),
            (
                changed(&["status", "resourceClaimStatuses"], json!([{"name": "c"}])),
                "node \"n1\" cannot update resource claim statues",
            ),
            (
                changed(&["status", "extendedResourceClaimStatus"], json!({"resourceClaimName": "x"})),
                "node \"n1\" cannot update extended resource claim status",
            ),
        ] {
            assert_eq!(why(Write::update("pods", old.clone(), new.clone()).to("status")), want, "{new}");
        }
        let other = json!({"metadata": {"name": "other"}, "spec": {"nodeName": "n2"}});
        assert_eq!(
            why(Write::update("pods", other.clone(), other).to("status")),
            "node \"n1\" can only update pod status for pods with spec.nodeName set to itself"
        );
    }
}
