//! Transforms values between memory and disk, for encryption at rest: records in memory contain the values, and every file contains
//! their stored form.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Key, Record, Revision, Stored, TransformError, View};

/// A value that was read from its stored form.
#[derive(Debug)]
pub struct Decoded {
    /// The value; `None` if the stored form is the value itself.
    pub value: Option<Bytes>,
    /// A write today would use another stored form, for example another key.
    pub is_stale: bool,
}

/// Transforms values. `key` is the key of the record, which an implementation may authenticate.
pub trait Transformer: Send + Sync {
    /// The stored form of a value; `None` if it is the value itself.
    ///
    /// # Errors
    /// The value cannot be transformed; it is then not written.
    fn encode(&self, key: &Key, value: &Bytes) -> Result<Option<Bytes>, TransformError>;

    /// The value of a stored form.
    ///
    /// # Errors
    /// The stored form cannot be read.
    fn decode(&self, key: &Key, stored: &Bytes) -> Result<Decoded, TransformError>;
}

/// The transformer of a store, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Transform(pub(crate) Option<Arc<dyn Transformer>>);

impl Transform {
    /// The stored form of a value.
    pub(crate) fn stored(&self, key: &Key, value: &Bytes) -> Result<Stored, TransformError> {
        let Some(transformer) = &self.0 else { return Ok(Stored::Plain) };
        Ok(transformer.encode(key, value)?.map_or(Stored::Plain, Stored::Transformed))
    }

    /// Builds a record from the stored form of its value.
    pub(crate) fn record<V: View>(
        &self,
        key: Key,
        stored: Bytes,
        create_revision: Revision,
        mod_revision: Revision,
        time_ms: i64,
    ) -> Record<V> {
        let (value, stored) = self.value(&key, stored);
        Record { view: V::of(&key, &value), key, value, stored, create_revision, mod_revision, time_ms }
    }

    /// Builds a record from the stored form of a redacted former version.
    pub(crate) fn erased_record<V: View>(
        &self,
        key: Key,
        stored: Bytes,
        create_revision: Revision,
        mod_revision: Revision,
        time_ms: i64,
    ) -> Record<V> {
        let value = if stored.is_empty() { stored } else { self.value(&key, stored).0 };
        let stored = Stored::Erased;
        Record { view: V::of(&key, &value), key, value, stored, create_revision, mod_revision, time_ms }
    }

    /// The value of a stored form, and the form.
    pub(crate) fn value(&self, key: &Key, stored: Bytes) -> (Bytes, Stored) {
        let Some(transformer) = &self.0 else { return (stored, Stored::Plain) };
        match transformer.decode(key, &stored) {
            Ok(Decoded { value: None, .. }) => (stored, Stored::Plain),
            Ok(Decoded { value: Some(value), .. }) => (value, Stored::Transformed(stored)),
            Err(why) => (Bytes::new(), Stored::Unreadable { bytes: stored, why }),
        }
    }

    /// Whether a write today would use another stored form.
    pub(crate) fn is_stale<V>(&self, record: &Record<V>) -> bool {
        let Some(transformer) = &self.0 else { return false };
        let read = transformer.decode(&record.key, record.stored_bytes());
        read.map_or(true, |read| read.is_stale)
    }
}
