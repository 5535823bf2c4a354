//! Builds the arena of types, once, from the JSON schemas of `k8s-openapi`.

use std::sync::LazyLock;

use crate::shape::Types;

/// The arena of every type the server knows. Built on first use.
pub fn types() -> &'static Types {
    static TYPES: LazyLock<Types> = LazyLock::new(Types::default);
    &TYPES
}
