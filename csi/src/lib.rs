//! The Container Storage Interface: messages, sockets, and calls to a driver. Independent of Kubernetes objects.
//!
//! * [`v1`] and [`registration`] are generated from `proto/` when this crate is built.
//! * [`socket`] connects to a driver and listens as one.
//! * [`driver`] is the client of one driver, [`capabilities`] its reported capabilities, and [`error`] the
//!   classification of failed calls.

pub mod capabilities;
pub mod driver;
mod driver_name;
pub mod drivers;
pub mod error;
mod lists;
pub mod socket;

/// Messages and services of the Container Storage Interface (specification: csi.proto, `csi.v1`).
#[allow(missing_docs, clippy::all, clippy::unwrap_used, unreachable_pub)]
pub mod v1 {
    tonic::include_proto!("csi.v1");
}

/// How a driver registers with a node (upstream: kubelet's plugin registration, v1).
#[allow(missing_docs, clippy::all, clippy::unwrap_used, unreachable_pub)]
pub mod registration {
    tonic::include_proto!("pluginregistration");
}
