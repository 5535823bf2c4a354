//! The Container Storage Interface: messages, sockets, and calls to a driver. Knows nothing of Kubernetes objects.
//!
//! * [`v1`] and [`registration`] are made from `proto/` when this crate is built.
//! * [`socket`] connects to a driver and listens for one.
//! * [`driver`] is one that is called, [`capabilities`] what it says that it can do, [`error`] what a failed call means.

pub mod capabilities;
pub mod driver;
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
