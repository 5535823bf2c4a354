//! Fakes for the tests of other crates.
//!
//! [`FakeApi`] is an API server in memory: a tower service behind a real [`kube::Client`], with versions,
//! finalizers, status subresources, watches and faults on demand. With tokio's paused time a scenario is
//! deterministic, and [`FakeApi::settle`] returns when every task waits. [`TestDriver`] is a CSI driver in
//! memory. [`privileges`] skips tests that the machine does not allow. [`bind_mount`] mounts directories.
//!
//! A dev-dependency only.

#![allow(clippy::unwrap_used)]

pub mod bind_mount;
mod driver;
mod driver_node;
mod fake_api;
mod http_side;
pub mod privileges;
mod store;

pub use driver::{DriverVolume, Failing, TestDriver};
pub use fake_api::{FakeApi, Fault, FaultKind, Write};
pub use store::merge_into;
