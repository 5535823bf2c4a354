//! Records and events.

use std::sync::Arc;

use bytes::Bytes;

use crate::stored::ERASED;
use crate::{Key, Revision, Stored, TransformError};

/// The decoded parts of a value that readers need: computed once per write, by the writer, and once per record
/// when a store is opened.
pub trait View: Send + Sync + 'static {
    /// Computes the view of a value read from disk.
    fn of(key: &Key, value: &Bytes) -> Self;
}

impl View for () {
    fn of(_key: &Key, _value: &Bytes) -> Self {}
}

/// One version of a key's value.
#[derive(Debug)]
pub struct Record<V> {
    /// Its key.
    pub key: Key,
    /// The bytes of the value.
    pub value: Bytes,
    /// The form of the value on disk.
    pub stored: Stored,
    /// The decoded parts of the value.
    pub view: V,
    /// The revision that created the key (after it was last absent).
    pub create_revision: Revision,
    /// The revision of this version.
    pub mod_revision: Revision,
    /// When it was written, milliseconds since the epoch by the store's clock.
    pub time_ms: i64,
}

impl<V> Record<V> {
    /// The bytes of the value on disk.
    pub fn stored_bytes(&self) -> &Bytes {
        match &self.stored {
            Stored::Plain | Stored::Erased => &self.value,
            Stored::Transformed(bytes) | Stored::Unreadable { bytes, .. } => bytes,
        }
    }

    /// The bytes of the stored form that are in memory beside the value.
    pub(crate) fn stored_apart(&self) -> usize {
        self.stored.apart()
    }

    /// The bytes of the key and the stored form of the value.
    pub(crate) fn size_on_disk(&self) -> usize {
        self.key.as_str().len() + self.stored_bytes().len()
    }

    /// Whether the value is the one that was written.
    pub fn is_whole(&self) -> bool {
        match &self.stored {
            Stored::Plain | Stored::Transformed(_) => true,
            Stored::Unreadable { .. } | Stored::Erased => false,
        }
    }

    /// The reason, if the value is missing.
    pub fn unreadable(&self) -> Option<&TransformError> {
        match &self.stored {
            Stored::Plain | Stored::Transformed(_) => None,
            Stored::Unreadable { why, .. } => Some(why),
            Stored::Erased => self.value.is_empty().then_some(&*ERASED),
        }
    }
}

/// One write, as it appears in watches and histories.
#[derive(Debug)]
pub struct Event<V> {
    /// Its revision.
    pub revision: Revision,
    /// The written key.
    pub key: Key,
    /// When it was written, milliseconds since the epoch by the store's clock.
    pub time_ms: i64,
    /// The new record; `None` for a delete.
    pub record: Option<Arc<Record<V>>>,
    /// The record that was replaced or deleted; `None` when the write created the key.
    pub prev: Option<Arc<Record<V>>>,
}
