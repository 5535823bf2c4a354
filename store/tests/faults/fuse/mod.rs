//! A recording file system below the store: it is mounted, records every change in order, and injects disk and
//! machine failures at a chosen change.
//!
//! `tree` is its contents, `layer` is the mount.

// The store's tests and the end-to-end tests use different parts of it.
#![allow(dead_code)]

pub(crate) mod layer;
pub(crate) mod tree;
