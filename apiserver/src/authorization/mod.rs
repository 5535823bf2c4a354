//! Decides whether users may perform requests (`--authorization-mode`).
//!
//! Upstream: apiserver `pkg/endpoints/filters/authorization.go`, `pkg/authorization`.

pub(crate) mod bootstrap;
pub(crate) mod escalation;
mod layer;
mod stored_graph;
mod stored_rbac;

use std::sync::Arc;

use orlop_auth::UserInfo;
use orlop_auth::node::{self, NodeDecision};
use orlop_auth::rbac::PermittedBy;
use orlop_auth::request_info::RequestInfo;
use orlop_store::Kv;

pub(crate) use layer::{authorize, forbidden, may, may_create};
use stored_graph::StoredGraph;
use stored_rbac::StoredRbac;

use crate::projection::Projection;

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// A mode of `--authorization-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Permits every request of an authenticated user.
    AlwaysAllow,
    /// Permits nothing.
    AlwaysDeny,
    /// Permits what node agents need for the pods on their nodes.
    Node,
    /// Permits what roles grant.
    Rbac,
}

/// Whether a request is permitted, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthorizationDecision {
    pub(crate) allowed: bool,
    /// Upstream's reason; may be empty.
    pub(crate) reason: String,
}

/// Asks the modes in order; the first that permits a request decides.
pub(crate) struct Authorizer {
    modes: Vec<AuthorizationMode>,
    pub(crate) rbac: StoredRbac,
    graph: Arc<StoredGraph>,
}

impl Authorizer {
    pub(crate) fn new(modes: Vec<AuthorizationMode>, store: Arc<dyn Kv<Projection>>) -> Self {
        Authorizer { modes, rbac: StoredRbac::new(store.clone()), graph: Arc::new(StoredGraph::new(store)) }
    }

    /// Whether roles restrict users.
    pub(crate) fn uses_roles(&self) -> bool {
        self.modes.contains(&AuthorizationMode::Rbac)
    }

    /// Whether some mode decides by rules, such as roles.
    pub(crate) fn uses_rules(&self) -> bool {
        self.modes.iter().any(|mode| *mode != AuthorizationMode::AlwaysAllow)
    }

    /// Whether rules alone decide: then requests without credentials run as `system:anonymous`.
    pub(crate) fn permits_anonymous(&self) -> bool {
        self.uses_rules() && !self.modes.contains(&AuthorizationMode::AlwaysAllow)
    }

    /// Whether the rights of a user depend on the pods of a node, so that they cannot be listed.
    pub(crate) fn is_restricted_node(&self, user: &UserInfo) -> bool {
        self.modes.contains(&AuthorizationMode::Node) && node::node_name(user).is_some()
    }

    /// Reads the relations of nodes, if a mode uses them.
    pub(crate) async fn read_relations(&self) {
        if self.modes.contains(&AuthorizationMode::Node) {
            self.graph.clone().catch_up().await;
        }
    }

    /// Keeps the relations of nodes up to date, if a mode uses them.
    pub(crate) async fn keep_current(&self) {
        if self.modes.contains(&AuthorizationMode::Node) {
            self.graph.clone().keep_current().await;
        }
    }

    /// Whether some request of this user may be rejected.
    pub(crate) fn restricts(&self, user: &UserInfo) -> bool {
        !user.groups.iter().any(|group| group == MASTERS)
            && !self.modes.contains(&AuthorizationMode::AlwaysAllow)
    }

    /// Decides about a request.
    pub(crate) fn decide(&self, user: &UserInfo, request: &RequestInfo) -> AuthorizationDecision {
        let allow = |reason| AuthorizationDecision { allowed: true, reason };
        if !self.restricts(user) {
            return allow(String::new());
        }
        let mut reasons = Vec::new();
        for mode in &self.modes {
            match mode {
                AuthorizationMode::AlwaysAllow => return allow(String::new()),
                AuthorizationMode::AlwaysDeny => reasons.push("Everything is forbidden.".to_owned()),
                AuthorizationMode::Node => {
                    let is_related = |node: &str, kind, namespace: &str, name: &str| {
                        self.graph.is_related(node, kind, namespace, name)
                    };
                    match node::decide(user, request, is_related) {
                        NodeDecision::Allow => return allow(String::new()),
                        NodeDecision::NoOpinion(reason) => reasons.push(reason),
                    }
                }
                AuthorizationMode::Rbac => match self.rbac.now().permits(user, request) {
                    PermittedBy::Binding(reason) => return allow(reason),
                    PermittedBy::None(reason) => reasons.push(reason),
                },
            }
        }
        reasons.retain(|reason| !reason.is_empty());
        AuthorizationDecision { allowed: false, reason: reasons.join("\n") }
    }
}
