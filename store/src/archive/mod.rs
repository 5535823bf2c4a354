//! Portable snapshots: one file with all records of one revision, for storage outside the data directory.
//!
//! A file is the store's own logical snapshot, compressed, between a header that describes it and a
//! trailer that proves it complete. Checksums cover every byte, so damage is found by a check and not
//! first by a restore. docs/store-format.md describes the layout.
//!
//! [`write()`] writes a file from an immutable snapshot of the state, so no writer waits for it. [`check`]
//! reads all of it. [`restore`] creates a new store from it with a history of its own: every revision is
//! moved up, so that no revision goes backwards for a client of the old store, and every revision that
//! such a client remembers is Expired.

mod error;
mod format;
mod read;
mod restore;
mod write;

pub use self::error::ArchiveError;
pub use self::format::{FORMAT, Header, Summary};
pub use self::read::{check, header};
pub use self::restore::{BUMP, Restored, restore};
pub use self::write::{save, write};

#[cfg(test)]
mod tests;
