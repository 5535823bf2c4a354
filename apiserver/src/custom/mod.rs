//! The live set of custom kinds.
//!
//! `kinds` is the set that is served now: an immutable snapshot that the write of a definition replaces, with the
//! `documents` about it. `crd_controller` follows the definitions in the store (`listed`), writes their conditions, and
//! deletes the objects of deleted definitions. The pure rules are in `orlop-crd`.

pub(crate) mod crd_controller;
pub(crate) mod documents;
mod kinds;
mod listed;

pub use kinds::Kinds;
pub(crate) use kinds::Served;
