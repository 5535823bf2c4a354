//! The reason for which a finalizer of a terminating object is not removed yet.

use super::model::{Fix, Reference, Severity};

/// The reason for which a finalizer is not removed yet.
pub(super) struct FinalizerBlock {
    /// The component that removes the finalizer.
    pub(super) owner: String,
    /// The condition that this component waits for.
    pub(super) message: String,
    /// The objects that it waits for.
    pub(super) objects: Vec<Reference>,
    /// How urgent it is.
    pub(super) severity: Severity,
    /// The fix.
    pub(super) fix: Option<Fix>,
}

impl FinalizerBlock {
    /// The component continues by itself.
    pub(super) fn waiting(owner: &str, message: impl Into<String>, objects: Vec<Reference>) -> Self {
        Self {
            owner: owner.to_owned(),
            message: message.into(),
            objects,
            severity: Severity::Waiting,
            fix: None,
        }
    }

    /// The component does not continue by itself.
    pub(super) fn attention(owner: &str, message: impl Into<String>, objects: Vec<Reference>) -> Self {
        Self { severity: Severity::Attention, ..Self::waiting(owner, message, objects) }
    }

    /// Adds the fix, if there is one.
    pub(super) fn fixed_by(self, fix: Option<Fix>) -> Self {
        Self { fix, ..self }
    }
}
