//! The volume manager against a server in memory and a plugin that does as it is told.
#![allow(clippy::unwrap_used)]

mod disk;
mod doubts;
mod faults;
mod growth;
mod mounting;
mod random;
mod rig;
mod table;
mod words;
