//! A client certificate in memory: the client reads no kubeconfig, so no other program can replace it with one that runs commands.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::Config;
use kube::config::AuthInfo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// A client certificate and the server for which it is valid.
#[derive(Clone)]
pub struct ClientCertificate {
    /// Scheme, host and port of the server.
    pub url: String,
    /// The certificates of the authorities that sign the server's, in PEM.
    pub authority: String,
    /// The certificate, in PEM.
    pub certificate: String,
    /// Its private key, in PEM.
    pub key: String,
}

impl ClientCertificate {
    /// The configuration of a client for the server at this URL.
    pub(super) fn configuration(&self, url: Uri) -> Result<Config, String> {
        let mut config = Config::new(url);
        let damaged = |_| "the certificate authority of the server is damaged".to_owned();
        let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.authority.as_bytes()).collect();
        // Only these count, and not those of the system.
        config.root_cert = Some(roots.map_err(damaged)?.into_iter().map(|root| root.to_vec()).collect());
        config.auth_info = AuthInfo {
            client_certificate_data: Some(STANDARD.encode(&self.certificate)),
            client_key_data: Some(STANDARD.encode(&self.key).into()),
            ..AuthInfo::default()
        };
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use secrecy::ExposeSecret as _;

    use super::*;

    fn configuration(authority: &str) -> Result<Config, String> {
        let url = "https://127.0.0.1:8080";
        let [url_text, authority, certificate, key] = [url, authority, "c", "k"].map(str::to_owned);
        let certificate = ClientCertificate { url: url_text, authority, certificate, key };
        certificate.configuration(url.parse().unwrap())
    }

    #[test]
    fn configuration_has_the_certificate_and_only_the_given_authority() {
        let pem = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
        let config = configuration(pem).unwrap();
        assert_eq!(config.root_cert, Some(vec![b"a".to_vec()]));
        assert_eq!(config.auth_info.client_certificate_data.as_deref(), Some("Yw=="));
        assert_eq!(config.auth_info.client_key_data.unwrap().expose_secret(), "aw==");
        assert!(configuration(&pem.replace("YQ==", "?")).is_err());
    }
}
