//! `resourceclaim-controller`: creates ResourceClaims from templates for pods, reserves allocated claims for pods that
//! already have a node, and releases claims whose pods have ended.
//!
//! [`pod`] is the decision about a pod, [`claim`] that about a claim, [`control`] performs them; [`created`] contains the
//! claims that the cache lacks. Upstream: pkg/controller/resourceclaim.

mod claim;
mod control;
mod created;
mod pod;
#[cfg(test)]
mod tests;

pub use control::run;
