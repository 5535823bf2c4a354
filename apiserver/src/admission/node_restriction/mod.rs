//! `NodeRestriction`: restricts node agents to their own Node, and to the pods on it and the objects of these pods (upstream:
//! plugin/pkg/admission/noderestriction).

mod certificate;
mod claim;
mod node;
mod pod;
mod pod_references;
mod token;

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::node::node_name;

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::encode::head::ObjectHead;
use crate::registry::{self, Names};

/// The name of the plugin.
pub(crate) const NODE_RESTRICTION: &str = "NodeRestriction";

/// The namespace of the Leases of nodes.
const LEASES: &str = "kube-node-lease";

pub(super) struct NodeRestriction;

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        NODE_RESTRICTION
    }

    fn check_target(&self, request: &Request<'_>) -> Result<(), ApiError> {
        match node_of(request)? {
            Some(node) => check_target(request, node),
            None => Ok(()),
        }
    }

    fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        match node_of(request)? {
            Some(node) => restrict(request, node, lookup),
            None => Ok(()),
        }
    }
}

/// The name of the node that writes; `None` for other users.
fn node_of<'a>(request: &Request<'a>) -> Result<Option<&'a str>, ApiError> {
    let node = node_name(request.user);
    if node == Some("") {
        let why = format!("could not determine node from user {:?}", request.user.username);
        return Err(request.refuse(&why));
    }
    Ok(node)
}

/// Rejects changes of other nodes' objects. The authorizer permits patches of every Node and of the status of every pod. Without this
/// check, the error of a patch that cannot be applied would show the object to the node.
fn check_target(request: &Request<'_>, node: &str) -> Result<(), ApiError> {
    let names = request.names();
    match (names.group, names.plural) {
        ("", "nodes") => node::is_own(request, node),
        ("", "pods") if request.subresource == "status" => pod::reports_own(request, node),
        _ => Ok(()),
    }
}

fn restrict(request: &Request<'_>, node: &str, lookup: &dyn Lookup) -> Result<(), ApiError> {
    let names = request.names();
    match (names.group, names.plural) {
        ("", "pods") => pod::restrict(request, node, lookup),
        ("", "nodes") => node::restrict(request, node),
        ("", "persistentvolumeclaims") => claim::restrict(request, node),
        ("", "serviceaccounts") => token::restrict(request, node, lookup),
        ("certificates.k8s.io", "certificatesigningrequests") => certificate::restrict(request, node),
        ("coordination.k8s.io", "leases") => {
            if request.namespace != LEASES {
                let why = format!("can only access leases in the {LEASES:?} system namespace");
                return Err(request.refuse(&why));
            }
            is_own(request, node, "can only access node lease with the same name as the requesting node")
        }
        ("storage.k8s.io", "csinodes") => {
            is_own(request, node, "can only access CSINode with the same name as the requesting node")
        }
        ("resource.k8s.io", "resourceslices") => resource_slice(request, node),
        _ => Ok(()),
    }
}

/// Refuses an object with another name than the node.
fn is_own(request: &Request<'_>, node: &str, why: &str) -> Result<(), ApiError> {
    let name = match request.operation {
        Operation::Create => request.object.as_deref().map_or("", Object::name),
        Operation::Update | Operation::Delete => request.requested_name(),
    };
    if name == node { Ok(()) } else { Err(request.refuse(why)) }
}

/// The authorizer checks all other requests for slices.
fn resource_slice(request: &Request<'_>, node: &str) -> Result<(), ApiError> {
    let (slice, why) = match request.operation {
        Operation::Create => (
            request.object.as_deref(),
            "can only create ResourceSlice with the same NodeName as the requesting node",
        ),
        Operation::Delete => {
            (request.old, "can only delete ResourceSlice with the same NodeName as the requesting node")
        }
        Operation::Update => return Ok(()),
    };
    let is_own = slice.is_some_and(|slice| slice.str_at(&["spec", "nodeName"]) == node);
    if is_own { Ok(()) } else { Err(request.refuse(why)) }
}

/// Upstream's name of an operation.
fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    }
}

/// The head of an object that the plugin reads. Agents can make Pod and Node objects as large as any object may be.
///
/// # Errors
/// 404, with the singular name of the kind as in upstream's caches.
fn existing(
    lookup: &dyn Lookup,
    group: &str,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<ObjectHead, ApiError> {
    let kind = registry::by_resource(group, "v1", plural).ok_or_else(ApiError::no_such_resource)?;
    lookup.head(kind, namespace, name).ok_or_else(|| {
        let names = kind.names();
        ApiError::not_found(&Names { plural: names.singular, ..*names }, name)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{Facts, Write};

    fn outcome(mut write: Write) -> Result<(), String> {
        write.mutate(&NodeRestriction, &Facts::none()).map(drop).map_err(|error| error.message)
    }

    fn named(name: &str) -> Value {
        json!({"metadata": {"name": name}})
    }

    #[test]
    fn other_users_are_not_restricted() {
        assert_eq!(outcome(Write::create("nodes", named("n2"))), Ok(()));
        let unnamed = Write::create("configmaps", named("c")).in_namespace("ns").by_node("");
        let why = "configmaps \"c\" is forbidden: could not determine node from user \"system:node:\"";
        assert_eq!(outcome(unnamed), Err(why.to_owned()));
    }

    #[test]
    fn leases_and_csi_nodes_are_those_of_the_node() {
        let lease = "leases.coordination.k8s.io \"n2\" is forbidden: can only access node lease with the same name as the requesting node";
        let place = "leases.coordination.k8s.io \"n1\" is forbidden: can only access leases in the \"kube-node-lease\" system namespace";
        let csi_node = "csinodes.storage.k8s.io \"n2\" is forbidden: can only access CSINode with the same name as the requesting node";
        let csi_nodes = "csinodes.storage.k8s.io \"Unknown\" is forbidden: can only access CSINode with the same name as the requesting node";
        for (write, want) in [
            (Write::create("leases", named("n1")).in_namespace(LEASES), None),
            (Write::create("leases", named("n2")).in_namespace(LEASES), Some(lease)),
            (Write::create("leases", named("n1")).in_namespace("ns"), Some(place)),
            (Write::update("leases", named("n2"), named("n2")).in_namespace(LEASES), Some(lease)),
            (Write::delete("leases", named("n1")).in_namespace(LEASES), None),
            (Write::create("csinodes", named("n1")), None),
            (Write::create("csinodes", named("n2")), Some(csi_node)),
            (Write::update("csinodes", named("n1"), named("n1")), None),
            (Write::delete("csinodes", named("n2")), Some(csi_node)),
            (Write::delete("csinodes", named("n1")).of_collection(), Some(csi_nodes)),
            (Write::create("configmaps", named("c")).in_namespace("ns"), None),
        ] {
            assert_eq!(outcome(write.by_node("n1")).err().as_deref(), want);
        }
    }
}
