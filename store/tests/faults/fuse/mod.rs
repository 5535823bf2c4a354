//! A file system of our own below the store: it is mounted, records every change in order, and does at a chosen one
//! what disks and machines do.
//!
//! `tree` is what it holds, `layer` is how it is mounted.

// The store's tests and the end-to-end tests use different parts of it.
#![allow(dead_code)]

pub(crate) mod layer;
pub(crate) mod tree;
