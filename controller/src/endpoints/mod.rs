//! The controllers of the endpoints of Services.
//!
//! [`slices`] writes the EndpointSlices of each Service with a selector, [`legacy`] its Endpoints, and [`mirroring`]
//! copies Endpoints that users write for Services without a selector to EndpointSlices. Each consists of a pure decision
//! over cached objects and a thin layer that performs it; the other modules are shared. Upstream:
//! pkg/controller/{endpoint,endpointslice,endpointslicemirroring} and k8s.io/endpointslice.

pub mod error;
pub mod ip;
pub mod legacy;
pub mod mirroring;
pub mod pods;
pub mod selected;
pub mod slice;
pub mod slice_tracker;
pub mod slices;
pub mod subsets;
pub mod target_ports;
#[cfg(test)]
pub(crate) mod testing;
pub mod trigger_time;
pub mod write;
