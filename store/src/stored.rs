//! The form of a value on disk.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

/// Why a value could not be transformed. Never contains the value or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransformError(pub Arc<str>);

impl From<&str> for TransformError {
    fn from(why: &str) -> Self {
        TransformError(why.into())
    }
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
    /// A former version of a sensitive record, which is not retained: the value is its redacted form, or empty.
    Erased,
}

impl Stored {
    /// The bytes that are in memory beside the value.
    pub(crate) fn apart(&self) -> usize {
        match self {
            Stored::Plain | Stored::Erased => 0,
            Stored::Transformed(bytes) | Stored::Unreadable { bytes, .. } => bytes.len(),
        }
    }
}

/// The reason for a value that is erased.
pub(crate) static ERASED: LazyLock<TransformError> =
    LazyLock::new(|| "former versions of this object are not retained".into());
