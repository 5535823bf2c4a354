//! Serves captures: files with the state at a revision and all changes since, in the stream format. The values of
//! secrets are removed.

use axum::response::Response;
use http::{HeaderValue, header};

use super::past::{key_resolver, moment_of};
use super::rights::Rights;
use super::stream::{Bounds, End, answer, check_end, now_ms, start};
use crate::encode::{ComputedBody, LongBody};
use crate::limits::connection::Connection;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// The oldest revision may be compacted between looking it up and reading it, so the read is retried this many
/// times.
const TRIES: usize = 5;

/// `GET capture?from=REV|TIME&until=REV|TIME&resource=`: without `from`, starts at the oldest known revision;
/// without `until`, ends at the current one.
pub(super) async fn capture(
    rights: &Rights<'_>,
    connection: Option<Connection>,
    query: &Query,
) -> Result<Response, ApiError> {
    let server = rights.server;
    let managed_fields = query.flag("managedFields");
    let asked = moment_of(server, query, "from").await?;
    let until = moment_of(server, query, "until").await?;
    let until = until.unwrap_or_else(|| server.store.head().revision());
    if let Some(asked) = asked {
        check_end(asked, until)?;
    }
    let mut tries = 0;
    let begun = loop {
        let at = asked.unwrap_or_else(|| server.store.oldest());
        let bounds = Bounds { state: true, at, end: End::At(until), managed_fields };
        match start(rights, connection.clone(), key_resolver(rights, query).await?, bounds).await {
            Err(error) if error.code == 410 && asked.is_none() && tries < TRIES => tries += 1,
            begun => break begun?,
        }
    };
    let mut response = answer(begun);
    let time = jiff::Timestamp::from_millisecond(now_ms(server)).unwrap_or_default();
    let name = format!("attachment; filename=\"orlop-{}.capture\"", time.strftime("%Y%m%dT%H%M%SZ"));
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    response.extensions_mut().insert(LongBody);
    response.extensions_mut().insert(ComputedBody);
    Ok(response)
}
