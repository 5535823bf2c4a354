//! Errors of writes.

use std::sync::Arc;

use orlop_store::{CommitError, Record};

use crate::projection::Projection;
use orlop_api::status::ApiError;

/// An error of a write to the store.
pub(crate) enum StoreError {
    /// Another writer has changed the object; contains the current record.
    Moved(Option<Arc<Record<Projection>>>),
    /// Any other error.
    Api(ApiError),
}

impl From<ApiError> for StoreError {
    fn from(error: ApiError) -> Self {
        StoreError::Api(error)
    }
}

/// Converts the error of a commit; the caller handles conflicts.
fn commit_error(error: CommitError<Projection>) -> StoreError {
    match error {
        CommitError::Conflict { actual, .. } => StoreError::Moved(actual),
        CommitError::TooLarge { size, limit, .. } => StoreError::Api(ApiError::too_large(format!(
            "the object is too large to be stored: {size} bytes, the limit is {limit}"
        ))),
        CommitError::Full { free, needed, place } => {
            StoreError::Api(ApiError::insufficient_storage(free, needed, &place))
        }
        CommitError::DataLimit { needed, limit } => StoreError::Api(ApiError::data_limit(needed, limit)),
        error @ CommitError::Transform { .. } => StoreError::Api(ApiError::internal(error.to_string())),
        CommitError::Poisoned(why) => StoreError::Api(ApiError::internal(format!(
            "the store has stopped taking writes, restart the server: {why}"
        ))),
        CommitError::Closed => StoreError::Api(ApiError::unavailable("the server is shutting down")),
    }
}

/// Like [`commit_error`], for a commit that also writes the allocations of the object.
pub(crate) fn commit_error_of(own: &str, error: CommitError<Projection>) -> StoreError {
    match error {
        // Automatic allocation never assigns a value twice; this happens if two requests specify the same one.
        CommitError::Conflict { key, .. } if key.as_str() != own => StoreError::Api(ApiError::unavailable(
            format!("{key} was taken by another request at the same moment; send this one again"),
        )),
        error => commit_error(error),
    }
}
