//! The text of a kubeconfig with one cluster and at most one user.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::authority::SignedKey;

/// The credentials of the user.
#[derive(Clone, Copy, Debug)]
pub enum KubeconfigUser<'a> {
    /// None: a client that uses it is anonymous.
    None,
    /// A certificate and its key, as part of the text.
    Inline {
        /// The name of the user.
        name: &'a str,
        /// The certificate and the key.
        credentials: &'a SignedKey,
    },
    /// A file with a certificate and its key, which may be replaced.
    File {
        /// The name of the user.
        name: &'a str,
        /// The absolute path of the file, because a relative one would start at the directory of the kubeconfig.
        path: &'a Path,
    },
}

/// A kubeconfig. Its text may contain a private key.
#[derive(Clone, Copy, Debug)]
pub struct Kubeconfig<'a> {
    /// The URL of the server.
    pub server: &'a str,
    /// The certificates of the authorities that sign the server's, in PEM; `None` for those of the system.
    pub authority: Option<&'a str>,
    /// The user.
    pub user: KubeconfigUser<'a>,
}

/// JSON texts are valid in YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl fmt::Display for Kubeconfig<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kubeconfig { server, authority, user } = self;
        write!(formatter, "apiVersion: v1\nkind: Config\n")?;
        let name = match user {
            KubeconfigUser::None => None,
            KubeconfigUser::Inline { name, .. } | KubeconfigUser::File { name, .. } => Some(quoted(name)),
        };
        if name.is_some() {
            writeln!(formatter, "current-context: orlop")?;
        }
        write!(formatter, "clusters:\n- name: orlop\n  cluster:\n    server: {}\n", quoted(server))?;
        if let Some(authority) = authority {
            writeln!(formatter, "    certificate-authority-data: {}", STANDARD.encode(authority))?;
        }
        let Some(name) = name else { return Ok(()) };
        write!(
            formatter,
            "contexts:\n- name: orlop\n  context:\n    cluster: orlop\n    user: {name}\nusers:\n- name: {name}\n  user:\n"
        )?;
        match user {
            KubeconfigUser::None => Ok(()),
            KubeconfigUser::Inline { credentials, .. } => write!(
                formatter,
                "    client-certificate-data: {}\n    client-key-data: {}\n",
                STANDARD.encode(&credentials.certificate),
                STANDARD.encode(&credentials.key),
            ),
            KubeconfigUser::File { path, .. } => {
                let path = quoted(&path.to_string_lossy());
                write!(formatter, "    client-certificate: {path}\n    client-key: {path}\n")
            }
        }
    }
}

/// The parts of a text that [`Kubeconfig`] has written with a certificate.
#[derive(Debug)]
pub struct KubeconfigParts {
    /// The URL of the server.
    pub server: String,
    /// The certificate of the authority, in PEM.
    pub authority: String,
    /// The user's certificate and key.
    pub credentials: SignedKey,
}

impl KubeconfigParts {
    /// Reads a text; `None` if another program has changed its form.
    pub fn read(text: &str) -> Option<Self> {
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
    fn kubeconfig_has_the_credentials_of_its_user() {
        let credentials = SignedKey { certificate: "c".to_owned(), key: "k".to_owned() };
        let text = |user| Kubeconfig { server: "https://h:6443", authority: Some("ca"), user }.to_string();
        let inline = text(KubeconfigUser::Inline { name: "a: b", credentials: &credentials });
        assert!(
            inline.contains("    user: \"a: b\"\n") && inline.contains("client-key-data: aw==\n"),
            "{inline}"
        );
        let file = text(KubeconfigUser::File { name: "n", path: Path::new("/x y") });
        assert!(file.contains("client-certificate: \"/x y\"\n    client-key: \"/x y\"\n"), "{file}");
        let none = text(KubeconfigUser::None);
        let want = "apiVersion: v1\nkind: Config\nclusters:\n- name: orlop\n  cluster:\n    server: \
                    \"https://h:6443\"\n    certificate-authority-data: Y2E=\n";
        assert_eq!(none, want);
    }

    #[test]
    fn written_parts_are_read_again() {
        let credentials = SignedKey { certificate: "c\n".to_owned(), key: "k\n".to_owned() };
        let user = KubeconfigUser::Inline { name: "ann", credentials: &credentials };
        let text = Kubeconfig { server: "https://a:1", authority: Some("a\n"), user }.to_string();
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
