//! Every control loop of orlop. They speak REST through a [`kube::Client`] and nothing else: in one process the client
//! is the API server's router, apart it is HTTP.
//!
//! [`manager::run`] starts the controllers that `--controllers` names. Each controller is a folder or file of its own:
//! informers feed keys into a queue, workers sync one key at a time, pure functions decide, and the effects are thin.

pub mod attach;
pub mod claim_reference;
pub mod client;
pub mod clock;
pub mod context;
pub mod csi;
pub mod drivers;
pub mod ephemeral;
pub mod expand;
pub mod few;
pub mod gc;
pub mod informer;
pub mod informers;
pub mod kept;
pub mod lean;
pub mod manager;
pub mod meta;
pub mod names;
pub mod namespace_defaults;
pub mod node_lifecycle;
pub mod operations;
pub mod options;
pub mod pods;
pub mod protection;
pub mod pv;
pub mod queue;
pub mod quota;
pub mod recorder;
pub mod scheduler;
pub mod snapshot;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod translate;
pub mod uid;
pub mod worker;
pub mod workload;
