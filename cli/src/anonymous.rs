//! The response of a server to a client without credentials.

use std::error::Error;
use std::io;

use http::{Request, StatusCode};
use kube::client::Body;
use orlop_client::client::{self, Endpoint};

/// The response of a server to a client without credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnonymousResponse {
    /// The server processes the request.
    Accepted,
    /// The server requires credentials.
    Rejected,
    /// No valid response: the port requires TLS, or belongs to a user that the client does not trust over plain HTTP.
    Invalid,
    /// No process listens on the port, or the endpoint is not valid.
    NoServer,
}

/// Sends one request.
pub async fn ask(endpoint: &Endpoint) -> AnonymousResponse {
    let Ok(client) = client::connect(endpoint.clone()).await else { return AnonymousResponse::NoServer };
    let Ok(request) = Request::get("/api").body(Body::empty()) else { return AnonymousResponse::NoServer };
    match client.send(request).await {
        Ok(response) if is_rejected(response.status()) => AnonymousResponse::Rejected,
        Ok(_) => AnonymousResponse::Accepted,
        Err(error) if is_refused(&error) => AnonymousResponse::NoServer,
        Err(_) => AnonymousResponse::Invalid,
    }
}

fn is_rejected(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Whether the machine has refused the connection.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let found = error.downcast_ref::<io::Error>();
        if found.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn endpoint(url: &str) -> Endpoint {
        Endpoint::Url { url: url.to_owned(), token: None, ca_file: None, insecure: false }
    }

    /// Sends the same bytes to each client.
    async fn server(response: Vec<u8>) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(&response).await;
            }
        });
        url
    }

    #[tokio::test]
    async fn response_depends_on_status_and_protocol() {
        let http = |status: &str| {
            format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
        };
        // A TLS alert: handshake failure.
        let alert = vec![21, 3, 3, 0, 2, 2, 40];
        for (case, response, want) in [
            ("1 200", http("200 OK"), AnonymousResponse::Accepted),
            ("2 401", http("401 Unauthorized"), AnonymousResponse::Rejected),
            ("3 403", http("403 Forbidden"), AnonymousResponse::Rejected),
            ("4 500", http("500 Internal Server Error"), AnonymousResponse::Accepted),
            ("5 TLS", alert, AnonymousResponse::Invalid),
            ("6 nothing", Vec::new(), AnonymousResponse::Invalid),
        ] {
            assert_eq!(ask(&endpoint(&server(response).await)).await, want, "{case}");
        }
        // A free port: it was bound and released immediately.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for url in [format!("http://127.0.0.1:{port}"), "nonsense".to_owned()] {
            assert_eq!(ask(&endpoint(&url)).await, AnonymousResponse::NoServer, "{url}");
        }
    }
}
