//! Names that are part of the protocol: annotation keys, finalizers, event reasons, conditions, components. They
//! are identical to those of Kubernetes 1.36, because users, other controllers and sidecars match on them. The
//! module contains only such names.

mod annotation;
mod component;
pub mod condition;
pub mod controller;
mod finalizer;
mod label;
mod plugin;
pub mod reason;
pub mod taint;

pub use annotation::*;
pub use component::*;
pub use finalizer::*;
pub use label::*;
pub use plugin::*;

/// Node taint: the node is out of service, and its terminating pods may be deleted by force.
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Namespace of the Leases that nodes renew.
pub const NAMESPACE_NODE_LEASE: &str = "kube-node-lease";
