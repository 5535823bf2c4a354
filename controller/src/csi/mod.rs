//! What upstream's sidecars do, for the drivers that can be reached from here (docs/csi.md). Who has no endpoint here is
//! served by sidecars elsewhere, and nothing in this folder touches its objects.
//!
//! * [`attacher`]: publishes and unpublishes.
//! * [`modes`]: capabilities of volumes. * [`secrets`]: what a class says about them.
//! * [`provisioner`]: volumes are made and deleted.
//! * [`handle`]: names. * [`driver_queue`]: one queue and its workers per driver. * [`retry_state`]: what is known of failures.
//! * [`live`]: a claim and its volume as the server has them.
//! * [`resizer`]: larger volumes. * [`modifier`]: volumes with other attributes. `requeue`: their handlers of claims and volumes.
//! * [`snapshotter`] takes snapshots.

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
