//! Finds the revision at a time, and the oldest known revision.

use orlop_store::Revision;
use serde_json::{Value, json};

use super::API_VERSION;
use super::past::{expired, moment_of, time_text};
use crate::state::Inner;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// `GET revisions?at=TIME` (or `at=REV`): without `at`, the current revision.
pub(super) async fn revisions(server: &Inner, query: &Query) -> Result<Value, ApiError> {
    let newest = server.store.head().revision();
    let at = moment_of(server, query, "at").await?.unwrap_or(newest);
    let oldest = server.store.oldest();
    if at < oldest {
        return Err(expired(format_args!("revision {at}"), oldest));
    }
    let mut document = revision_document(server, at).await;
    document["kind"] = "Revisions".into();
    document["apiVersion"] = API_VERSION.into();
    document["oldest"] = revision_document(server, oldest).await;
    document["newest"] = revision_document(server, newest.max(at)).await;
    Ok(document)
}

/// A revision with its time, if known.
async fn revision_document(server: &Inner, revision: Revision) -> Value {
    let mut document = json!({"revision": revision.to_string()});
    // A revision that is compacted concurrently no longer has a time.
    if let Ok(Some(time_ms)) = server.store.time_of(revision).await {
        document["time"] = time_text(time_ms).into();
    }
    document
}
