//! Writes the EndpointSlices of Services with a selector. Upstream: pkg/controller/endpointslice and k8s.io/endpointslice.
//!
//! [`decide`] compares the endpoints of the pods with the existing slices; [`pack`] distributes endpoints to slices;
//! [`traffic`] and [`topology`] set hints; [`control`] performs the changes.

pub mod allocation;
pub mod control;
pub mod decide;
pub mod endpoint;
pub mod hints;
pub mod pack;
pub mod topology;
pub mod traffic;

pub use control::run;

#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod tests;
