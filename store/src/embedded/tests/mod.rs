//! The embedded store against the contract, against the oracle, and against what disks do.

#![allow(clippy::unwrap_used)]

mod conformance;
