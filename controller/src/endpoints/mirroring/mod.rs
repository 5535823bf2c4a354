//! Mirrors Endpoints that users write for Services without a selector to EndpointSlices. Upstream:
//! pkg/controller/endpointslicemirroring.
//!
//! [`decide`] computes the slices, [`control`] writes them.

pub mod control;
pub mod decide;

pub use control::run;

#[cfg(test)]
mod tests;
