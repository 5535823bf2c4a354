//! The volume manager against a server in memory and a plugin that does as it is told.
#![allow(clippy::unwrap_used)]

mod decisions;
mod disk;
mod faults;
mod fixture;
mod growth;
mod mounting;
mod random;
mod uncertain;
mod waiting;
