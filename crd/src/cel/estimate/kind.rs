//! The kinds of values that differ in their cost.

/// The kind of a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Any value: the type is known only when the expression runs.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List,
    Map,
    Object,
    Optional,
    Quantity,
    /// An IP address.
    Ip,
    Cidr,
    Url,
    Semver,
    /// A format of strings.
    Format,
    /// A type.
    Opaque,
}
