//! The body of a proxied page: its links are rewritten while it arrives.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;

use super::links::{Links, reason};

/// What the rewriter has written and the client has not received.
type Written = Arc<Mutex<Vec<u8>>>;

/// The body with rewritten links. It breaks if the target's response breaks.
pub(super) fn rewritten(body: Incoming, links: Links) -> Body {
    let written = Written::default();
    let sink = written.clone();
    let rewriter = links.rewriter(move |piece: &[u8]| sink.lock().extend_from_slice(piece));
    let pieces = stream::unfold(Some((body.into_data_stream(), rewriter)), move |state| {
        let written = written.clone();
        async move {
            let (mut body, mut rewriter) = state?;
            loop {
                let (result, rest) = match body.next().await {
                    Some(Ok(piece)) => {
                        (rewriter.write(&piece).map_err(|error| reason(&error)), Some((body, rewriter)))
                    }
                    Some(Err(error)) => (Err(error.to_string()), None),
                    None => (rewriter.end().map_err(|error| reason(&error)), None),
                };
                if let Err(why) = result {
                    return Some((Err(why), None));
                }
                let piece = std::mem::take(&mut *written.lock());
                match rest {
                    // A tag is not complete.
                    Some(rest) if piece.is_empty() => (body, rewriter) = rest,
                    rest => return Some((Ok(Bytes::from(piece)), rest)),
                }
            }
        }
    });
    Body::from_stream(pieces)
}
