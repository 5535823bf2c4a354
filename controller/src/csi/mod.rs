//! The controllers of upstream's sidecars, for the drivers that are reachable from this process (docs/csi.md). Drivers without an
//! endpoint here are served by their own sidecars, and nothing in this folder changes their objects.
//!
//! * [`attacher`]: publishes and unpublishes volumes.
//! * [`modes`]: the capabilities of volumes. * [`secrets`]: the secrets of a class.
//! * [`provisioner`]: creates and deletes volumes.
//! * [`handle`]: names. * [`driver_queue`]: one queue with its workers per driver. * [`retry_state`]: the state of failures.
//! * [`live`]: a claim and its volume as stored by the server.
//! * [`resizer`]: expands volumes. * [`modifier`]: changes the attributes of volumes. `requeue`: their handlers for claims and volumes.
//! * [`snapshotter`]: takes snapshots.

pub mod attacher;
pub mod driver_queue;
pub mod live;
pub mod modifier;
pub mod provisioner;
mod requeue;
pub mod resizer;
pub mod retry_state;
#[cfg(test)]
pub(crate) mod rig;
pub mod snapshotter;
