//! The outcome of a command.

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The command succeeded.
    Well,
    /// The object needs attention.
    NeedsAttention,
    /// The user declined.
    Declined,
}
