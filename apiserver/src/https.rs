//! Connections to HTTPS servers: webhooks of admission, and OpenID Connect issuers.

use std::sync::{Arc, LazyLock};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;

/// The certificates of the system, for servers without their own.
const SYSTEM_CERTIFICATES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Connects, with the errors of Go.
pub(crate) async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
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

/// The TLS configuration for a server with a certificate of these authorities (PEM); without any, of those of the system.
///
/// # Errors
/// The text contains no certificate of an authority.
pub(crate) fn client_config(ca_bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    /// Read at the first use.
    static SYSTEM: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
        let found = SYSTEM_CERTIFICATES.iter().find_map(|path| std::fs::read(path).ok());
        Arc::new(roots(&found.unwrap_or_default()))
    });
    let roots = if ca_bundle.is_empty() { SYSTEM.clone() } else { Arc::new(roots(ca_bundle)) };
    if roots.is_empty() && !ca_bundle.is_empty() {
        return Err("unable to load root certificates: no valid certificate authority data seen".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn roots(pem: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    roots
}

/// Checks that a text in PEM contains only usable certificates of authorities, and at least one.
///
/// # Errors
/// It does not.
pub fn check_authorities(pem: &[u8]) -> Result<(), String> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        count += 1;
        let certificate = certificate.map_err(|_| format!("certificate {count} is damaged"))?;
        let added = RootCertStore::empty().add(certificate);
        added.map_err(|_| {
            format!("certificate {count} is damaged: its content is not an X.509 certificate")
        })?;
    }
    if count == 0 { Err("it contains no certificate".to_owned()) } else { Ok(()) }
}

/// The error of a handshake, with Go's text where clients depend on it.
pub(crate) fn handshake_error(error: &std::io::Error) -> String {
    let shown = error.to_string();
    if shown.contains("UnknownIssuer") {
        let why = "x509: certificate signed by unknown authority";
        return format!("tls: failed to verify certificate: {why}");
    }
    format!("tls: {shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_authorities_are_reported() {
        let junk = "-----BEGIN CERTIFICATE-----\nAQ==\n-----END CERTIFICATE-----\n";
        let good = include_str!("peer_certificates/testdata/good.pem");
        for (case, text, is_usable, configures) in [
            ("1 a certificate", good.to_owned(), true, true),
            ("2 no certificate", "x".to_owned(), false, false),
            ("3 junk", junk.to_owned(), false, false),
            ("4 junk after a certificate", format!("{good}{junk}"), false, true),
        ] {
            assert_eq!(check_authorities(text.as_bytes()).is_ok(), is_usable, "{case}");
            assert_eq!(client_config(text.as_bytes()).is_ok(), configures, "{case}");
        }
    }
}
