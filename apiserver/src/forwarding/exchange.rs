//! One request to another server, over a connection of its own.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// Maximum number of 1xx responses before a response. Without a limit, a server could send them for ever.
const INFORMATIONAL_MAX: usize = 100;

/// Sends a request over a connection, and returns the response, which may be an upgraded connection.
///
/// # Errors
/// Why there is no response, as Go describes it.
pub(crate) async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut request: Request<Body>,
) -> Result<Response<Incoming>, String> {
    let words = |error: hyper::Error| error.to_string();
    let flooded = CancellationToken::new();
    let (count, flood) = (AtomicUsize::new(0), flooded.clone());
    hyper::ext::on_informational(&mut request, move |_| {
        if count.fetch_add(1, Ordering::Relaxed) >= INFORMATIONAL_MAX {
            flood.cancel();
        }
    });
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    // The task ends with the response, because the sender is dropped.
    tokio::spawn({
        let flooded = flooded.clone();
        async move {
            tokio::select! {
                ended = connection.with_upgrades() => {
                    if let Err(error) = ended {
                        tracing::debug!("the connection to a server broke: {error}");
                    }
                }
                () = flooded.cancelled_owned() => {}
            }
        }
    });
    tokio::select! {
        response = sender.send_request(request) => response.map_err(words),
        () = flooded.cancelled() => Err("net/http: too many 1xx informational responses".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A server that sends this many 1xx responses before the response. Returns the result, and whether the server could send all.
    async fn answered(count: usize) -> (Result<u16, String>, bool) {
        let (client, mut server) = tokio::io::duplex(1 << 10);
        let sending = tokio::spawn(async move {
            let mut head = [0; 1 << 10];
            let _ = server.read(&mut head).await.expect("a request");
            for _ in 0..count {
                server.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await?;
            }
            server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
            // The connection ends with the response.
            assert_eq!(server.read(&mut head).await.unwrap_or_default(), 0);
            Ok::<(), std::io::Error>(())
        });
        let request = Request::get("/").body(Body::empty()).expect("a request");
        let response = over(client, request).await.map(|response| response.status().as_u16());
        let sent = tokio::time::timeout(std::time::Duration::from_secs(30), sending).await;
        (response, sent.expect("the connection ends").expect("no panic").is_ok())
    }

    #[tokio::test]
    async fn flood_of_informational_responses_ends_the_connection() {
        for (count, is_passed) in [(0, true), (INFORMATIONAL_MAX, true), (1_000_000, false)] {
            let (response, sent_all) = answered(count).await;
            assert_eq!((response.is_ok(), sent_all), (is_passed, is_passed), "{count}: {response:?}");
        }
    }
}
