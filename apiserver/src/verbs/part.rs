//! The part of an object that a request writes.

/// The part of an object that an update may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The main resource.
    Main,
    /// The `/status` subresource.
    Status,
    /// Another subresource by name, which changes a part of the spec.
    Named(&'static str),
}
