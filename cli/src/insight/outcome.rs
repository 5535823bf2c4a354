//! The outcome of a command.

/// The outcome of a command, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ended {
    /// The command succeeded.
    Well,
    /// The object needs attention.
    NeedsAttention,
    /// The user declined.
    Declined,
    /// There is no answer about an object; the error is printed already.
    Failed,
}
