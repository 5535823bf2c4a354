//! Connections to HTTPS servers: webhooks of admission, OpenID Connect issuers, and aggregated API servers.

use std::fmt::Display;
use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme, WantsVerifier,
};
use tokio::net::TcpStream;

use crate::certificate_path;

/// The certificates of the system, for servers without their own.
const SYSTEM_CERTIFICATES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// A host and a port in the form of a URL.
pub(crate) fn host_port(host: &str, port: impl Display) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Connects, with the errors of Go.
pub(crate) async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    use std::io::ErrorKind;
    let shown = host_port(host, port);
    TcpStream::connect((host, port)).await.map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => format!("dial tcp {shown}: connect: connection refused"),
        ErrorKind::HostUnreachable => format!("dial tcp {shown}: connect: no route to host"),
        ErrorKind::NetworkUnreachable => format!("dial tcp {shown}: connect: network is unreachable"),
        ErrorKind::TimedOut => format!("dial tcp {shown}: i/o timeout"),
        _ if host.parse::<std::net::IpAddr>().is_err() => format!("dial tcp: lookup {host}: no such host"),
        _ => format!("dial tcp {shown}: {error}"),
    })
}

/// A certificate of this server for connections to others, if it has one.
pub(crate) type OwnCertificate = Option<Arc<dyn ResolvesClientCert>>;

/// The TLS configuration for a server with a certificate of these authorities (PEM); without any, of those of the system.
///
/// # Errors
/// The text contains no certificate of an authority.
pub(crate) fn client_config(ca_bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    config_with(ca_bundle, None)
}

/// Like [`client_config`], with a certificate of this server.
pub(crate) fn config_with(ca_bundle: &[u8], own: OwnCertificate) -> Result<Arc<ClientConfig>, String> {
    /// Read at the first use.
    static SYSTEM: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
        let found = SYSTEM_CERTIFICATES.iter().find_map(|path| std::fs::read(path).ok());
        Arc::new(roots(&found.unwrap_or_default()))
    });
    let trusted: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(ca_bundle).filter_map(Result::ok).collect();
    let roots = if ca_bundle.is_empty() { SYSTEM.clone() } else { Arc::new(roots(ca_bundle)) };
    if roots.is_empty() && !ca_bundle.is_empty() {
        return Err("unable to load root certificates: no valid certificate authority data seen".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    if roots.is_empty() {
        // No certificate is accepted.
        let config = builder(provider)?.with_root_certificates(roots);
        return Ok(Arc::new(config.with_no_client_auth()));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
    let verifier = ServerVerifier { verifier: verifier.map_err(|error| error.to_string())?, trusted };
    finished(builder(provider)?, Arc::new(verifier), own)
}

/// The TLS configuration for a server with any certificate.
///
/// # Errors
/// The library supports no version of the protocol.
pub(crate) fn unverified_config(own: OwnCertificate) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    finished(builder(provider.clone())?, Arc::new(AnyServer(provider)), own)
}

fn builder(provider: Arc<CryptoProvider>) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())
}

fn finished(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    verifier: Arc<dyn ServerCertVerifier>,
    own: OwnCertificate,
) -> Result<Arc<ClientConfig>, String> {
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    Ok(Arc::new(match own {
        Some(own) => builder.with_client_cert_resolver(own),
        None => builder.with_no_client_auth(),
    }))
}

/// Accepts any certificate whose key the server has.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies certificates as rustls does, after a selection of those that may be part of a path: webhooks and issuers choose the chains
/// that they send.
#[derive(Debug)]
struct ServerVerifier {
    verifier: Arc<WebPkiServerVerifier>,
    /// The given certificates. One of them can be that of the server itself.
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerVerifier {
    /// Whether a certificate of a server was refused only because it is that of an authority, and it is one of the given certificates:
    /// `openssl req -x509` makes such certificates by default, and Go accepts them. At this point, the library has verified that the
    /// certificate is valid now. It has not compared its extended key usage; a caBundle with exactly this certificate trusts the server with it.
    fn is_trusted_itself(&self, leaf: &CertificateDer<'_>, error: &Error) -> bool {
        let Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error else {
            return false;
        };
        matches!(cause.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) && self.trusted.contains(leaf)
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let path: Vec<CertificateDer<'_>> =
            certificate_path::intermediates(leaf, intermediates).into_iter().cloned().collect();
        match self.verifier.verify_server_cert(leaf, &path, name, ocsp, now) {
            Err(error) if self.is_trusted_itself(leaf, &error) => {
                verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
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
    // Without the times, so that the text of a condition is the same at each attempt.
    if ["certificate expired", "certificate not valid yet"].iter().any(|text| shown.contains(text)) {
        let why = "x509: certificate has expired or is not yet valid";
        return format!("tls: failed to verify certificate: {why}");
    }
    format!("tls: {shown}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn errors_of_certificates_have_no_times() {
        use rustls::CertificateError::{ExpiredContext, NotValidYetContext, UnknownIssuer};
        use rustls::pki_types::UnixTime;
        let time = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let (early, late) = (time(1_000), time(2_000));
        let invalid = "x509: certificate has expired or is not yet valid";
        for (error, want) in [
            (UnknownIssuer, "x509: certificate signed by unknown authority"),
            (ExpiredContext { time: late, not_after: early }, invalid),
            (NotValidYetContext { time: early, not_before: late }, invalid),
        ] {
            let error = std::io::Error::other(rustls::Error::InvalidCertificate(error));
            assert_eq!(handshake_error(&error), format!("tls: failed to verify certificate: {want}"));
        }
    }

    /// The file has an authority, a certificate of a server, and three with the name of its issuer, of which the last one is the issuer.
    #[test]
    fn certificates_of_servers_are_limited() {
        let text = include_bytes!("peer_certificates/testdata/server_same_subject.pem");
        let all = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().expect("PEM");
        let [authority, leaf, first, second, issuer] = all.as_slice() else { panic!("five certificates") };
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = ServerVerifier { verifier: verifier.expect("a verifier"), trusted: Vec::new() };
        let name = ServerName::try_from("server.test").expect("a name");
        // 2026-07-02.
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_783_000_000));
        for (case, others, is_valid) in [
            ("1 the issuer", vec![issuer], true),
            ("2 another one of its name", vec![first, issuer], true),
            ("3 too many of its name", vec![first, second, issuer], false),
            ("4 without the issuer", vec![first, second], false),
        ] {
            let others: Vec<_> = others.into_iter().cloned().collect();
            let verified = verifier.verify_server_cert(leaf, &others, &name, &[], now);
            assert_eq!(verified.is_ok(), is_valid, "{case}: {verified:?}");
        }
    }

    /// The certificate is its own issuer, and one of an authority.
    #[test]
    fn server_may_have_the_given_certificate() {
        let read = |text: &[u8]| CertificateDer::from_pem_slice(text).expect("PEM");
        let own = read(include_bytes!("peer_certificates/testdata/server_self_signed_authority.pem"));
        let other = read(include_bytes!("peer_certificates/testdata/good.pem"));
        let (now, past) = (1_800_000_000, 1_000_000_000);
        for (case, trusted, name, time, is_valid) in [
            ("1 the given certificate", &own, "server.test", now, true),
            ("2 another name", &own, "other.test", now, false),
            ("3 before its time", &own, "server.test", past, false),
            ("4 another authority", &other, "server.test", now, false),
        ] {
            let mut roots = RootCertStore::empty();
            roots.add(trusted.clone()).expect("an authority");
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
            let verifier =
                ServerVerifier { verifier: verifier.expect("a verifier"), trusted: vec![trusted.clone()] };
            let name = ServerName::try_from(name).expect("a name");
            let time = UnixTime::since_unix_epoch(Duration::from_secs(time));
            let verified = verifier.verify_server_cert(&own, &[], &name, &[], time);
            assert_eq!(verified.is_ok(), is_valid, "{case}: {verified:?}");
        }
    }

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
