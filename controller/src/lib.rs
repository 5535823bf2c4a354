//! The controllers of orlop. They use only REST, through a [`kube::Client`]: in a single process the client calls
//! the API server's router, in separate processes it uses HTTP.
//!
//! [`manager::run`] starts the controllers that `--controllers` selects. Each controller is a separate folder or
//! file: informers add keys to a queue, workers sync one key at a time, pure functions decide, and thin functions
//! apply the effects.

pub mod account_tokens;
pub mod attach;
pub mod bootstrap;
pub mod certificates;
pub mod claim_reference;
pub mod context;
pub mod csi;
pub mod disruption;
pub mod endpoints;
pub mod ephemeral;
pub mod expand;
pub mod gc;
pub mod manager;
pub mod namespace_defaults;
pub mod node_lifecycle;
pub mod options;
pub mod policy_status;
pub mod protection;
pub mod pv;
pub mod quota;
pub mod resource_claim;
pub mod role_aggregation;
pub mod scheduler;
pub mod service_cidr;
pub mod snapshot;
#[cfg(test)]
mod testing;
pub mod ttl;
pub mod workload;
