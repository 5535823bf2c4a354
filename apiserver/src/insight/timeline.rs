//! Returns one short line per write, without the objects.

use axum::response::Response;
use orlop_store::ReadError;
use orlop_store::watch::BATCH;

use super::past::{key_resolver, moment_of, read_error};
use super::rights::Rights;
use super::{limit, lines, stream};
use crate::encode::answer;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// The default and the maximum number of lines per response.
const USUAL: usize = 1000;
const MOST: usize = 10_000;
/// The maximum number of writes to examine per response, even if few of them match.
const LOOK: usize = 200_000;

/// `GET timeline?after=REV&limit=&resource=`: without `after`, starts at the oldest known revision. The last line
/// is a PROGRESS with the revision up to which the response is complete; to continue, pass it as `after`.
pub(super) async fn timeline(rights: &Rights<'_>, query: &Query) -> Result<Response, ApiError> {
    let server = rights.server;
    let limit = limit(query, USUAL, MOST)?;
    let resolver = key_resolver(rights, query).await?;
    let asked = moment_of(server, query, "after").await?;
    let mut after = asked.unwrap_or_else(|| server.store.oldest());
    let mut out = Vec::new();
    let (mut written, mut looked) = (0, 0);
    while written < limit && looked < LOOK {
        let events = match server.store.events(after, BATCH).await {
            Ok(events) => events,
            // The client gave no starting point, and the oldest revision has advanced.
            Err(ReadError::Expired { oldest, .. }) if asked.is_none() && looked == 0 => {
                after = oldest;
                continue;
            }
            Err(error) => return Err(read_error(error)),
        };
        if events.is_empty() {
            break;
        }
        for event in &events {
            if written == limit {
                break;
            }
            if let Some(place) = resolver.of_key(event.key.as_str()) {
                lines::write(&mut out, place, event);
                written += 1;
            }
            after = event.revision;
        }
        looked += events.len();
    }
    lines::progress(&mut out, after, stream::now_ms(server));
    Ok(answer::body(200, stream::CONTENT_TYPE, out))
}
