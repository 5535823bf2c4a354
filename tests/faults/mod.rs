//! The disk below a server fails or fills up, and the clients are told the truth.
//!
//! `server` is a server on a directory of one's choice with clients that keep a ledger, `full` a disk without room (a
//! small ext4 on a loop device), `failing` a disk that answers EIO (the FUSE layer of the store's tests). Both need
//! root. What cannot be had on a machine is left out, and that is told; `ORLOP_REQUIRE_FUSE=1` and `ORLOP_REQUIRE_LOOP=1` make
//! it a failure.

mod failing;
mod full;
mod server;

#[path = "../../store/tests/faults/fuse/mod.rs"]
mod fuse;
