//! Snapshot endpoint `/orlop/snapshot`: all objects of one revision in one file, streamed from an immutable
//! snapshot, so that no writer waits. The file format is that of `orlop_store::archive`.
//!
//! Snapshots contain no credentials of the cluster itself: the keys of service account tokens are not in the store, and bootstrap
//! tokens are omitted.

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

/// The prefixes of the keys that no snapshot contains, and that a restore omits: bootstrap tokens, and the signing keys that earlier
/// versions stored.
pub const OMITTED_FROM_SNAPSHOTS: [&str; 2] =
    ["/registry/orlop.serviceaccountkeys/", "/registry/secrets/kube-system/bootstrap-token-"];

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
        let written = archive::write(&mut out, server.store.id(), time_ms, &picture, &OMITTED_FROM_SNAPSHOTS)
            .and_then(|_| out.flush());
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
    use orlop_auth::UserInfo;
    use orlop_store::{Kv, Memory};
    use tower::ServiceExt as _;

    use super::*;
    use crate::authentication::in_process;
    use crate::{ApiService, Config, Projection, Server};

    /// A service whose requests are those of an administrator.
    fn admin(server: &Server) -> ApiService {
        in_process(server.service(), UserInfo::admin())
    }

    async fn post(server: &Server, path: &str, body: &serde_json::Value) {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        assert_eq!(admin(server).oneshot(request).await.unwrap().status(), 201, "{path}");
    }

    #[tokio::test]
    async fn snapshot_contains_no_credentials_of_the_cluster() {
        let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(Memory::<Projection>::new()));
        let key_file = crate::service_account::key_file::key_file(dir.path());
        let config = Config { service_account_key_file: Some(key_file.clone()), ..Config::default() };
        let server = Server::start(store.clone(), config).await.unwrap();
        for name in ["bootstrap-token-abcdef", "other"] {
            let body = serde_json::json!({"metadata": {"name": name}, "data": {"k": "bWFya2Vy"}});
            post(&server, "/api/v1/namespaces/kube-system/secrets", &body).await;
        }
        let request = Request::get("/orlop/snapshot").body(Body::empty()).unwrap();
        let response = admin(&server).oneshot(request).await.unwrap();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let file = dir.path().join("file");
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(archive::check(&file).unwrap().topics.get("/registry/secrets/"), Some(&1));
        let (restored, options) = (dir.path().join("restored"), orlop_store::Options::default());
        archive::restore(&file, &restored, 0, &[], &options).unwrap();
        let restored = orlop_store::Embedded::<()>::open(restored, options).unwrap();
        let head = restored.head();
        let contains = |what: &str| {
            let text = |record: &orlop_store::Record<()>| String::from_utf8_lossy(&record.value).into_owned();
            head.range("", None)
                .any(|record| record.key.as_str().contains(what) || text(record).contains(what))
        };
        assert!(contains("/registry/secrets/kube-system/other") && !contains("bootstrap-token"));
        let keys: serde_json::Value = serde_json::from_slice(&std::fs::read(&key_file).unwrap()).unwrap();
        assert!(!contains(keys["signing"]["pkcs8"].as_str().unwrap()) && !contains("pkcs8"));
    }

    #[tokio::test]
    async fn snapshot_is_a_complete_archive() {
        let store = Arc::new(Memory::<Projection>::new());
        let server = Server::start(store.clone(), Config::default()).await.unwrap();
        let request = Request::get("/orlop/snapshot").header("accept-encoding", "gzip").body(Body::empty());
        let response = admin(&server).oneshot(request.unwrap()).await.unwrap();
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
        let response = admin(&server).oneshot(request).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["retry-after"].as_bytes()),
            (429, &b"5"[..])
        );
    }
}
