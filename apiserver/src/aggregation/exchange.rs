//! One request to an aggregated API server.

use axum::body::Body;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::{Aggregation, RemoteService};
use crate::forwarding::exchange::over;
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
    over(stream, request).await
}
