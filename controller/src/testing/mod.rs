//! The fakes of [`orlop_test_support`], extended with the requirements of controllers.

mod fake_api;
mod faults;
pub(crate) mod notation;

pub(crate) use fake_api::FakeApi;
pub(crate) use faults::survives_faults;
pub(crate) use orlop_test_support::{DriverVolume, Failing, Fault, FaultKind, TestDriver, merge_into};
