//! Controllers that clean up: finished and orphaned pods, the content of terminating namespaces, and objects
//! whose owners no longer exist.

pub mod discovery;
pub mod namespace;

pub mod owners;
pub mod pods;
