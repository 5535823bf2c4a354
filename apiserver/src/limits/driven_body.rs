//! Response bodies whose pieces are computed: long lists and compressed responses. A task on the threads of
//! [`super::compute`] computes them, at most two pieces or one large piece ahead of the client, so that the threads of
//! connections only copy bytes.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

/// Pieces that are computed before the client has read the earlier ones.
const AHEAD: usize = 2;
/// A piece of more bytes contains a large object: the task computes the next piece only after the connection has sent it.
const LARGE: usize = 128 << 10;

/// A message of the task.
enum Piece {
    Frame(Result<Frame<Bytes>, axum::Error>),
    /// The body is complete. Without it, the task has ended early and the response is incomplete.
    End,
}

/// The client's end of a body that a task computes.
struct DrivenBody {
    pieces: mpsc::Receiver<Piece>,
    /// The number of the frame that the connection polls. It polls for the next frame when it has sent the last one, except for
    /// the bytes in its buffer.
    asked: watch::Sender<u64>,
    received: u64,
    ended: bool,
    /// The task ends with the response.
    _task: AbortOnDropHandle<()>,
}

/// Moves the computation of a body to a runtime.
pub(super) fn drive(runtime: &Handle, mut body: Body) -> Body {
    let (sender, pieces) = mpsc::channel(AHEAD);
    let (asked, mut asks) = watch::channel(0);
    let task = runtime.spawn(async move {
        let mut sent = 0;
        while let Some(frame) = body.frame().await {
            let length = frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            if sender.send(Piece::Frame(frame)).await.is_err() {
                return;
            }
            sent += 1;
            if length > LARGE && asks.wait_for(|asked| *asked > sent).await.is_err() {
                return;
            }
            // A piece may take as long as a large object takes to decode.
            tokio::task::yield_now().await;
        }
        // An error means that the client has gone.
        let _ = sender.send(Piece::End).await;
    });
    Body::new(DrivenBody { pieces, asked, received: 0, ended: false, _task: AbortOnDropHandle::new(task) })
}

impl http_body::Body for DrivenBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = self.received + 1;
        self.asked.send_if_modified(|asked| std::mem::replace(asked, next) != next);
        self.pieces.poll_recv(context).map(|piece| match piece {
            Some(Piece::Frame(frame)) => {
                self.received = next;
                Some(frame)
            }
            Some(Piece::End) => {
                self.ended = true;
                None
            }
            None => {
                self.ended = true;
                Some(Err(axum::Error::new(std::io::Error::other("the response could not be completed"))))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::{StreamExt as _, stream};

    use super::*;

    #[tokio::test]
    async fn driven_body_has_the_same_bytes() {
        let pieces = (0..10).map(|n| Ok::<_, std::convert::Infallible>(Bytes::from(n.to_string())));
        let body = drive(&Handle::current(), Body::from_stream(stream::iter(pieces)));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "0123456789");
    }

    #[tokio::test]
    async fn large_pieces_are_computed_one_at_a_time() {
        let computed = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = computed.clone();
        let pieces = stream::iter(0..4).map(move |_| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok::<_, std::convert::Infallible>(Bytes::from(vec![0; LARGE + 1]))
        });
        let mut body = drive(&Handle::current(), Body::from_stream(pieces));
        for read in 0..4 {
            body.frame().await.unwrap().unwrap();
            // Longer than the task needs to compute all pieces on this thread.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(computed.load(std::sync::atomic::Ordering::SeqCst), read + 1);
        }
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn body_whose_task_panics_ends_with_an_error() {
        let pieces = stream::iter(0..2).map(|n| {
            assert!(n == 0, "a fault of the server");
            Ok::<_, std::convert::Infallible>(Bytes::from("a"))
        });
        let body = drive(&Handle::current(), Body::from_stream(pieces));
        assert!(body.collect().await.is_err());
    }
}
