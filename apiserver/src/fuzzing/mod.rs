//! Fuzz targets: one function per kind of input, each from bytes to nothing.
//!
//! Both the fuzzers in `fuzz/` and the bounded runs in the tests of this module call [`check`]. It panics when the server
//! does something that no client input may cause: panic, return 500 where upstream does not, serve an object to a user
//! without the right to read it, produce a large output from a small input, decode something other than it encoded, or
//! use more processor time or memory than a linear bound of the input's length. The module is not part of the server: it
//! exists only for tests and with the feature `fuzzing`.
//!
//! Reading order: `targets` lists the targets with their bounds, which `cost` checks; `seeds` are real objects to start
//! from and `worst` are long inputs; `bodies`, `patches`, `texts`, `credentials` and `definitions` test pure functions, `requests` sends
//! whole requests of several `identities` through the router, `allowed` lists the errors 500 that upstream returns too.

mod allowed;
mod bodies;
mod cost;
mod credentials;
mod definitions;
mod fixture;
mod identities;
#[cfg(test)]
mod mutate;
mod patches;
mod requests;
mod seeds;
mod targets;
#[cfg(test)]
mod tests;
mod texts;
mod worst;

use serde_json::Value;

use crate::registry::{KINDS, Kind};

pub use targets::{check, names};

/// The seed corpus of a fuzz target, by its name.
pub fn inputs(target: &str) -> Vec<Vec<u8>> {
    [seeds::inputs(target), worst::inputs(target, worst::LENGTH)].concat()
}

/// The maximum output per byte of input, beyond [`FREE`], in bytes.
const GROWTH: usize = 64;
/// The size that any output may have, in bytes.
const FREE: usize = 256 * 1024;

/// The stored kinds, in a fixed order.
fn kinds() -> impl Iterator<Item = &'static dyn Kind> {
    KINDS.iter().copied().filter(|kind| kind.is_stored())
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
