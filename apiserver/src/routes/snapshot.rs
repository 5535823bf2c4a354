//! Snapshot endpoint `/orlop/snapshot`: all objects of one revision in one file, streamed from an immutable
//! snapshot, so that no writer waits. The file format is that of `orlop_store::archive`.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, header};
use orlop_store::archive;
use tokio::sync::{Semaphore, mpsc};

use crate::encode::answer;
use crate::state::Inner;
use orlop_api::status::ApiError;

/// Maximum number of concurrent snapshots: each holds a thread and a snapshot of all objects.
const AT_ONCE: usize = 2;
static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);
/// Size of a chunk in bytes, and number of chunks that wait for a slow client.
const PART: usize = 256 << 10;
const PARTS: usize = 4;

pub(super) async fn snapshot(State(server): State<Arc<Inner>>, headers: HeaderMap) -> Response {
    let Ok(place) = PLACES.try_acquire() else {
        let error = ApiError::too_many_requests("other snapshots are being made, please try again later", 5);
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        return answer::error(&error, crate::encode::negotiate::error_media(accept), false);
    };
    let picture = server.store.head();
    let name = format!("attachment; filename=\"orlop-{}.snapshot\"", picture.revision());
    let time_ms = (server.config.clock)().as_millisecond();
    let (sender, mut receiver) = mpsc::channel::<io::Result<Bytes>>(PARTS);
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let mut out = BufWriter::with_capacity(PART, Parts(sender.clone()));
        let written =
            archive::write(&mut out, server.store.id(), time_ms, &picture).and_then(|_| out.flush());
        if let Err(error) = written {
            tracing::debug!(%error, "a snapshot was not taken to its end");
            // The client notices the broken stream, unless it has disconnected itself.
            let _ = sender.blocking_send(Err(error));
        }
    });
    let parts = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, name),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, Body::from_stream(parts)).into_response()
}

/// Sends the written bytes, and blocks while the client is slower.
struct Parts(mpsc::Sender<io::Result<Bytes>>);

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::Request;
    use http_body_util::BodyExt as _;
    use orlop_store::{Kv, Memory};
    use tower::ServiceExt as _;

    use super::*;
    use crate::{Config, Projection, Server};

    #[tokio::test]
    async fn snapshot_is_a_complete_archive() {
        let store = Arc::new(Memory::<Projection>::new());
        let server = Server::start(store.clone(), Config::default()).await.unwrap();
        let request = Request::get("/orlop/snapshot").header("accept-encoding", "gzip").body(Body::empty());
        let response = server.router().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key(header::CONTENT_ENCODING));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let summary = archive::check(file.path()).unwrap();
        assert_eq!(summary.header.revision, store.head().revision());
        assert_eq!(summary.topics.get("/registry/namespaces/"), Some(&4));

        // The number of concurrent snapshots is limited.
        let _all = PLACES.acquire_many(AT_ONCE as u32).await.unwrap();
        let request = Request::get("/orlop/snapshot").body(Body::empty()).unwrap();
        let response = server.router().oneshot(request).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["retry-after"].as_bytes()),
            (429, &b"5"[..])
        );
    }
}
