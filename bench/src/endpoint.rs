//! The address, TLS settings and credentials of a server.

use std::path::Path;
use std::sync::Arc;

use http::Uri;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::BenchError;
use crate::stream::Stream;

/// A server to measure.
pub(crate) struct Endpoint {
    /// The URL from the command line, for messages.
    pub(crate) url: String,
    host: String,
    port: u16,
    /// The prefix of every path, without a trailing slash.
    base: String,
    /// The headers of every request, ready to send.
    headers: Vec<u8>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// The flags that describe a server, for messages.
pub(crate) struct Flags {
    pub(crate) url: &'static str,
    pub(crate) token_file: &'static str,
    pub(crate) certificate_authority: &'static str,
}

/// The flags of `--server`.
pub(crate) const SERVER: Flags =
    Flags { url: "--server", token_file: "--token-file", certificate_authority: "--certificate-authority" };

/// The flags of `--against`.
pub(crate) const AGAINST: Flags = Flags {
    url: "--against",
    token_file: "--against-token-file",
    certificate_authority: "--against-certificate-authority",
};

impl Endpoint {
    /// Checks the flags without connecting.
    pub(crate) fn new(
        url: &str,
        token_file: Option<&Path>,
        authority: Option<&Path>,
        flags: &Flags,
    ) -> Result<Self, BenchError> {
        let wrong = |problem: &str| BenchError::Flag {
            flag: flags.url,
            value: url.to_owned(),
            problem: problem.to_owned(),
        };
        let uri: Uri = url.parse().map_err(|_| wrong("is not a URL such as http://127.0.0.1:8080"))?;
        let host = uri.host().ok_or_else(|| wrong("names no host; a URL is like http://127.0.0.1:8080"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let (secure, default_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            Some(_) | None => return Err(wrong("must begin with http:// or https://")),
        };
        let tls = match (secure, authority) {
            (false, None) => None,
            (false, Some(_)) => {
                return Err(wrong(&format!("is not https://, so omit {}", flags.certificate_authority)));
            }
            (true, Some(path)) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| wrong("has no name for TLS"))?;
                Some((connector(path, flags.certificate_authority)?, name))
            }
            (true, None) => {
                return Err(wrong(&format!(
                    "needs {} FILE with the authority of its certificate; or use the URL of a `kubectl proxy`",
                    flags.certificate_authority
                )));
            }
        };
        let token = token_file.map(|path| token(path, flags.token_file)).transpose()?;
        let mut headers = format!(
            "Host: {}\r\nAccept: application/json\r\nUser-Agent: orlop-bench/{}\r\n",
            uri.authority().map_or("", |authority| authority.as_str()),
            env!("CARGO_PKG_VERSION")
        );
        if let Some(token) = token {
            headers.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        Ok(Endpoint {
            url: url.trim_end_matches('/').to_owned(),
            port: uri.port_u16().unwrap_or(default_port),
            host,
            base: uri.path().trim_end_matches('/').to_owned(),
            headers: headers.into_bytes(),
            tls,
        })
    }

    /// Opens a new connection.
    pub(crate) async fn connect(&self) -> Result<Stream, BenchError> {
        let failed =
            |error: std::io::Error| BenchError::Connect { url: self.url.clone(), problem: error.to_string() };
        let socket = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        match &self.tls {
            None => Ok(Stream::Plain(socket)),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), socket).await.map_err(failed)?;
                Ok(Stream::Tls(Box::new(stream)))
            }
        }
    }

    /// Writes a request's head into `out`.
    pub(crate) fn head(&self, out: &mut Vec<u8>, method: &str, path: &str, content: Option<(&str, usize)>) {
        for piece in [method, " ", &self.base, path, " HTTP/1.1\r\n"] {
            out.extend_from_slice(piece.as_bytes());
        }
        out.extend_from_slice(&self.headers);
        if let Some((kind, length)) = content {
            out.extend_from_slice(format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn connector(path: &Path, flag: &'static str) -> Result<TlsConnector, BenchError> {
    let wrong = |problem: String| BenchError::Flag { flag, value: path.display().to_string(), problem };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let mut roots = RootCertStore::empty();
    for certificate in certificates.map_err(|error| wrong(error.to_string()))? {
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("contains no certificate".to_owned()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // No ALPN protocol is offered, so the server speaks HTTP/1.1.
    Ok(TlsConnector::from(Arc::new(config)))
}

fn token(path: &Path, flag: &'static str) -> Result<String, BenchError> {
    let wrong = |problem: String| BenchError::Flag { flag, value: path.display().to_string(), problem };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    match text.trim() {
        "" => Err(wrong("is empty".to_owned())),
        token if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(token.to_owned()),
        _ => Err(wrong("contains more than one token".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn server_urls_are_checked() {
        type Case<'a> = (&'a str, Result<(&'a str, u16, &'a str), &'a str>);
        let cases: [Case<'_>; 8] = [
            ("http://127.0.0.1:8080", Ok(("127.0.0.1", 8080, ""))),
            ("http://[::1]:8080/", Ok(("::1", 8080, ""))),
            ("http://localhost/k8s/clusters/a/", Ok(("localhost", 80, "/k8s/clusters/a"))),
            ("https://127.0.0.1:6443", Err("--certificate-authority FILE")),
            ("ftp://127.0.0.1", Err("http://")),
            ("127.0.0.1:8080", Err("http://")),
            ("/only/a/path", Err("names no host")),
            ("http://a b", Err("is not a URL")),
        ];
        for (url, want) in cases {
            match (Endpoint::new(url, None, None, &SERVER), want) {
                (Ok(got), Ok(want)) => {
                    assert_eq!((got.host.as_str(), got.port, got.base.as_str()), want, "{url}")
                }
                (Err(got), Err(part)) => assert!(got.to_string().contains(part), "{url}: {got}"),
                (got, want) => panic!("{url}: {:?}, want {want:?}", got.map(|endpoint| endpoint.url)),
            }
        }
    }

    #[test]
    fn request_head_has_credentials() {
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), "secret\n").unwrap();
        let endpoint = Endpoint::new("http://h:1/base", Some(token.path()), None, &SERVER).unwrap();
        let mut out = Vec::new();
        endpoint.head(&mut out, "POST", "/api", Some(("application/json", 2)));
        let version = env!("CARGO_PKG_VERSION");
        let want = format!(
            "POST /base/api HTTP/1.1\r\nHost: h:1\r\nAccept: application/json\r\nUser-Agent: orlop-bench/{version}\r\n\
             Authorization: Bearer secret\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn token_files_without_a_token_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, part) in [("", "is empty"), ("a\nb\n", "more than one")] {
            std::fs::write(file.path(), text).unwrap();
            let error =
                Endpoint::new("http://h", Some(file.path()), None, &AGAINST).err().unwrap().to_string();
            assert!(error.contains(part) && error.contains("--against-token-file"), "{error}");
        }
    }
}
