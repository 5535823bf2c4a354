//! Revisions and times in requests, one object as it was, and the words for what is forgotten.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use orlop_store::{Key, ReadError, Record, Revision, revision_at};

use super::bad_parameter;
use super::key_resolver::KeyResolver;
use super::target::find;
use crate::projection::Projection;
use crate::state::Inner;
use crate::verbs::revision::wait_for;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// How far apart the clocks of a client and of the server may be.
const CLOCKS: SignedDuration = SignedDuration::from_mins(1);

/// 410: it lies before what is kept.
pub(crate) fn expired(wanted: impl std::fmt::Display, oldest: Revision) -> ApiError {
    ApiError::expired(format!("{wanted} is no longer known: the oldest revision that is kept is {oldest}"))
}

/// A failed read of the store as an answer.
pub(crate) fn read_error(error: ReadError) -> ApiError {
    match error {
        ReadError::Expired { wanted, oldest } => expired(format_args!("revision {wanted}"), oldest),
        ReadError::Future { wanted, head } => ApiError::too_large_revision(wanted.0, head.0),
        ReadError::Damaged(why) => ApiError::internal(why),
    }
}

/// A revision that a parameter names, by its number or by a time (RFC 3339). Waits a little for a revision that
/// has not happened yet; a time that has not come is now when clocks may differ by that.
///
/// # Errors
/// 400 for what is neither and for a later time, 410 for what is older than what is kept, 504 for what does not happen.
pub(crate) async fn moment(server: &Inner, name: &str, text: &str) -> Result<Revision, ApiError> {
    let store = &*server.store;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let revision = text.parse().map(Revision);
        let revision =
            revision.map_err(|_| bad_parameter(name, text, "the number is too large for a revision"))?;
        wait_for(store, revision).await?;
        return known(server, revision);
    }
    let time: Timestamp = text.parse().map_err(|_| {
        bad_parameter(name, text, "wanted is a revision (a number) or a time such as 2026-01-31T12:00:00Z")
    })?;
    if time > (server.config.clock)() + CLOCKS {
        // A slip in the year would be answered with what is now.
        return Err(bad_parameter(name, text, "that time has not come yet"));
    }
    let found = revision_at(store, time.as_millisecond()).await.map_err(read_error)?;
    found.ok_or_else(|| expired(format_args!("the state at {time}"), store.oldest()))
}

fn known(server: &Inner, revision: Revision) -> Result<Revision, ApiError> {
    let oldest = server.store.oldest();
    if revision < oldest { Err(expired(format_args!("revision {revision}"), oldest)) } else { Ok(revision) }
}

/// The same for a parameter that may be absent.
///
/// # Errors
/// As [`moment`].
pub(super) async fn moment_of(
    server: &Inner,
    query: &Query,
    name: &str,
) -> Result<Option<Revision>, ApiError> {
    match query.text(name) {
        "" => Ok(None),
        text => moment(server, name, text).await.map(Some),
    }
}

/// The record of a key as it was at a revision; `None` when there was none.
///
/// # Errors
/// 410 when the revision is older than what is kept, 504 when it does not happen.
pub(crate) async fn state_at(
    server: &Inner,
    key: &str,
    revision: Revision,
) -> Result<Option<Arc<Record<Projection>>>, ApiError> {
    wait_for(&*server.store, revision).await?;
    known(server, revision)?;
    let key = Key::new(key);
    let events = server.store.history_before(&key, revision.next(), 1).await.map_err(read_error)?;
    // What was read is the state then only if it was not compacted meanwhile.
    known(server, revision)?;
    Ok(events.first().and_then(|event| event.record.clone()))
}

/// When something was, as answers tell it: RFC 3339 with milliseconds.
pub(crate) fn time_text(time_ms: i64) -> String {
    let time = Timestamp::from_millisecond(time_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// The places that `resource=` asks for (several, also with commas between them), or all.
///
/// # Errors
/// As [`find`].
pub(super) fn places(server: &Inner, query: &Query) -> Result<KeyResolver, ApiError> {
    let mut only = Vec::new();
    for text in query.all("resource").flat_map(|list| list.split(',')).filter(|text| !text.is_empty()) {
        only.push(find(server, text)?.storage_prefix());
    }
    Ok(KeyResolver::now(&server.kinds, only))
}
