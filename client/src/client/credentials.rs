//! Errors about credentials, without the credentials: the client library quotes kubeconfigs and the output of exec plugins.

use std::borrow::Cow;
use std::error::Error;
use std::path::Path;

use http::{HeaderValue, Uri};
use kube::client::AuthError;
use kube::config::AuthInfo;
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::ExposeSecret as _;

/// Checks that the token of a user fits in a header: the library ends the process otherwise.
pub(super) fn check_token(user: &AuthInfo) -> Result<(), &'static str> {
    let Some(token) = &user.token else { return Ok(()) };
    let is_valid = HeaderValue::from_str(token.expose_secret()).is_ok();
    if is_valid { Ok(()) } else { Err("the token contains a character that no HTTP header may contain") }
}

/// Checks that a URL contains no user name and no password: the client does not send them, and errors quote the URL.
pub(super) fn check_url(url: &Uri) -> Result<(), &'static str> {
    let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
    match has_user {
        false => Ok(()),
        true => Err("it contains a user name or a password; use --token, --token-file or a kubeconfig"),
    }
}

/// Checks that a file contains certificates.
pub(super) fn check_authority(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let text = input_file::read(path, MAX_CONFIG)
        .map_err(|error| format!("the certificate authority {shown} cannot be read: {error}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(()),
        Ok(_) => Err(format!(
            "the certificate authority {shown} contains no certificate (a block that begins with -----BEGIN CERTIFICATE-----)"
        )),
        Err(_) => Err(format!("the certificate authority {shown} is damaged: it is not a complete PEM file")),
    }
}

/// A URL without its user name and password, for messages.
pub fn without_password(url: &str) -> Cow<'_, str> {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let Some((_, host)) = rest.rsplit_once('@') else { return Cow::Borrowed(url) };
    match scheme {
        "" => Cow::Owned(host.to_owned()),
        scheme => Cow::Owned(format!("{scheme}://{host}")),
    }
}

/// The text of an error and of its causes, except for the output of an exec plugin.
pub(super) fn texts(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(problem) = error.downcast_ref::<AuthError>().and_then(plugin_problem) {
            // The texts above it repeat the cause.
            return vec![problem];
        }
        found.push(error.to_string());
        next = error.source();
    }
    found
}

/// The problem of an exec plugin or of its output, which may contain a token.
fn plugin_problem(error: &AuthError) -> Option<String> {
    match error {
        AuthError::AuthExecRun { cmd, out } => {
            Some(format!("the exec plugin {cmd:?} failed: {}", out.status))
        }
        AuthError::AuthExecStart(cause) => Some(format!(
            "the exec plugin cannot be started: {cause}; install it, or correct exec.command in the kubeconfig"
        )),
        AuthError::AuthExecParse(_) | AuthError::AuthExecSerialize(_) | AuthError::ParseTokenKey(_) => {
            Some("the output of the exec plugin is not an ExecCredential".to_owned())
        }
        // The other variants quote no output.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::client::{Endpoint, connect};

    const MARKER: &str = "hunter2";

    async fn problem(endpoint: Endpoint) -> String {
        let error = connect(endpoint).await.err().unwrap();
        format!("{error} {error:?}")
    }

    fn url(url: &str, token: Option<&str>) -> Endpoint {
        Endpoint::Url { url: url.to_owned(), token: token.map(str::to_owned), ca_file: None, insecure: false }
    }

    async fn of_kubeconfig(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path = Some(file.path().to_owned());
        problem(Endpoint::Kubeconfig { path, context: None, server: None }).await
    }

    fn kubeconfig(server: &str, user: &str) -> String {
        format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\nusers: [{{name: a, user: {user}}}]\n"
        )
    }

    #[tokio::test]
    async fn token_that_fits_in_no_header_is_refused() {
        for token in ["a\nb", "a\rb", "a\0b", "\u{7f}"] {
            let found = problem(url("http://127.0.0.1:1", Some(token))).await;
            assert!(found.contains("no HTTP header may contain"), "{token:?}: {found}");
        }
        let found = of_kubeconfig(&kubeconfig("http://127.0.0.1:1", r#"{token: "a\nb"}"#)).await;
        assert!(found.contains("no HTTP header may contain"), "{found}");
    }

    #[tokio::test]
    async fn errors_quote_no_credential() {
        let broken =
            format!("users:\n- name: a\n  user:\n    token: {MARKER}\n   client-key-data: {MARKER}\n");
        let typed = kubeconfig("http://127.0.0.1:1", &format!("{{token: {{a: {MARKER}}}}}"));
        for text in [broken, typed, format!("users: {MARKER}"), format!("{MARKER}: [")] {
            let found = of_kubeconfig(&text).await;
            assert!(found.contains("not valid YAML") && !found.contains(MARKER), "{text}: {found}");
        }
        for server in [
            format!("https://a:{MARKER}@host"),
            format!("https://a:{MARKER}@ host"),
            format!("a:{MARKER}@host"),
        ] {
            let found = problem(url(&server, None)).await;
            assert!(!found.contains(MARKER), "{server}: {found}");
            let found = of_kubeconfig(&kubeconfig(&server, "{}")).await;
            assert!(!found.contains(MARKER), "{server}: {found}");
        }
    }

    #[tokio::test]
    async fn output_of_a_plugin_is_not_quoted() {
        for (case, script, want) in [
            ("1 junk", "echo token: [hunt\"\"er2", "not an ExecCredential"),
            ("2 failed", "echo hunt\"\"er2; exit 3", "exit status: 3"),
        ] {
            let user = format!(
                "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, '{script}'], \
                 interactiveMode: Never}}}}"
            );
            let found = of_kubeconfig(&kubeconfig("http://127.0.0.1:1", &user)).await;
            assert!(found.contains(want) && !found.contains(MARKER), "{case}: {found}");
        }
        let user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere/plugin, interactiveMode: Never}}";
        let found = of_kubeconfig(&kubeconfig("http://127.0.0.1:1", user)).await;
        assert!(
            found.contains("the exec plugin cannot be started") && found.contains("install it"),
            "{found}"
        );
    }

    #[tokio::test]
    async fn file_of_an_authority_must_contain_certificates() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, part) in [
            ("", "contains no certificate"),
            (MARKER, "contains no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAQ==\n", "is damaged: it is not a complete PEM file"),
            ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "is damaged"),
        ] {
            std::fs::write(file.path(), text).unwrap();
            for url in ["http://127.0.0.1:1", "https://127.0.0.1:1"] {
                let ca_file = Some(file.path().to_owned());
                let found =
                    problem(Endpoint::Url { url: url.to_owned(), token: None, ca_file, insecure: false })
                        .await;
                assert!(found.contains(part) && !found.contains(MARKER), "{text}: {found}");
                assert!(found.contains(&file.path().display().to_string()), "{found}");
            }
        }
        let ca_file = Some("/nowhere/ca".into());
        let endpoint =
            Endpoint::Url { url: "https://127.0.0.1:1".to_owned(), token: None, ca_file, insecure: false };
        assert!(problem(endpoint).await.contains("/nowhere/ca cannot be read: No such file"));
    }

    #[test]
    fn passwords_are_removed_from_urls() {
        for (url, want) in [
            ("https://host:1/x", "https://host:1/x"),
            ("https://a:b@host", "https://host"),
            ("https://a:b@c@host", "https://host"),
            ("a:b@host", "host"),
            ("", ""),
        ] {
            assert_eq!(without_password(url), want);
        }
    }
}
