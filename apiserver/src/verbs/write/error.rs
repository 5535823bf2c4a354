//! How a write fails.

use std::sync::Arc;

use orlop_store::{CommitError, Record};

use crate::projection::Projection;
use crate::status::ApiError;

/// How a write can fail besides being refused.
pub(crate) enum StoreError {
    /// Somebody else wrote the object meanwhile; the record that is there now.
    Moved(Option<Arc<Record<Projection>>>),
    /// Anything else.
    Api(ApiError),
}

impl From<ApiError> for StoreError {
    fn from(error: ApiError) -> Self {
        StoreError::Api(error)
    }
}

/// From a failed commit to an answer; conflicts are the caller's.
fn commit_error(error: CommitError<Projection>) -> StoreError {
    match error {
        CommitError::Conflict { actual, .. } => StoreError::Moved(actual),
        CommitError::TooLarge { size, limit, .. } => StoreError::Api(ApiError::too_large(format!(
            "the object is too large to be stored: {size} bytes, the limit is {limit}"
        ))),
        CommitError::Full { free, needed, place } => {
            StoreError::Api(ApiError::insufficient_storage(free, needed, &place))
        }
        CommitError::Poisoned(why) => StoreError::Api(ApiError::internal(format!(
            "the store has stopped taking writes, restart the server: {why}"
        ))),
        CommitError::Closed => StoreError::Api(ApiError::unavailable("the server is shutting down")),
    }
}

/// The same as [`commit_error`] for a commit that also writes what the object reserves.
pub(crate) fn commit_error_of(own: &str, error: CommitError<Projection>) -> StoreError {
    match error {
        // Nobody is given what another has; this happens when both name it.
        CommitError::Conflict { key, .. } if key.as_str() != own => StoreError::Api(ApiError::unavailable(
            format!("{key} was taken by another request at the same moment; send this one again"),
        )),
        error => commit_error(error),
    }
}
