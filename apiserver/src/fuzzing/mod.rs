//! Fuzz targets: one function per kind of input, each from bytes to nothing.
//!
//! Both the fuzzers in `fuzz/` and the bounded runs in the tests of this module call these functions. A function
//! panics when the server does something that no client input may cause: panic, return 500 where upstream does
//! not, produce a large output from a small input, or decode something other than it encoded. The caller limits
//! time and memory. The module is not part of the server: it exists only for tests and with the feature
//! `fuzzing`.
//!
//! Reading order: `seeds` are real objects to start from, `bodies`, `patches` and `texts` test pure functions,
//! `requests` sends whole requests through the router, `allowed` lists the errors 500 that upstream returns too.

mod allowed;
mod bodies;
#[cfg(test)]
mod mutate;
mod patches;
pub mod requests;
mod seeds;
#[cfg(test)]
mod tests;
mod texts;

use serde_json::Value;

use crate::registry::{KINDS, Kind};

pub use bodies::{json_body, protobuf_body, yaml_body};
pub use patches::{apply, json_patch, merge_patch, strategic_patch};
pub use seeds::inputs;
pub use texts::{accept, continue_token, query, selectors};

/// The maximum output per byte of input, beyond [`FREE`], in bytes.
const GROWTH: usize = 64;
/// The size that any output may have, in bytes.
const FREE: usize = 256 * 1024;

/// The stored kinds, in a fixed order.
fn kinds() -> impl Iterator<Item = &'static dyn Kind> {
    KINDS.iter().copied().filter(|kind| kind.verbs().contains(&"get"))
}

/// The kind that the first byte selects, and the rest of the input.
fn choose(data: &[u8]) -> Option<(&'static dyn Kind, &[u8])> {
    let (first, rest) = data.split_first()?;
    let at = usize::from(*first) % kinds().count();
    kinds().nth(at).map(|kind| (kind, rest))
}

/// The byte that selects a kind.
fn choice(group: &str, plural: &str) -> u8 {
    let found = kinds().position(|kind| (kind.names().group, kind.names().plural) == (group, plural));
    found.and_then(|at| u8::try_from(at).ok()).unwrap_or_default()
}

/// An object as clients send it, with its kind and apiVersion.
fn whole(kind: &dyn Kind, object: &orlop_api::object::Object) -> Value {
    crate::encode::shape::with_kind(kind, object.clone())
}

/// Panics if the output is too large for its input.
fn in_bounds(input: usize, output: usize, what: &str) {
    assert!(output <= FREE + GROWTH * input, "{input} bytes became {output} bytes: {what}");
}
