//! Writes the Endpoints of Services with a selector, for clients of the legacy API. Upstream: pkg/controller/endpoint.
//!
//! [`decide`] computes the Endpoints, [`control`] writes them.

pub mod control;
pub mod decide;

pub use control::run;

#[cfg(test)]
mod tests;
