//! How a command ended.

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// As asked.
    Well,
    /// Something needs attention.
    NeedsAttention,
    /// The user declined.
    Declined,
}
