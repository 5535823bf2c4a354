//! Every control loop of orlop. They speak REST through a [`kube::Client`] and nothing else: in one process the client
//! is the API server's router, apart it is HTTP.
//!
//! [`manager::run`] starts the controllers that `--controllers` names. Each controller is a folder or file of its own:
//! informers feed keys into a queue, workers sync one key at a time, pure functions decide, and the effects are thin.

pub mod attach;
pub mod csi;
pub mod ephemeral;
pub mod expand;
pub mod gc;
pub mod given;
pub mod manager;
pub mod node_lifecycle;
pub mod options;
pub mod protection;
pub mod pv;
pub mod quota;
pub mod schedule;
pub mod snapshots;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod translate;
pub mod why;
pub mod workload;

pub use orlop_apimachinery::clock;
pub use orlop_client::{
    client, informer, informers, meta, names, operations, packed_object as kept, pods, queue, recorder,
    small_set as few, strip_managed_fields as lean, uid, worker,
};
