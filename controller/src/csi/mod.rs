//! What upstream's sidecars do, for the drivers that can be reached from here (docs/csi.md). Who has no endpoint here is
//! served by sidecars elsewhere, and nothing in this folder touches its objects.
//!
//! * [`attacher`]: attachments.
//! * [`drivers`]: which there are. * [`modes`]: capabilities of volumes. * [`secrets`]: what a class says about them.
//! * [`handle`]: names. * [`provisioner`]: volumes are made and deleted.

pub mod attacher;
pub mod drivers;
pub mod handle;
pub mod modes;
pub mod provisioner;
pub mod secrets;
