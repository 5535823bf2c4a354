//! Reads documents of an issuer over HTTPS. Redirects are not followed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::https;

/// Time limit of a document.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a document, bytes.
const MAX_BYTES: usize = 1 << 20;

/// Reads a document.
///
/// # Errors
/// A message for the log.
pub(super) async fn get(url: &str, tls: Arc<ClientConfig>) -> Result<Bytes, String> {
    let read = timeout(TIMEOUT, read(url, tls)).await;
    read.unwrap_or_else(|_| Err("no response within 30s".to_owned()))
        .map_err(|error| format!("{url}: {error}"))
}

async fn read(url: &str, tls: Arc<ClientConfig>) -> Result<Bytes, String> {
    let uri: Uri = url.parse().map_err(|_| "it is not a URL".to_owned())?;
    if uri.scheme_str() != Some("https") {
        return Err("its scheme must be https".to_owned());
    }
    let authority = uri.authority().ok_or("it has no host")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let stream = https::connect(&host, authority.port_u16().unwrap_or(443)).await?;
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(tls).connect(name, stream).await;
    let stream = stream.map_err(|error| https::handshake_error(&error))?;
    let words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    // The task ends after the response: `sender` is dropped then.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("the connection to an issuer failed: {error}");
        }
    });
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority.as_str())
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "orlop")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(words)?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("the issuer responds with {status}"));
    }
    let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
    Ok(body.map_err(|error| error.to_string())?.to_bytes())
}

/// The URL of the keys in the configuration of an issuer.
///
/// # Errors
/// The document is that of another issuer, or has no such URL.
pub(super) fn keys_url(configuration: &[u8], issuer: &str) -> Result<String, String> {
    let configuration: Value = serde_json::from_slice(configuration).map_err(|error| error.to_string())?;
    let named = configuration["issuer"].as_str().unwrap_or_default();
    if named != issuer {
        return Err(format!(
            "oidc: issuer did not match the issuer returned by provider, expected {issuer:?} got {named:?}"
        ));
    }
    let url = configuration["jwks_uri"].as_str().unwrap_or_default();
    if url.is_empty() { Err("the configuration has no jwks_uri".to_owned()) } else { Ok(url.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_must_be_of_the_issuer() {
        let issuer = "https://i";
        for (document, want) in [
            (r#"{"issuer": "https://i", "jwks_uri": "https://i/keys"}"#, Ok("https://i/keys")),
            (r#"{"issuer": "https://j", "jwks_uri": "https://i/keys"}"#, Err("did not match")),
            (r#"{"issuer": "https://i"}"#, Err("no jwks_uri")),
            ("[", Err("EOF")),
        ] {
            let found = keys_url(document.as_bytes(), issuer);
            match (found, want) {
                (Ok(found), Ok(want)) => assert_eq!(found, want),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (found, _) => panic!("{document}: {found:?}"),
            }
        }
    }

    #[tokio::test]
    async fn only_https_is_read() {
        let tls = https::client_config(&[]).expect("a configuration");
        for url in ["http://127.0.0.1:1/", "/path", "https://", "https://127.0.0.1:1/"] {
            let error = get(url, tls.clone()).await.expect_err(url);
            assert!(error.starts_with(url), "{error}");
        }
    }
}
