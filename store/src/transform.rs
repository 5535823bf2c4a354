//! Transforms values between memory and disk, for encryption at rest: records in memory contain the values, and every file contains
//! their stored form.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use crate::embedded::Sensitive;
use crate::{Key, Record, Revision, View};

/// Why a value could not be transformed. Never contains the value or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransformError(pub Arc<str>);

impl From<&str> for TransformError {
    fn from(why: &str) -> Self {
        TransformError(why.into())
    }
}

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

/// The stored form of a record's value.
#[derive(Clone, Debug, Default)]
pub enum Stored {
    /// The value itself.
    #[default]
    Plain,
    /// Other bytes.
    Transformed(Bytes),
    /// Bytes that cannot be transformed to a value. The record's value is empty.
    Unreadable {
        /// The bytes, which stay as they are until the record is replaced or deleted.
        bytes: Bytes,
        /// The reason.
        why: TransformError,
    },
    /// A former version of a sensitive record, which is not retained: the value is what remains of it, or empty.
    Erased,
}

/// The reason for a value that is erased.
static ERASED: LazyLock<TransformError> =
    LazyLock::new(|| "former versions of this object are not retained".into());

impl<V> Record<V> {
    /// The bytes of the value on disk.
    pub fn stored_bytes(&self) -> &Bytes {
        match &self.stored {
            Stored::Plain | Stored::Erased => &self.value,
            Stored::Transformed(bytes) | Stored::Unreadable { bytes, .. } => bytes,
        }
    }

    /// Whether the value is the one that was written.
    pub fn is_whole(&self) -> bool {
        match &self.stored {
            Stored::Plain | Stored::Transformed(_) => true,
            Stored::Unreadable { .. } | Stored::Erased => false,
        }
    }

    /// Why there is no value, if that is so.
    pub fn unreadable(&self) -> Option<&TransformError> {
        match &self.stored {
            Stored::Plain | Stored::Transformed(_) => None,
            Stored::Unreadable { why, .. } => Some(why),
            Stored::Erased => self.value.is_empty().then_some(&*ERASED),
        }
    }
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

    /// Builds a record from the stored form of what remains of a former version.
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

    /// The stored form of what remains of a former version, from its own stored form.
    pub(crate) fn redacted(&self, sensitive: &Sensitive, key: &Key, stored: &Bytes) -> Bytes {
        let (value, form) = self.value(key, stored.clone());
        if let Stored::Unreadable { .. } = form {
            return Bytes::new();
        }
        let left = sensitive.redacted(key, &value);
        if left.is_empty() {
            return left;
        }
        match self.stored(key, &left) {
            Ok(Stored::Transformed(stored)) => stored,
            Ok(Stored::Plain | Stored::Unreadable { .. } | Stored::Erased) => left,
            // It must not be stored in another form than its value would be.
            Err(_) => Bytes::new(),
        }
    }

    fn value(&self, key: &Key, stored: Bytes) -> (Bytes, Stored) {
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
