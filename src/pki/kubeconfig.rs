//! The text of a kubeconfig with a client certificate.

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
