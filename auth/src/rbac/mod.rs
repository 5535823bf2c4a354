//! Role-based access control: an index of roles and bindings that answers whether they permit a request.
//!
//! Upstream: plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation `rule.go`.

pub mod bootstrap;
mod escalation;
mod index;
mod recent;
mod rule;
mod subject;

pub use escalation::escalation;
pub use index::{GrantedRules, PermittedBy, RbacIndex, RbacKind};
pub use rule::Rule;
