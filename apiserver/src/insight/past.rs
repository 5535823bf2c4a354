//! Revisions and times in requests, past states of one object, and errors for compacted revisions.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use orlop_store::{Key, ReadError, Record, Revision, revision_at};

use super::bad_parameter;
use super::key_resolver::{KeyResolver, Selection, kinds};
use super::rights::Rights;
use super::target::find;
use crate::exchange::out_of_memory;
use crate::projection::Projection;
use crate::state::Inner;
use crate::verbs::revision::wait_for;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// The clock skew allowed between a client and the server.
const CLOCKS: SignedDuration = SignedDuration::from_mins(1);

/// 410: the revision is older than the oldest one retained.
pub(crate) fn expired(wanted: impl std::fmt::Display, oldest: Revision) -> ApiError {
    ApiError::expired(format!("{wanted} is no longer available: the oldest retained revision is {oldest}"))
}

/// Converts a failed read of the store to a response.
pub(crate) fn read_error(error: ReadError) -> ApiError {
    match error {
        ReadError::Expired { wanted, oldest } => expired(format_args!("revision {wanted}"), oldest),
        ReadError::Future { wanted, head } => ApiError::too_large_revision(wanted.0, head.0),
        ReadError::OutOfMemory(error) if error.is_permanent() => ApiError::expired(format!(
            "the state at that revision cannot be read any more: {error} (--memory-limit)"
        )),
        ReadError::OutOfMemory(error) => out_of_memory(error),
        ReadError::Damaged(why) => ApiError::internal(why),
    }
}

/// The revision that a parameter names, by its number or by a time (RFC 3339). Waits a limited time for a
/// revision that does not exist yet. A future time within the allowed clock skew means now.
///
/// # Errors
/// 400 if the parameter is neither, or a later time; 410 if it is older than the oldest revision retained; 504 if
/// the revision does not arrive.
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
        bad_parameter(name, text, "must be a revision (a number) or a time such as 2026-01-31T12:00:00Z")
    })?;
    if time > (server.config.clock)() + CLOCKS {
        // Otherwise a typo in the year would return the current state.
        return Err(bad_parameter(name, text, "that time has not come yet"));
    }
    let found = revision_at(store, time.as_millisecond()).await.map_err(read_error)?;
    found.ok_or_else(|| expired(format_args!("the state at {time}"), store.oldest()))
}

fn known(server: &Inner, revision: Revision) -> Result<Revision, ApiError> {
    let oldest = server.store.oldest();
    if revision < oldest { Err(expired(format_args!("revision {revision}"), oldest)) } else { Ok(revision) }
}

/// Like [`moment`], for an optional parameter.
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

/// The record of a key at a revision; `None` if it did not exist.
///
/// # Errors
/// 410 if the revision is older than the oldest one retained, 504 if it does not arrive.
pub(crate) async fn state_at(
    server: &Inner,
    key: &str,
    revision: Revision,
) -> Result<Option<Arc<Record<Projection>>>, ApiError> {
    wait_for(&*server.store, revision).await?;
    known(server, revision)?;
    let key = Key::new(key);
    let events = server.store.history_before(&key, revision.next(), 1).await.map_err(read_error)?;
    // The result is valid only if the revision was not compacted in the meantime.
    known(server, revision)?;
    Ok(events.first().and_then(|event| event.record.clone()))
}

/// A time as in responses: RFC 3339 with milliseconds.
pub(crate) fn time_text(time_ms: i64) -> String {
    let time = Timestamp::from_millisecond(time_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// The maximum number of different names in `resource=`: more than the resources of most servers.
const MOST_RESOURCES: usize = 1000;

/// The kinds that `resource=` selects (a list separated by commas; the parameter can be repeated), or all that the user may read.
///
/// # Errors
/// As [`find`], 400 for too many names, and 403 for a resource that the user may not list and watch.
pub(super) async fn key_resolver(rights: &Rights<'_>, query: &Query) -> Result<KeyResolver, ApiError> {
    let server = rights.server;
    let texts = query.all("resource").flat_map(|list| list.split(',')).filter(|text| !text.is_empty());
    let texts: BTreeSet<&str> = texts.collect();
    if texts.len() > MOST_RESOURCES {
        let why = format!("resource: at most {MOST_RESOURCES} different names are possible");
        return Err(ApiError::bad_request(why));
    }
    let kinds = kinds(&server.kinds.now());
    let mut only = HashSet::new();
    for text in texts {
        let kind = find(&kinds, text)?;
        rights.may_follow(&kind).await?;
        only.insert(kind.storage_prefix());
    }
    let readable = rights.readable_prefixes().await;
    Ok(KeyResolver::now(&server.kinds, Selection { only, readable }))
}
