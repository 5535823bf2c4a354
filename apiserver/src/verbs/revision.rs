//! Handling of resourceVersion in requests.

use std::time::Duration;

use orlop_store::{Kv, ReadError, Revision, Snapshot};

use crate::exchange::out_of_memory;
use crate::limits::compute::wait_outside;
use crate::projection::Projection;
use orlop_api::status::ApiError;

/// How long a request waits for a future revision.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// Parses a resourceVersion: `None` if absent or `0`, which both let the server choose. The error is upstream's
/// text.
pub(crate) fn parse_revision(text: &str) -> Result<Option<Revision>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let why = match text.parse() {
        // Rust accepts a leading sign, Go's ParseUint does not.
        _ if !text.bytes().all(|byte| byte.is_ascii_digit()) => "invalid syntax",
        Ok(0) => return Ok(None),
        Ok(revision) => return Ok(Some(Revision(revision))),
        Err(_) => "value out of range",
    };
    Err(format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"))
}

/// Waits up to `FUTURE_WAIT` for a future revision. Expensive requests of other clients run meanwhile.
pub(crate) async fn wait_for(store: &dyn Kv<Projection>, revision: Revision) -> Result<(), ApiError> {
    if store.head().revision() >= revision {
        return Ok(());
    }
    wait_outside(tokio::time::timeout(FUTURE_WAIT, store.reached(revision)))
        .await?
        .map_err(|_| ApiError::too_large_revision(revision.0, store.head().revision().0))
}

/// The snapshot at exactly this revision.
pub(crate) async fn exactly(
    store: &dyn Kv<Projection>,
    revision: Revision,
    prefix: &str,
) -> Result<Snapshot<Projection>, ExactError> {
    wait_for(store, revision).await.map_err(ExactError::Api)?;
    store.at(revision, prefix).await.map_err(|error| match error {
        ReadError::Expired { .. } => ExactError::Expired,
        ReadError::Future { wanted, head } => ExactError::Api(ApiError::too_large_revision(wanted.0, head.0)),
        ReadError::OutOfMemory(error) if error.is_permanent() => ExactError::Expired,
        ReadError::OutOfMemory(error) => ExactError::Api(out_of_memory(error)),
        ReadError::Damaged(why) => ExactError::Api(ApiError::internal(why)),
    })
}

/// Why a snapshot is not available.
pub(crate) enum ExactError {
    /// The revision is compacted; the caller provides the message.
    Expired,
    /// Any other error.
    Api(ApiError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_versions_are_parsed_like_go() {
        let bad = |text: &str, why: &str| {
            Err(format!(
                "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"
            ))
        };
        for (text, want) in [
            ("", Ok(None)),
            ("0", Ok(None)),
            ("00", Ok(None)),
            ("17", Ok(Some(Revision(17)))),
            ("18446744073709551615", Ok(Some(Revision(u64::MAX)))),
            ("18446744073709551616", bad("18446744073709551616", "value out of range")),
            ("+5", bad("+5", "invalid syntax")),
            ("-1", bad("-1", "invalid syntax")),
            ("abc", bad("abc", "invalid syntax")),
            ("1.5", bad("1.5", "invalid syntax")),
        ] {
            assert_eq!(parse_revision(text), want, "{text:?}");
        }
    }
}
