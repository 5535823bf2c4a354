//! Where bad input is thrown: one function per kind of input, each from bytes to nothing.
//!
//! Both the fuzz targets (`fuzz/`) and the bounded runs of the tests beside this file call them. A
//! function panics when the server does what it must never do for what a client sends: panic, answer
//! 500 where upstream does not, make much out of little, or read back something else than it wrote.
//! Time and memory are watched by whoever calls. Nothing here is part of the server: the module
//! exists for tests and with the feature `fuzzing`.
//!
//! Reading order: `seeds` are real objects to begin with, `bodies`, `patches` and `texts` are the pure
//! functions, `requests` sends whole requests through the router, `allowed` lists the errors 500 that
//! are upstream's own.

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

/// More bytes than this for each byte of input, above [`FREE`], is a fault: little must not become much.
const GROWTH: usize = 64;
/// Bytes that any result may have.
const FREE: usize = 256 * 1024;

/// The kinds that are stored, in a fixed order.
fn kinds() -> impl Iterator<Item = &'static dyn Kind> {
    KINDS.iter().copied().filter(|kind| kind.verbs().contains(&"get"))
}

/// The kind that a byte chooses, and the rest of the input.
fn choose(data: &[u8]) -> Option<(&'static dyn Kind, &[u8])> {
    let (first, rest) = data.split_first()?;
    let at = usize::from(*first) % kinds().count();
    kinds().nth(at).map(|kind| (kind, rest))
}

/// The byte that chooses a kind.
fn choice(group: &str, plural: &str) -> u8 {
    let found = kinds().position(|kind| (kind.names().group, kind.names().plural) == (group, plural));
    found.and_then(|at| u8::try_from(at).ok()).unwrap_or_default()
}

/// An object as it is sent, with its kind.
fn whole(kind: &dyn Kind, object: &orlop_api::object::Object) -> Value {
    crate::encode::shape::with_kind(kind, object.clone())
}

/// Fails when much was made out of little.
fn in_bounds(input: usize, output: usize, what: &str) {
    assert!(output <= FREE + GROWTH * input, "{input} bytes became {output} bytes: {what}");
}
