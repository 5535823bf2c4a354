//! What pods and pod templates have in common: the pod spec's defaults and its rules.
//!
//! Everything here works on a spec at a path, so that kinds with templates can use it as it is.
//! [`Owner`] tells the few places where a bare pod differs from a template.

pub(super) mod defaults;
pub(super) mod qos;

/// Whose spec it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A pod's own.
    Pod,
    /// A template's of another kind.
    #[allow(dead_code, reason = "the workload kinds are the users")]
    Template,
}
