//! Every control loop of orlop. They speak REST through a [`kube::Client`] and nothing else: in one process the client
//! is the API server's router, apart it is HTTP.
//!
//! [`manager::run`] starts the controllers that `--controllers` names. Each controller is a folder or file of its own:
//! informers feed keys into a queue, workers sync one key at a time, pure functions decide, and the effects are thin.

pub mod attach;
pub mod claim_reference;
pub mod context;
pub mod csi;
pub mod ephemeral;
pub mod expand;
pub mod gc;
pub mod manager;
pub mod namespace_defaults;
pub mod node_lifecycle;
pub mod options;
pub mod protection;
pub mod pv;
pub mod quota;
pub mod scheduler;
pub mod snapshot;
#[cfg(test)]
mod testing;
pub mod workload;
