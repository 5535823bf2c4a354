//! One small line per write, without the objects: what a scrubber draws.

use std::sync::Arc;

use axum::response::Response;
use orlop_store::ReadError;
use orlop_store::watch::BATCH;

use super::past::{moment_of, places, read_error};
use super::{limit, lines, stream};
use crate::encode::answer;
use crate::state::Inner;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// So many lines are told unless the client says otherwise, and so many at the most.
const USUAL: usize = 1000;
const MOST: usize = 10_000;
/// So many writes are looked at for one answer, however few of them are asked for.
const LOOK: usize = 200_000;

/// `GET timeline?after=REV&limit=&resource=`: from the oldest on without `after`. The last line is a PROGRESS that
/// tells up to where everything is told; whoever wants more asks with that.
pub(super) async fn timeline(server: &Arc<Inner>, query: &Query) -> Result<Response, ApiError> {
    let limit = limit(query, USUAL, MOST)?;
    let places = places(server, query)?;
    let asked = moment_of(server, query, "after").await?;
    let mut after = asked.unwrap_or_else(|| server.store.oldest());
    let mut out = Vec::new();
    let (mut told, mut looked) = (0, 0);
    while told < limit && looked < LOOK {
        let events = match server.store.events(after, BATCH).await {
            Ok(events) => events,
            // Nobody asked for a place to begin, and the oldest has moved on.
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
            if told == limit {
                break;
            }
            if let Some(place) = places.of_key(event.key.as_str()) {
                lines::write(&mut out, place, event);
                told += 1;
            }
            after = event.revision;
        }
        looked += events.len();
    }
    lines::progress(&mut out, after, stream::now_ms(server));
    Ok(answer::body(200, stream::CONTENT_TYPE, out))
}
