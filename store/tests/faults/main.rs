//! The embedded store under faults that tests inside the crate cannot make: processes that are killed, power that goes.
//!
//! | file | idea |
//! |---|---|
//! | `fuse` | a mounted file system that records every change in order; it is used by the end-to-end tests too |
//! | `medium` | what a disk may hold after a power cut, computed from such a record |
//! | `load`, `child` | the process that is killed: it writes, and tells all that it knows |
//! | `ledger` | what was told; pure bookkeeping |
//! | `verify` | a store that is found, against the ledger |
//! | `record` | several processes on the mounted file system, and the file that keeps their record |
//! | `power`, `kill`, `clock` | the tests |
//!
//! docs/reliability.md says what is promised and how long forms are run.

#![allow(clippy::unwrap_used)]

mod child;
mod clock;
mod fuse;
mod kill;
mod ledger;
mod load;
mod medium;
mod power;
mod record;
mod verify;

use std::path::Path;

/// A number from the environment.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

/// A directory in memory where there is one: a sync costs nothing there.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.unwrap()
}
