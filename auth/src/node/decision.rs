//! Whether a node may perform a request.
//!
//! Upstream: plugin/pkg/auth/authorizer/node/node_authorizer.go.

use std::sync::LazyLock;

use super::identity::node_name;
use super::related_kind::RelatedKind;
use crate::UserInfo;
use crate::rbac::Rule;
use crate::rbac::bootstrap::node_rules;
use crate::request_info::{RequestInfo, RequestTarget, ResourceTarget};

/// The decision of the Node authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeDecision {
    /// The request is permitted.
    Allow,
    /// The authorizer does not permit the request; upstream's reason, which may be empty.
    NoOpinion(String),
}

/// The start of the reason for an object that no pod on the node uses.
pub const UNRELATED: &str = "no relationship found between node";

/// The namespace of the Leases of nodes.
const LEASES: &str = "kube-node-lease";

/// The rules for resources that are not related to single nodes.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(node_rules);

fn no(reason: &str) -> NodeDecision {
    NodeDecision::NoOpinion(reason.to_owned())
}

/// Decides about a request. `is_related` returns whether a node needs an object, given by kind, namespace and name.
pub fn decide(
    user: &UserInfo,
    request: &RequestInfo,
    is_related: impl Fn(&str, RelatedKind, &str, &str) -> bool,
) -> NodeDecision {
    let Some(node) = node_name(user) else { return no("") };
    if node.is_empty() {
        return NodeDecision::NoOpinion(format!("unknown node for user {:?}", user.username));
    }
    let by_rules = || match RULES.iter().any(|rule| rule.permits(request)) {
        true => NodeDecision::Allow,
        false => no(""),
    };
    let RequestTarget::Resource(at) = &request.target else { return by_rules() };
    let asked = Asked { node, verb: &request.verb, at, is_related };
    match (at.group.as_str(), at.resource.as_str()) {
        ("", "secrets") => asked.read(RelatedKind::Secret),
        ("", "configmaps") => asked.read(RelatedKind::ConfigMap),
        ("", "persistentvolumeclaims") if at.subresource == "status" => asked.claim_status(),
        ("", "persistentvolumeclaims") => asked.get(RelatedKind::Claim),
        ("", "persistentvolumes") => asked.get(RelatedKind::Volume),
        ("", "serviceaccounts") => asked.service_account(),
        ("", "nodes") => asked.node(),
        ("", "pods") => asked.pod(),
        ("resource.k8s.io", "resourceclaims") => asked.get(RelatedKind::ResourceClaim),
        ("resource.k8s.io", "resourceslices") => asked.resource_slice(),
        ("storage.k8s.io", "volumeattachments") => asked.get(RelatedKind::VolumeAttachment),
        ("storage.k8s.io", "csinodes") => asked.csi_node(),
        ("coordination.k8s.io", "leases") => asked.lease(),
        _ => by_rules(),
    }
}

/// A request of a node for a resource.
struct Asked<'a, R> {
    node: &'a str,
    verb: &'a str,
    at: &'a ResourceTarget,
    is_related: R,
}

impl<R: Fn(&str, RelatedKind, &str, &str) -> bool> Asked<'_, R> {
    fn related(&self, kind: RelatedKind) -> NodeDecision {
        let (namespace, name) = (&self.at.namespace, &self.at.name);
        if name.is_empty() {
            return no("No Object name found");
        }
        if (self.is_related)(self.node, kind, namespace, name) {
            return NodeDecision::Allow;
        }
        NodeDecision::NoOpinion(format!("{UNRELATED} '{}' and this object", self.node))
    }

    fn get(&self, kind: RelatedKind) -> NodeDecision {
        if self.verb != "get" {
            return no("can only get individual resources of this type");
        }
        if !self.at.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(kind)
    }

    fn read(&self, kind: RelatedKind) -> NodeDecision {
        if !matches!(self.verb, "get" | "list" | "watch") {
            return no("can only read resources of this type");
        }
        if !self.at.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if self.at.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(kind)
    }

    fn claim_status(&self) -> NodeDecision {
        match self.verb {
            "update" | "patch" => self.related(RelatedKind::Claim),
            _ => no("can only get/update/patch this type"),
        }
    }

    fn service_account(&self) -> NodeDecision {
        let subresource = self.at.subresource.as_str();
        if self.verb == "get" && subresource.is_empty() {
            return self.read(RelatedKind::ServiceAccount);
        }
        if self.verb != "create" || self.at.name.is_empty() {
            return no("can only create tokens for individual service accounts");
        }
        if subresource != "token" {
            return no("can only create token subresource of serviceaccount");
        }
        self.related(RelatedKind::ServiceAccount)
    }

    /// Without the name of a new object, which admission checks.
    fn is_own(&self) -> bool {
        self.verb == "create" || self.at.name == self.node
    }

    fn lease(&self) -> NodeDecision {
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return no("can only get, create, update, patch, or delete a node lease");
        }
        if self.at.namespace != LEASES {
            return NodeDecision::NoOpinion(format!(
                "can only access leases in the {LEASES:?} system namespace"
            ));
        }
        match self.is_own() {
            true => NodeDecision::Allow,
            false => no("can only access node lease with the same name as the requesting node"),
        }
    }

    fn csi_node(&self) -> NodeDecision {
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return no("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.at.subresource.is_empty() {
            return no("cannot authorize CSINode subresources");
        }
        match self.is_own() {
            true => NodeDecision::Allow,
            false => no("can only access CSINode with the same name as the requesting node"),
        }
    }

    /// Whether the field selector of the request requires a field to be the name of the node.
    fn selects_own(&self, field: &str) -> bool {
        self.at.selection.requires_field(field, self.node)
    }

    fn resource_slice(&self) -> NodeDecision {
        if !self.at.subresource.is_empty() {
            return no("cannot authorize ResourceSlice subresources");
        }
        match self.verb {
            // Admission checks the node of a new slice.
            "create" => NodeDecision::Allow,
            "get" | "update" | "patch" | "delete" => self.related(RelatedKind::ResourceSlice),
            "watch" | "list" | "deletecollection" if self.selects_own("spec.nodeName") => NodeDecision::Allow,
            "watch" | "list" | "deletecollection" => {
                no("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }

    /// Admission restricts writes to the Node of the agent.
    fn node(&self) -> NodeDecision {
        let name = self.at.name.as_str();
        match (self.at.subresource.as_str(), self.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => NodeDecision::Allow,
            ("", "get" | "list" | "watch") if name == self.node => NodeDecision::Allow,
            ("", "get" | "list" | "watch") if name.is_empty() => NodeDecision::NoOpinion(format!(
                "node '{}' cannot read all nodes, only its own Node object",
                self.node
            )),
            ("", "get" | "list" | "watch") => NodeDecision::NoOpinion(format!(
                "node '{}' cannot read '{name}', only its own Node object",
                self.node
            )),
            _ => no(""),
        }
    }

    /// Admission restricts writes to the pods of the node.
    fn pod(&self) -> NodeDecision {
        match (self.at.subresource.as_str(), self.verb) {
            ("", "get") => self.related(RelatedKind::Pod),
            ("", "list" | "watch") if self.selects_own("spec.nodeName") => NodeDecision::Allow,
            ("", "list" | "watch") if !self.at.name.is_empty() => self.related(RelatedKind::Pod),
            ("", "list" | "watch") => no("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                NodeDecision::Allow
            }
            _ => no(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use orlop_api::query::Query;

    use super::*;

    const UNRELATED: &str = "no relationship found between node 'n1' and this object";
    const ALLOWED: &str = "allowed";

    fn user(name: &str) -> UserInfo {
        UserInfo::new(name, ["system:nodes".to_owned()])
    }

    /// `allowed`, or the reason. Objects are related to n1 if their name is `mine`.
    fn decided(name: &str, method: &str, uri: &str) -> String {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let request = RequestInfo::of(&method, path, &Query::parse(Some(query)));
        let is_related = |node: &str, _: RelatedKind, _: &str, name: &str| (node, name) == ("n1", "mine");
        match decide(&user(name), &request, is_related) {
            NodeDecision::Allow => ALLOWED.to_owned(),
            NodeDecision::NoOpinion(reason) => reason,
        }
    }

    #[test]
    fn nodes_read_what_their_pods_need() {
        for (method, uri, want) in [
            ("GET", "/api/v1/namespaces/a/secrets/mine", ALLOWED),
            ("GET", "/api/v1/namespaces/a/secrets/other", UNRELATED),
            ("GET", "/api/v1/namespaces/a/secrets", "No Object name found"),
            ("GET", "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Dmine", ALLOWED),
            ("GET", "/api/v1/namespaces/a/secrets?watch=1&fieldSelector=metadata.name%3Dmine", ALLOWED),
            ("GET", "/api/v1/secrets", "can only read namespaced object of this type"),
            (
                "GET",
                "/api/v1/secrets?fieldSelector=metadata.name%3Dmine",
                "can only read namespaced object of this type",
            ),
            ("POST", "/api/v1/namespaces/a/secrets", "can only read resources of this type"),
            ("DELETE", "/api/v1/namespaces/a/secrets/mine", "can only read resources of this type"),
            ("GET", "/api/v1/namespaces/a/secrets/mine/x", "cannot read subresource"),
            ("GET", "/api/v1/namespaces/a/configmaps/mine", ALLOWED),
            ("DELETE", "/api/v1/namespaces/a/configmaps", "can only read resources of this type"),
            ("GET", "/api/v1/namespaces/a/persistentvolumeclaims/mine", ALLOWED),
            (
                "GET",
                "/api/v1/namespaces/a/persistentvolumeclaims",
                "can only get individual resources of this type",
            ),
            ("GET", "/api/v1/namespaces/a/persistentvolumeclaims/mine/x", "cannot get subresource"),
            ("PATCH", "/api/v1/namespaces/a/persistentvolumeclaims/mine/status", ALLOWED),
            ("PUT", "/api/v1/namespaces/a/persistentvolumeclaims/other/status", UNRELATED),
            (
                "GET",
                "/api/v1/namespaces/a/persistentvolumeclaims/mine/status",
                "can only get/update/patch this type",
            ),
            ("GET", "/api/v1/persistentvolumes/mine", ALLOWED),
            ("GET", "/api/v1/persistentvolumes/other", UNRELATED),
            ("GET", "/apis/storage.k8s.io/v1/volumeattachments/mine", ALLOWED),
            (
                "DELETE",
                "/apis/storage.k8s.io/v1/volumeattachments/mine",
                "can only get individual resources of this type",
            ),
            ("GET", "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/mine", ALLOWED),
            ("GET", "/apis/other.io/v1/namespaces/a/secrets/mine", ""),
            ("GET", "/api/v1/services", ALLOWED),
            ("DELETE", "/api/v1/namespaces/a/services/mine", ""),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", ALLOWED),
            ("GET", "/apis/storage.k8s.io/v1/csidrivers?watch=1", ALLOWED),
            ("GET", "/metrics", ""),
        ] {
            assert_eq!(decided("system:node:n1", method, uri), want, "{method} {uri}");
        }
    }

    #[test]
    fn nodes_access_their_own_objects() {
        let tokens = "can only create tokens for individual service accounts";
        let selector = "can only list/watch pods with spec.nodeName field selector";
        let slices = "can only list/watch/deletecollection resourceslices with nodeName field selector";
        for (method, uri, want) in [
            ("POST", "/api/v1/nodes", ALLOWED),
            ("GET", "/api/v1/nodes/n1", ALLOWED),
            ("GET", "/api/v1/nodes/n2", "node 'n1' cannot read 'n2', only its own Node object"),
            ("GET", "/api/v1/nodes", "node 'n1' cannot read all nodes, only its own Node object"),
            ("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Dn1", ALLOWED),
            ("PATCH", "/api/v1/nodes/n2/status", ALLOWED),
            ("GET", "/api/v1/nodes/n1/proxy", ""),
            ("DELETE", "/api/v1/nodes/n1", ""),
            ("GET", "/api/v1/namespaces/a/pods/mine", ALLOWED),
            ("GET", "/api/v1/namespaces/a/pods/other", UNRELATED),
            ("GET", "/api/v1/pods", selector),
            ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", ALLOWED),
            ("GET", "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1", ALLOWED),
            ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2", selector),
            ("GET", "/api/v1/pods?fieldSelector=spec.nodeName!%3Dn1", selector),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name!%3Da\\,spec.nodeName%3Dn1", selector),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dmine", ALLOWED),
            ("DELETE", "/api/v1/namespaces/a/pods?fieldSelector=spec.nodeName%3Dn1", ""),
            ("POST", "/api/v1/namespaces/a/pods/other/eviction", ALLOWED),
            ("POST", "/api/v1/namespaces/a/pods/other/exec", ""),
            ("GET", "/api/v1/namespaces/a/serviceaccounts/mine", ALLOWED),
            ("GET", "/api/v1/namespaces/a/serviceaccounts", tokens),
            ("POST", "/api/v1/namespaces/a/serviceaccounts/mine/token", ALLOWED),
            ("POST", "/api/v1/namespaces/a/serviceaccounts/other/token", UNRELATED),
            (
                "POST",
                "/api/v1/namespaces/a/serviceaccounts/mine/x",
                "can only create token subresource of serviceaccount",
            ),
            ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", ALLOWED),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1", ALLOWED),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2",
                "can only access node lease with the same name as the requesting node",
            ),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/n1",
                "can only access leases in the \"kube-node-lease\" system namespace",
            ),
            (
                "GET",
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
                "can only get, create, update, patch, or delete a node lease",
            ),
            ("PATCH", "/apis/storage.k8s.io/v1/csinodes/n1", ALLOWED),
            (
                "GET",
                "/apis/storage.k8s.io/v1/csinodes/n2",
                "can only access CSINode with the same name as the requesting node",
            ),
            ("GET", "/apis/storage.k8s.io/v1/csinodes/n1/x", "cannot authorize CSINode subresources"),
            (
                "GET",
                "/apis/storage.k8s.io/v1/csinodes",
                "can only get, create, update, patch, or delete a CSINode",
            ),
            ("POST", "/apis/resource.k8s.io/v1/resourceslices", ALLOWED),
            ("GET", "/apis/resource.k8s.io/v1/resourceslices/mine", ALLOWED),
            ("GET", "/apis/resource.k8s.io/v1/resourceslices", slices),
            ("DELETE", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dn1", ALLOWED),
            ("DELETE", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dn2", slices),
        ] {
            assert_eq!(decided("system:node:n1", method, uri), want, "{method} {uri}");
        }
    }

    #[test]
    fn other_users_get_no_opinion() {
        assert_eq!(decided("ann", "GET", "/api/v1/services"), "");
        let unnamed = decided("system:node:", "GET", "/api/v1/services");
        assert_eq!(unnamed, "unknown node for user \"system:node:\"");
    }
}
