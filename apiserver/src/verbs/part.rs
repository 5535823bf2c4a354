//! The part of an object that a request writes.

/// Which part of an object an update is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The main resource.
    Main,
    /// The `/status` subresource.
    Status,
    /// Another subresource that changes a part of the spec, by name.
    Named(&'static str),
}
