//! The certificates, keys and tokens of a kubeconfig: each must be readable, complete, and fit the others.

use std::path::Path;

use kube::config::{AuthInfo, Cluster, Kubeconfig};
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use secrecy::ExposeSecret as _;

use super::names::Selected;

const CERTIFICATE_BLOCK: &str = "a block that begins with -----BEGIN CERTIFICATE-----";
const KEY_BLOCK: &str = "a block that begins with -----BEGIN PRIVATE KEY-----";
/// The auth providers of the client library; upstream has removed them.
const PROVIDERS: [&str; 2] = ["gcp", "oidc"];

/// Removes empty values, which count as missing, as in upstream's clients.
pub(super) fn remove_empty(config: &mut Kubeconfig) {
    let is_empty = |value: &mut String| value.is_empty();
    for cluster in config.clusters.iter_mut().filter_map(|one| one.cluster.as_mut()) {
        cluster.certificate_authority.take_if(is_empty);
        cluster.certificate_authority_data.take_if(is_empty);
        cluster.proxy_url.take_if(is_empty);
        cluster.tls_server_name.take_if(is_empty);
    }
    for user in config.auth_infos.iter_mut().filter_map(|one| one.auth_info.as_mut()) {
        user.client_certificate.take_if(is_empty);
        user.client_certificate_data.take_if(is_empty);
        user.client_key.take_if(is_empty);
        user.client_key_data.take_if(|data| data.expose_secret().is_empty());
        user.token.take_if(|token| token.expose_secret().is_empty());
        user.token_file.take_if(is_empty);
    }
}

/// Whether the file itself contains a credential.
pub(super) fn contains_any(config: &Kubeconfig) -> bool {
    let mut users = config.auth_infos.iter().filter_map(|one| one.auth_info.as_ref());
    users.any(|user| user.token.is_some() || user.password.is_some() || user.client_key_data.is_some())
}

/// Checks the entries of a context.
///
/// # Errors
/// One of them cannot be used.
pub(super) fn check(selected: &Selected<'_>) -> Result<(), String> {
    let (name, cluster) = &selected.cluster;
    check_cluster(&format!("cluster {name}"), cluster)?;
    match &selected.user {
        Some((name, user)) => check_user(&format!("user {name}"), user),
        None => Ok(()),
    }
}

fn check_cluster(owner: &str, cluster: &Cluster) -> Result<(), String> {
    let data = cluster.certificate_authority_data.as_deref();
    let authority = content("certificate-authority", owner, data, cluster.certificate_authority.as_deref())?;
    match authority {
        Some(text) => certificates("certificate-authority", owner, &text).map(|_| ()),
        None => Ok(()),
    }
}

fn check_user(owner: &str, user: &AuthInfo) -> Result<(), String> {
    let data = user.client_certificate_data.as_deref();
    let certificate = content("client-certificate", owner, data, user.client_certificate.as_deref())?;
    let data = user.client_key_data.as_ref().map(|data| data.expose_secret());
    let key = content("client-key", owner, data, user.client_key.as_deref())?;
    match (certificate, key) {
        (None, None) => {}
        (Some(certificate), Some(key)) => check_pair(owner, &certificate, &key)?,
        (Some(_), None) => {
            return Err(format!(
                "its {owner} has a client certificate without a key: set client-key or client-key-data"
            ));
        }
        (None, Some(_)) => {
            return Err(format!(
                "its {owner} has a client key without a certificate: set client-certificate or client-certificate-data"
            ));
        }
    }
    if let Some(exec) = &user.exec
        && exec.command.as_deref().unwrap_or_default().is_empty()
    {
        return Err(format!("its {owner} has an exec plugin without a command: set exec.command"));
    }
    if let Some(provider) = &user.auth_provider
        && !PROVIDERS.contains(&provider.name.as_str())
    {
        return Err(format!("its {owner} has an auth provider that is not supported: use an exec plugin"));
    }
    Ok(())
}

/// The content of a value, which is in the kubeconfig or in a file.
fn content(
    what: &str,
    owner: &str,
    data: Option<&str>,
    file: Option<&str>,
) -> Result<Option<Vec<u8>>, String> {
    match (data, file) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(format!("its {owner} has both {what} and {what}-data: remove one of them")),
        (Some(data), None) => {
            let decoded: Result<k8s_openapi::ByteString, _> = serde_json::from_value(data.into());
            // The error quotes a part of the value.
            let decoded = decoded.map_err(|_| {
                format!("the {what}-data of its {owner} is not valid Base64: copy the whole value again, in one line")
            })?;
            Ok(Some(decoded.0))
        }
        (None, Some(file)) => match input_file::read(Path::new(file), MAX_CONFIG) {
            Ok(content) => Ok(Some(content)),
            Err(error) => Err(format!("the {what} of its {owner}, {file}, cannot be read: {error}")),
        },
    }
}

/// The certificates of a text in PEM; there must be at least one.
fn certificates(what: &str, owner: &str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found =
        found.map_err(|_| format!("the {what} of its {owner} is damaged: it is not a complete PEM file"))?;
    match found.is_empty() {
        true => Err(format!("the {what} of its {owner} contains no certificate ({CERTIFICATE_BLOCK})")),
        false => Ok(found),
    }
}

fn check_pair(owner: &str, certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let chain = certificates("client-certificate", owner, certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
        format!("the client-key of its {owner} contains no private key without a password ({KEY_BLOCK})")
    })?;
    match CertifiedKey::from_der(chain, key, &ring::default_provider()) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err(format!(
            "the client key of its {owner} is not the key of the client certificate: use the key with which the certificate was requested"
        )),
        Err(rustls::Error::InvalidCertificate(_)) => Err(format!(
            "the client certificate of its {owner} is damaged, or has version 1 of X.509: request a new one; \"openssl x509 -req\" needs -extfile"
        )),
        Err(_) => Err(format!(
            "the client key of its {owner} is damaged or not supported: use RSA with 2048 to 8192 bits, ECDSA on P-256 or P-384, or Ed25519"
        )),
    }
}
