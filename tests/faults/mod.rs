//! A disk below the server that fails or fills up, and the errors that clients receive.
//!
//! `server` is a server on a given directory, with clients that keep a ledger; `full` is a full disk (a small
//! ext4 on a loop device); `failing` is a disk that returns EIO (the FUSE layer of the store's tests). Both need
//! root. Tests that a machine cannot run are skipped with a message; `ORLOP_REQUIRE_FUSE=1` and
//! `ORLOP_REQUIRE_LOOP=1` turn that into a failure.

mod failing;
mod full;
mod server;

#[path = "../../store/tests/faults/fuse/mod.rs"]
mod fuse;
