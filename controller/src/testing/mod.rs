//! An API server in memory for tests: a tower service behind a real [`kube::Client`], with versions, finalizers, status
//! subresources, watches and faults on demand. With tokio's paused time a scenario is deterministic, and
//! [`FakeApi::settle`] ends when nothing is left to do. Beside it a CSI driver in memory ([`TestDriver`]).

// Each test uses its part of the fakes.
#[allow(dead_code)]
mod driver;
mod driver_node;
#[allow(dead_code)]
mod fake_api;
mod faults;
mod http_side;
mod store;

#[allow(unused_imports)]
pub use driver::{DriverVolume, Failing, TestDriver};
#[allow(unused_imports)]
pub use fake_api::{FakeApi, Fault, FaultKind, Write};
pub use faults::survives_faults;
pub use store::merge_into;
