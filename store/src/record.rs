//! What is stored, and what is told about it.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Key, Revision};

/// What readers need to know of a value without decoding it again: made once per write, by the
/// writer, and once per record when a store is opened.
pub trait View: Send + Sync + 'static {
    /// The view of a value that was read back from disk.
    fn of(key: &Key, value: &Bytes) -> Self;
}

impl View for () {
    fn of(_key: &Key, _value: &Bytes) -> Self {}
}

/// One version of the value of a key.
#[derive(Debug)]
pub struct Record<V> {
    /// Its key.
    pub key: Key,
    /// The bytes, as they were put.
    pub value: Bytes,
    /// What readers need to know of them.
    pub view: V,
    /// The revision that created the key (since it was last absent).
    pub create_revision: Revision,
    /// The revision of this version.
    pub mod_revision: Revision,
    /// When it was written, milliseconds since the epoch by the store's clock.
    pub time_ms: i64,
}

/// One write, as watches and histories tell it.
#[derive(Debug)]
pub struct Event<V> {
    /// Its revision.
    pub revision: Revision,
    /// The key it wrote.
    pub key: Key,
    /// When it was written, milliseconds since the epoch by the store's clock.
    pub time_ms: i64,
    /// The record that it left; `None` for a delete.
    pub record: Option<Arc<Record<V>>>,
    /// The record that it replaced or deleted; `None` when it created the key.
    pub prev: Option<Arc<Record<V>>>,
}
