//! One request to another server, on a connection of its own.

use axum::body::Body;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::{Aggregation, RemoteService};
use crate::https;

/// Sends a request whose URI has only a path and a query.
///
/// # Errors
/// Why there is no response, as Go describes it.
pub(super) async fn send(
    remote: &RemoteService,
    aggregation: &Aggregation,
    mut request: Request<Body>,
) -> Result<Response<Incoming>, String> {
    let (host, port) = remote.address.as_ref().ok_or("the server has no address")?;
    let shown = HeaderValue::try_from(https::host_port(host, port)).map_err(|error| error.to_string())?;
    request.headers_mut().insert(header::HOST, shown);
    aggregation.via.mark(request.headers_mut());
    let tls = TlsConnector::from(remote.tls(aggregation.identity.as_ref())?);
    let name = ServerName::try_from(remote.server_name()).map_err(|error| error.to_string())?;
    let stream = https::connect(host, *port).await?;
    let stream = tls.connect(name, stream).await.map_err(|error| https::handshake_error(&error))?;
    let words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    // The task ends with the response, because the sender is dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("the connection to an aggregated API server broke: {error}");
        }
    });
    sender.send_request(request).await.map_err(words)
}
