//! Decides whether users may perform requests (`--authorization-mode`).
//!
//! Upstream: apiserver `pkg/endpoints/filters/authorization.go`, `pkg/authorization`.

pub(crate) mod bootstrap;
pub(crate) mod escalation;
mod layer;
mod stored_rbac;

use std::sync::Arc;

use orlop_auth::UserInfo;
use orlop_auth::rbac::PermittedBy;
use orlop_auth::request_info::RequestInfo;
use orlop_store::Kv;

pub(crate) use layer::{authorize, may, may_create};
use stored_rbac::StoredRbac;

use crate::projection::Projection;

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// A mode of `--authorization-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Permits every request of an authenticated user.
    AlwaysAllow,
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
}

impl Authorizer {
    pub(crate) fn new(modes: Vec<AuthorizationMode>, store: Arc<dyn Kv<Projection>>) -> Self {
        Authorizer { modes, rbac: StoredRbac::new(store) }
    }

    /// Whether roles restrict users.
    pub(crate) fn uses_roles(&self) -> bool {
        self.modes.contains(&AuthorizationMode::Rbac)
    }

    /// Whether roles alone decide: then requests without credentials run as `system:anonymous`.
    pub(crate) fn permits_anonymous(&self) -> bool {
        self.uses_roles() && !self.modes.contains(&AuthorizationMode::AlwaysAllow)
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
