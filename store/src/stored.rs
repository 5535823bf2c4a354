//! The form of a value on disk.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

/// Why a value could not be transformed. Never contains the value or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// Another attempt fails too, for example because the key is unknown or the bytes are damaged.
    #[error("{0}")]
    Permanent(Arc<str>),
    /// A later attempt may succeed, for example when a KMS plugin responds again.
    #[error("{0}")]
    Temporary(Arc<str>),
}

impl TransformError {
    /// A failure that may end without a change of the value or of the configuration.
    pub fn temporary(why: impl Into<Arc<str>>) -> Self {
        TransformError::Temporary(why.into())
    }

    /// Whether a later attempt may succeed.
    pub fn is_temporary(&self) -> bool {
        match self {
            TransformError::Temporary(_) => true,
            TransformError::Permanent(_) => false,
        }
    }
}

impl From<&str> for TransformError {
    /// A permanent failure.
    fn from(why: &str) -> Self {
        TransformError::Permanent(why.into())
    }
}

impl From<String> for TransformError {
    /// A permanent failure.
    fn from(why: String) -> Self {
        TransformError::Permanent(why.into())
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
