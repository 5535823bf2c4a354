//! The certificate authorities by which clients verify the server, published in every namespace as
//! `kube-root-ca.crt`.
//!
//! The bundle that `--root-ca-file` names takes precedence. A server with TLS knows its own chain, whose last
//! certificate is the closest to the authority. A separate controller process publishes the authorities by which
//! it verifies the server. If neither is known (plain HTTP, or the authorities of the system), an empty bundle is
//! published.

use std::path::{Path, PathBuf};

use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_client::client::{self, Endpoint};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Why no bundle can be published.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorityError {
    #[error("the certificates of {} cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("--root-ca-file {}: contains no certificate (a block that begins with {BEGIN})", path.display())]
    None { path: PathBuf },
}

/// The bundle of a server with this certificate chain.
pub(crate) fn of_server(
    given: Option<&Path>,
    chain: Option<&Path>,
) -> Result<Option<String>, AuthorityError> {
    match (given, chain) {
        (Some(path), _) => bundle(path).map(Some),
        (None, Some(path)) => Ok(blocks(&read(path)?).pop()),
        (None, None) => Ok(None),
    }
}

/// The bundle of a client of this server.
pub(crate) fn of_client(given: Option<&Path>, server: &Endpoint) -> Result<Option<String>, AuthorityError> {
    match (given, server) {
        (Some(path), _) => bundle(path).map(Some),
        (None, Endpoint::Url { ca_file: Some(path), .. }) => Ok(joined(&blocks(&read(path)?))),
        (None, Endpoint::Url { ca_file: None, .. }) => Ok(None),
        (None, Endpoint::Kubeconfig { path, context, .. }) => {
            let text = client::trusted_by(path.as_deref(), context.as_deref());
            Ok(text.and_then(|text| joined(&blocks(&text))))
        }
        (None, Endpoint::Certificate(certificate)) => Ok(joined(&blocks(&certificate.authority))),
    }
}

fn read(path: &Path) -> Result<String, AuthorityError> {
    let read = input_file::read_text(path, MAX_CONFIG);
    read.map_err(|error| AuthorityError::Read { path: path.to_owned(), error })
}

fn bundle(path: &Path) -> Result<String, AuthorityError> {
    joined(&blocks(&read(path)?)).ok_or_else(|| AuthorityError::None { path: path.to_owned() })
}

fn joined(blocks: &[String]) -> Option<String> {
    if blocks.is_empty() { None } else { Some(blocks.concat()) }
}

/// The certificates of a PEM text. Everything else is omitted: a key must not be published.
fn blocks(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in text.split(BEGIN).skip(1) {
        if let Some((body, _)) = rest.split_once(END) {
            found.push(format!("{BEGIN}{body}{END}\n"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pem(body: &str) -> String {
        format!("{BEGIN}\n{body}\n{END}\n")
    }

    #[test]
    fn only_certificates_are_published() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let key = "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n";
        let chain = file("chain", format!("leaf:\n{}{key}{}", pem("leaf"), pem("root")));
        let given = file("given", format!("{}{}", pem("a"), pem("b")));
        let empty = file("empty", key.to_owned());
        let server = |given: Option<&PathBuf>, chain: Option<&PathBuf>| {
            of_server(given.map(PathBuf::as_path), chain.map(PathBuf::as_path)).unwrap()
        };
        assert_eq!(server(None, None), None, "plain HTTP");
        assert_eq!(server(None, Some(&chain)), Some(pem("root")), "the end of the chain");
        assert_eq!(server(Some(&given), Some(&chain)), Some(pem("a") + &pem("b")), "the flag wins");
        assert!(of_server(Some(&empty), None).unwrap_err().to_string().contains("contains no certificate"));
        assert!(of_server(Some(&dir.path().join("none")), None).is_err());
        let url = |ca_file| Endpoint::Url { url: "https://x".into(), token: None, ca_file, insecure: false };
        assert_eq!(of_client(None, &url(None)).unwrap(), None, "the system's authorities");
        assert_eq!(of_client(None, &url(Some(given))).unwrap(), Some(pem("a") + &pem("b")));
    }
}
