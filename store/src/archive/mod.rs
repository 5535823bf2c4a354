//! Snapshots for people: one file with all records of one revision, to be kept somewhere else.
//!
//! It is the store's own logical snapshot, compressed, between a header that says what it is and a
//! trailer that says that it is whole. Every byte is under a checksum, so that a damaged file is
//! found when it is looked at and not when it is needed. The layout is told in
//! docs/store-format.md.
//!
//! [`write()`] makes one from an immutable picture, so no writer waits for it. [`check`] reads all of
//! it. [`restore`] makes a new store of it, whose history is a new one: every revision is moved up, so
//! that none goes back for a client that has seen the old store, and all that clients remember from
//! there is Expired.

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
