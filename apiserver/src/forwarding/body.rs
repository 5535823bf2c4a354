//! The body of a forwarded response.

use std::fmt::Display;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use tokio_util::sync::CancellationToken;

/// The body for the client. Without a time limit, it ends when this server stops. With one, it breaks if it lasts longer, and the end of
/// the server leaves it the grace period: an early end would look like the end of the whole response.
pub(crate) fn passed_body<B>(body: B, limit: Option<Duration>, closing: CancellationToken) -> Body
where
    B: http_body::Body<Data = Bytes, Error: Display> + Send + Unpin + 'static,
{
    let late = limit.map(|limit| Box::pin(tokio::time::sleep(limit)));
    let chunks = stream::unfold(Some((body.into_data_stream(), late)), |state| async {
        let (mut body, mut late) = state?;
        let overdue = async {
            match &mut late {
                Some(late) => late.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            chunk = body.next() => match chunk? {
                Ok(chunk) => Some((Ok(chunk), Some((body, late)))),
                Err(error) => Some((Err(error.to_string()), None)),
            },
            () = overdue => Some((Err("the response takes too long".to_owned()), None)),
        }
    });
    match limit {
        Some(_) => Body::from_stream(chunks),
        None => Body::from_stream(chunks.take_until(closing.cancelled_owned().boxed())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn end_of_the_server_ends_only_responses_without_a_time_limit() {
        for (case, limit, want) in
            [("1 a list", Some(Duration::from_secs(60)), "abc"), ("2 a watch", None, "a")]
        {
            let closing = CancellationToken::new();
            let (mut sender, receiver) = futures::channel::mpsc::channel(4);
            let mut send = |part: &'static str| sender.try_send(Ok::<_, String>(Bytes::from(part)));
            let mut body =
                passed_body(Body::from_stream(receiver), limit, closing.clone()).into_data_stream();
            send("a").expect("a place");
            let mut got = body.next().await.expect("a chunk").expect("no error").to_vec();
            closing.cancel();
            for part in ["b", "c"] {
                // The body of a watch is gone.
                let _ = send(part);
            }
            drop(sender);
            while let Some(chunk) = body.next().await {
                got.extend(chunk.expect("no error"));
            }
            assert_eq!(String::from_utf8_lossy(&got), want, "{case}");
        }
    }
}
