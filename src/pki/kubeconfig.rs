//! The text of a kubeconfig with a client certificate, and what it contains.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_auth::authority::SignedKey;

/// A kubeconfig with one cluster, one user and one context. It contains the user's private key.
pub(crate) struct Kubeconfig<'a> {
    /// The URL of the server.
    pub(crate) server: &'a str,
    /// The certificate of the authority that signed the server's, in PEM.
    pub(crate) authority: &'a str,
    /// The name of the user.
    pub(crate) user: &'a str,
    /// The user's certificate and key.
    pub(crate) credentials: &'a SignedKey,
}

impl fmt::Display for Kubeconfig<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kubeconfig { server, authority, user, credentials } = self;
        // JSON texts are valid in YAML.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        write!(
            formatter,
            "apiVersion: v1\nkind: Config\ncurrent-context: orlop\n\
             clusters:\n- name: orlop\n  cluster:\n    server: {}\n    certificate-authority-data: {}\n\
             contexts:\n- name: orlop\n  context:\n    cluster: orlop\n    user: {user}\n\
             users:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
            quoted(server),
            STANDARD.encode(authority),
            STANDARD.encode(&credentials.certificate),
            STANDARD.encode(&credentials.key),
            user = quoted(user),
        )
    }
}

/// The parts of a text that [`Kubeconfig`] has written.
#[derive(Debug)]
pub(crate) struct KubeconfigParts {
    /// The URL of the server.
    pub(crate) server: String,
    /// The certificate of the authority, in PEM.
    pub(crate) authority: String,
    /// The user's certificate and key.
    pub(crate) credentials: SignedKey,
}

impl KubeconfigParts {
    /// Reads a text; `None` if another program has changed its form.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let value = |name: &str| {
            text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(": "))
        };
        let decoded = |name: &str| String::from_utf8(STANDARD.decode(value(name)?).ok()?).ok();
        Some(KubeconfigParts {
            server: serde_json::from_str(value("server")?).ok()?,
            authority: decoded("certificate-authority-data")?,
            credentials: SignedKey {
                certificate: decoded("client-certificate-data")?,
                key: decoded("client-key-data")?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_parts_are_read_again() {
        let credentials = SignedKey { certificate: "c\n".to_owned(), key: "k\n".to_owned() };
        let written =
            Kubeconfig { server: "https://a:1", authority: "a\n", user: "ann", credentials: &credentials };
        let text = written.to_string();
        let read = KubeconfigParts::read(&text).expect("its own text");
        assert_eq!((read.server.as_str(), read.authority.as_str()), ("https://a:1", "a\n"));
        assert_eq!(
            (read.credentials.certificate, read.credentials.key),
            (credentials.certificate, credentials.key)
        );
        for damaged in [String::new(), text.replace("client-key-data", "x"), text.replace("Ywo=", "?")] {
            assert!(KubeconfigParts::read(&damaged).is_none(), "{damaged}");
        }
    }
}
