//! Runs StatefulSets: maintains pods with stable names and their own claims, in order. Upstream:
//! pkg/controller/statefulset.
//!
//! [`identity`] defines the n-th pod of a set, [`claims`] its claims and their owners, [`revisions`] the
//! history of the template. [`decide`] computes the next steps for the pods, and [`control`] performs them.

pub mod claims;
pub mod control;
pub mod decide;
pub mod identity;
pub mod revisions;
pub mod spec;

pub use control::run;

#[cfg(test)]
mod tests;
