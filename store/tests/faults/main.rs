//! The embedded store under faults that tests inside the crate cannot inject: killed processes and power
//! failures.
//!
//! | file | contents |
//! |---|---|
//! | `fuse` | a mounted file system that records every change in order; the end-to-end tests use it too |
//! | `medium` | what a disk may contain after a power failure, computed from such a record |
//! | `load`, `child` | the process that is killed: it writes, and reports everything that it knows |
//! | `ledger` | the reports; pure bookkeeping |
//! | `verify` | a store compared with the ledger |
//! | `record` | several processes on the mounted file system, and the file format of their record |
//! | `power`, `kill`, `clock` | the tests |
//!
//! docs/reliability.md describes the guarantees and the duration of long runs.

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

/// A directory in memory where available: syncs are free there.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.unwrap()
}
