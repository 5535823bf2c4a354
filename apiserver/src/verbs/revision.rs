//! resourceVersions in requests.

use std::time::Duration;

use orlop_store::{Kv, ReadError, Revision, Snapshot};

use crate::projection::Projection;
use crate::status::ApiError;

/// How long a request waits for a revision from the future.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// A resourceVersion: `None` for absent and `0`, which both leave the choice to the server. The
/// error is upstream's text.
pub(crate) fn parse_revision(text: &str) -> Result<Option<Revision>, String> {
    match text {
        "" | "0" => Ok(None),
        text => text.parse().map(|revision| Some(Revision(revision))).map_err(|_| {
            format!(
                "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
            )
        }),
    }
}

/// Waits a little for a revision that has not happened yet.
pub(crate) async fn wait_for(store: &dyn Kv<Projection>, revision: Revision) -> Result<(), ApiError> {
    if store.head().revision() >= revision {
        return Ok(());
    }
    tokio::time::timeout(FUTURE_WAIT, store.reached(revision))
        .await
        .map_err(|_| ApiError::too_large_revision(revision.0, store.head().revision().0))
}

/// The state at a revision, exactly.
pub(crate) async fn exactly(
    store: &dyn Kv<Projection>,
    revision: Revision,
    prefix: &str,
) -> Result<Snapshot<Projection>, ExactError> {
    wait_for(store, revision).await.map_err(ExactError::Api)?;
    store.at(revision, prefix).await.map_err(|error| match error {
        ReadError::Expired { .. } => ExactError::Expired,
        ReadError::Future { wanted, head } => ExactError::Api(ApiError::too_large_revision(wanted.0, head.0)),
        ReadError::Damaged(why) => ExactError::Api(ApiError::internal(why)),
    })
}

/// Why a state cannot be had.
pub(crate) enum ExactError {
    /// It is compacted; the caller knows the words for it.
    Expired,
    /// Anything else.
    Api(ApiError),
}
