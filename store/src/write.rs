//! The writes of a commit, and its result.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Event, Key, Revision};

/// The precondition of a write (I5: no write is unconditional).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key has no record.
    Absent,
    /// The key's record has this revision.
    Revision(Revision),
}

/// The effect of a write on its key.
#[derive(Debug)]
pub enum Op<V> {
    /// Sets a new value.
    Put {
        /// The bytes.
        value: Bytes,
        /// The decoded parts of the value.
        view: V,
    },
    /// Deletes the record.
    Delete,
}

/// One write of a commit.
#[derive(Debug)]
pub struct Write<V> {
    /// The key.
    pub key: Key,
    /// The precondition.
    pub expect: Expect,
    /// The operation.
    pub op: Op<V>,
}

/// A commit that is applied and durable.
#[derive(Debug)]
pub struct Committed<V> {
    /// The events, one per write, in the order of the writes.
    pub events: Vec<Arc<Event<V>>>,
}

impl<V> Committed<V> {
    /// The revision of the last write; zero for a commit without writes.
    pub fn revision(&self) -> Revision {
        self.events.last().map_or(Revision::ZERO, |event| event.revision)
    }
}
