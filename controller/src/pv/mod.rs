//! The PersistentVolume controller ("persistentvolume-binder-controller"): binds claims to volumes, releases and
//! reclaims volumes whose claim was deleted, and requests provisioning for claims without a volume.
//! docs/binding.md describes its behaviour and the state that each crash leaves.
//!
//! Reading order. Object accessors: [`object`], [`class`], [`modes`]. Matching: [`fit`], [`affinity`], [`index`].
//! Classification: [`claim_situation`], [`volume_situation`]. Actions: `claim_sync`, `volume_sync`, [`bind`],
//! [`status`], [`migration`], [`reclaim`], [`delete`], [`recycle`], [`provision`] with the plugins [`host_path`]
//! and [`nfs`]. Infrastructure: [`cache`], [`waiting`], [`requeue`], [`resync_skip`], [`binder`],
//! [`binder_cache`], `stores`, `volume_handoff`, `reserve`, `resync`, [`controller`].
//!
//! Upstream: pkg/controller/volume/persistentvolume.

pub mod bind;
pub mod binder;
pub mod binder_cache;
pub mod cache;
pub mod claim_situation;
mod claim_sync;
pub mod controller;
pub mod delete;
pub mod error;
pub mod host_path;
pub mod index;
pub mod migration;
pub mod nfs;
pub mod plugin;
pub mod pods;
pub mod provision;
pub mod reclaim;
pub mod reclaim_policy;
pub mod recycle;
pub mod requeue;
mod reservation;
mod resync;
pub mod resync_skip;
mod shared_storage;
pub mod status;
mod storage_users;
pub mod stores;
mod volume_handoff;
pub mod volume_situation;
mod volume_sync;
pub mod waiting;
mod writes;

#[cfg(test)]
mod tests;

pub use controller::run;
