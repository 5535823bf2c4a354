//! Sends reviews to webhooks. The time, the bytes of an answer and the number of calls at the same time are bounded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

/// Maximum number of calls at the same time.
const CONCURRENT: usize = 128;
/// Maximum size of an answer, bytes.
const LONGEST_ANSWER: usize = 3 << 20;
/// The certificates of the system, for webhooks without their own.
const SYSTEM_CERTIFICATES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host and port of the URL, as in its text.
    pub(crate) authority: String,
    /// The path, with a leading slash if there is one.
    pub(crate) path: String,
    /// The name in the certificate.
    pub(crate) server_name: String,
    /// Host and port to connect to.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Target {
    /// The target of an `https` URL.
    ///
    /// # Errors
    /// Why the URL is none.
    pub(crate) fn of_url(url: &str) -> Result<Self, String> {
        let uri: http::Uri = url.parse().map_err(|error| format!("Unparsable URL: {error}"))?;
        let authority = uri.authority().ok_or("Unparsable URL: it has no host")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Target {
            authority: authority.as_str().to_owned(),
            path: if uri.path() == "/" && !url.ends_with('/') {
                String::new()
            } else {
                uri.path().to_owned()
            },
            server_name: host.clone(),
            host,
            port: authority.port_u16().unwrap_or(443),
        })
    }
}

/// The client of all webhooks.
pub(crate) struct WebhookClient {
    permits: Semaphore,
}

impl Default for WebhookClient {
    fn default() -> Self {
        WebhookClient { permits: Semaphore::new(CONCURRENT) }
    }
}

impl WebhookClient {
    /// Sends a document and returns the answer.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn post(
        &self,
        target: Result<Target, (String, String)>,
        ca_bundle: &[u8],
        seconds: u64,
        document: &Value,
    ) -> Result<Value, String> {
        let url = |authority: &str| format!("Post \"https://{authority}?timeout={seconds}s\"");
        let target = target.map_err(|(authority, why)| format!("{}: {why}", url(&authority)))?;
        let shown = url(&format!("{}{}", target.authority, target.path));
        let work = async {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await.map_err(|error| error.to_string())?;
            send(&target, ca_bundle, seconds, document).await
        };
        let (status, body) = match tokio::time::timeout(Duration::from_secs(seconds), work).await {
            Ok(result) => result.map_err(|why| format!("{shown}: {why}"))?,
            Err(_) => return Err(format!("{shown}: context deadline exceeded")),
        };
        if !status.is_success() {
            return Err(status_error(status, &body));
        }
        serde_json::from_slice(&body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
    }
}

async fn send(
    target: &Target,
    ca_bundle: &[u8],
    seconds: u64,
    document: &Value,
) -> Result<(StatusCode, Bytes), String> {
    let stream = connect(&target.host, target.port).await?;
    let name = ServerName::try_from(target.server_name.clone()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(config(ca_bundle)?);
    let stream = connector.connect(name, stream).await.map_err(|error| tls_error(&error))?;
    let words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    // The task ends with the answer, because the sender is dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("the connection to a webhook broke: {error}");
        }
    });
    let body = serde_json::to_vec(document).map_err(|error| error.to_string())?;
    let path = if target.path.is_empty() { "/" } else { &target.path };
    let request = Request::post(format!("{path}?timeout={seconds}s"))
        .header(header::HOST, &target.authority)
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(words)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
    let body = body.map_err(|error| error.to_string())?;
    Ok((status, body.to_bytes()))
}

/// Connects, with the errors of Go.
async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    use std::io::ErrorKind;
    let shown = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    TcpStream::connect((host, port)).await.map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => format!("dial tcp {shown}: connect: connection refused"),
        ErrorKind::HostUnreachable => format!("dial tcp {shown}: connect: no route to host"),
        ErrorKind::NetworkUnreachable => format!("dial tcp {shown}: connect: network is unreachable"),
        ErrorKind::TimedOut => format!("dial tcp {shown}: i/o timeout"),
        _ if host.parse::<std::net::IpAddr>().is_err() => format!("dial tcp: lookup {host}: no such host"),
        _ => format!("dial tcp {shown}: {error}"),
    })
}

fn config(ca_bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let system;
    let pem = if ca_bundle.is_empty() {
        let found = SYSTEM_CERTIFICATES.iter().find_map(|path| std::fs::read(path).ok());
        system = found.unwrap_or_default();
        &system
    } else {
        ca_bundle
    };
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The error of a handshake, in Go's words where clients know them.
fn tls_error(error: &std::io::Error) -> String {
    let shown = error.to_string();
    if shown.contains("UnknownIssuer") {
        let why = "x509: certificate signed by unknown authority";
        return format!("tls: failed to verify certificate: {why}");
    }
    format!("tls: {shown}")
}

/// The error for an answer without success, as client-go describes it.
fn status_error(status: StatusCode, body: &[u8]) -> String {
    let status_message = || -> Option<String> {
        let body: Value = serde_json::from_slice(body).ok()?;
        (body["kind"] == "Status").then(|| body["message"].as_str().map(str::to_owned))?
    };
    if let Some(message) = status_message() {
        return message;
    }
    match status.as_u16() {
        404 => "the server could not find the requested resource".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => "unknown".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        500.. => {
            let shown: String = String::from_utf8_lossy(body).trim().chars().take(2048).collect();
            format!("an error on the server ({shown:?}) has prevented the request from succeeding")
        }
        code => {
            format!("the server responded with the status code {code} but did not return more information")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_host_port_and_path() {
        for (url, want) in [
            ("https://127.0.0.1:1/hook", ("127.0.0.1:1", "/hook", "127.0.0.1", 1)),
            ("https://example.com", ("example.com", "", "example.com", 443)),
            ("https://[::1]:8443/", ("[::1]:8443", "/", "::1", 8443)),
        ] {
            let target = Target::of_url(url).expect("a URL");
            let got = (target.authority.as_str(), target.path.as_str(), target.host.as_str(), target.port);
            assert_eq!(got, want, "{url}");
        }
        assert!(Target::of_url("/path").is_err());
    }

    #[tokio::test]
    async fn refused_connections_are_described_as_go_does() {
        let target = Target::of_url("https://127.0.0.1:1/hook").expect("a URL");
        let error =
            WebhookClient::default().post(Ok(target), b"", 5, &Value::Null).await.expect_err("refused");
        assert_eq!(
            error,
            "Post \"https://127.0.0.1:1/hook?timeout=5s\": dial tcp 127.0.0.1:1: connect: connection refused"
        );
    }
}
