//! The node agent. It watches the pods that are bound to its node, mounts their volumes, runs their containers
//! when a runtime is configured, and tears everything down in order. It speaks REST through [`kube`], CSI through
//! sockets, and mounts through a [`mount::Mounter`]. docs/node.md describes the modules and the files on disk.
//!
//! Reading order: [`volume`] and [`paths`] define the names, [`plugin`] and [`mount`] the contracts.

pub mod agent;
mod agent_dir;
pub mod config;
pub mod csi_drivers;
pub mod eviction;
pub mod field_path;
pub mod fs_group;
pub mod gc;
pub mod host;
pub mod join;
mod lock;
pub mod mount;
pub mod node_status;
pub mod objects;
pub mod paths;
pub mod plugin;
pub mod pods;
pub mod resource_field;
pub mod runtime;
pub mod scrub;
pub mod volume;
pub mod volumes;
