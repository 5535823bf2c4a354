//! The volume manager against an API server in memory and a fake plugin.
#![allow(clippy::unwrap_used)]

mod decisions;
mod desired;
mod disk;
mod faults;
mod fixture;
mod growth;
mod mounting;
mod random;
mod uncertain;
mod waiting;
