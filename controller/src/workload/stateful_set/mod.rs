//! StatefulSets: pods with names and claims of their own, in order. Upstream: pkg/controller/statefulset.
//!
//! [`identity`] is what makes a pod the n-th of its set, [`claims`] its claims and who owns them, [`revisions`] the history of the
//! template. [`decide`] says what to do next about the pods, and [`control`] does it.

pub mod claims;
pub mod control;
pub mod decide;
pub mod identity;
pub mod revisions;
pub mod spec;

pub use control::run;

#[cfg(test)]
mod tests;
