//! The fields of claims, volumes and classes that become fields of a CSI call.

pub mod handle;
pub mod modes;
pub mod secrets;
