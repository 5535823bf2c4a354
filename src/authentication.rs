//! Reads the files of authentication, and connects it to its webhook.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use jiff::Timestamp;
use orlop_apimachinery::input_file;
use orlop_apiserver::authentication::oidc::{OidcSettings, check_authorities};
use orlop_apiserver::authentication::webhook::{MAX_ANSWER, ReviewPost, ReviewPostError, WebhookSettings};
use orlop_apiserver::authentication::{AuthConfig, PageSignIn};
use orlop_apiserver::client_identity::ClientIdentity;
use orlop_apiserver::kubelet_client::KubeletConfig;
use orlop_apiserver::service_account::ServiceAccountConfig;
use orlop_auth::service_account::claims;
use orlop_auth::service_account::key::SigningKey;
use orlop_auth::service_account::key_file::{self, KeyFileError};
use orlop_auth::service_account::legacy::LegacyClaims;
use orlop_auth::token_file::{TokenFile, TokenFileError};
use orlop_cli::args::KubeletArgs;
use orlop_cli::config::{
    ListenConfig, LoopbackAccess, OidcOptions, ServiceAccountOptions, TlsFiles, TokenWebhookOptions,
};
use orlop_controller::account_tokens::signer::{TokenSigner, TokenSubject};

use crate::webhook::{PostFailure, WebhookClient, WebhookError};

/// Maximum size of a file of keys or authorities, bytes.
const MAX_FILE: u64 = 1 << 20;

/// Why authentication cannot be configured. No message contains a part of a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthenticationError {
    #[error("--token-auth-file")]
    Tokens(#[from] TokenFileError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error("{flag} {}: it cannot be read: {error}", path.display())]
    Read { flag: &'static str, path: PathBuf, error: std::io::Error },
    #[error("{flag} {}: {error}", path.display())]
    Key { flag: &'static str, path: PathBuf, error: KeyFileError },
    #[error("--oidc-ca-file {}: {problem}", path.display())]
    Authorities { path: PathBuf, problem: String },
    #[error("{0}")]
    Client(String),
}

/// Authentication, with the content of its files. The authorities of client certificates are empty until the listener reads them.
pub(crate) async fn read(listen: &ListenConfig) -> Result<AuthConfig, AuthenticationError> {
    let options = &listen.authentication;
    let tokens = options.token_auth_file.as_deref().map(TokenFile::load).transpose()?;
    let has_certificates = listen.has_own_authority() || options.has_client_authorities();
    let webhook = match &options.webhook {
        Some(webhook) => Some(token_webhook(webhook).await?),
        None => None,
    };
    Ok(AuthConfig {
        tokens: tokens.map(Arc::new),
        client_authorities: has_certificates.then(Arc::default),
        front_proxy: options.front_proxy.as_ref().map(|proxy| proxy.config.clone()),
        bootstrap_tokens: listen.accepts_bootstrap_tokens(),
        oidc: options.oidc.as_ref().map(oidc).transpose()?,
        webhook,
        anonymous: options.anonymous,
        is_required: listen.authenticates(),
        only_public_paths: listen.only_public_paths,
        page_sign_in: listen.has_page_sign_in().then(|| Arc::new(PageSignIn::new(Arc::new(Timestamp::now)))),
        local_user: match listen.loopback {
            LoopbackAccess::EveryProcess => None,
            LoopbackAccess::OwnUser | LoopbackAccess::Closed => Some(rustix::process::geteuid().as_raw()),
        },
    })
}

/// A client certificate of this server, in the files of two flags.
pub(crate) fn client_identity(
    flags: [&'static str; 2],
    files: Option<&TlsFiles>,
) -> Result<Option<Arc<ClientIdentity>>, AuthenticationError> {
    let Some(TlsFiles { certificate, key }) = files else { return Ok(None) };
    let identity = ClientIdentity::read(flags, certificate.clone(), key.clone());
    identity.map(|identity| Some(Arc::new(identity))).map_err(AuthenticationError::Client)
}

/// How the server connects to kubelets. `own` are the files of its own certificate, if no flags name others.
pub(crate) fn kubelets(
    args: &KubeletArgs,
    own: Option<TlsFiles>,
) -> Result<KubeletConfig, AuthenticationError> {
    let given = args.kubelet_client_certificate.clone().zip(args.kubelet_client_key.clone());
    let given = given.map(|(certificate, key)| TlsFiles { certificate, key });
    let flags = ["--kubelet-client-certificate", "--kubelet-client-key"];
    let authorities = match &args.kubelet_certificate_authority {
        None => None,
        Some(path) => {
            let text = text("--kubelet-certificate-authority", path)?;
            check_authorities(text.as_bytes()).map_err(|problem| {
                AuthenticationError::Client(format!(
                    "--kubelet-certificate-authority {}: {problem}",
                    path.display()
                ))
            })?;
            Some(text.into_bytes())
        }
    };
    Ok(KubeletConfig {
        identity: client_identity(flags, given.or(own).as_ref())?,
        authorities,
        address_types: args.kubelet_preferred_address_types.clone(),
        timeout: args.kubelet_timeout,
        port: args.kubelet_port,
    })
}

/// Service account tokens, with the keys of files.
pub(crate) fn service_accounts(
    options: &ServiceAccountOptions,
) -> Result<ServiceAccountConfig, AuthenticationError> {
    let mut verifying_keys = Vec::new();
    for path in &options.key_files {
        let flag = "--service-account-key-file";
        let keys = key_file::public_keys(&text(flag, path)?);
        verifying_keys.extend(keys.map_err(|error| AuthenticationError::Key {
            flag,
            path: path.clone(),
            error,
        })?);
    }
    let signing_key = match &options.signing_key_file {
        Some(path) => Some(Arc::new(signing_key("--service-account-signing-key-file", path)?)),
        None => None,
    };
    Ok(ServiceAccountConfig {
        issuer: options.issuer.clone(),
        audiences: options.audiences.clone(),
        signing_key,
        verifying_keys,
        max_expiration: options.max_expiration,
        extend_expiration: options.extend_expiration,
    })
}

fn signing_key(flag: &'static str, path: &Path) -> Result<SigningKey, AuthenticationError> {
    let key = key_file::signing_key(&text(flag, path)?);
    key.map_err(|error| AuthenticationError::Key { flag, path: path.to_owned(), error })
}

/// Signs tokens in Secrets with the key of `--service-account-private-key-file`, if there is one.
pub(crate) fn token_signer(file: Option<&Path>) -> Result<Option<TokenSigner>, AuthenticationError> {
    let Some(path) = file else { return Ok(None) };
    let key = signing_key("--service-account-private-key-file", path)?;
    Ok(Some(TokenSigner::new(move |subject| claims::sign(&key, &legacy_claims(subject)))))
}

/// The claims of a token in a Secret.
pub(crate) fn legacy_claims(subject: &TokenSubject) -> LegacyClaims {
    LegacyClaims::new(&subject.namespace, &subject.secret, &subject.account, &subject.uid)
}

fn oidc(options: &OidcOptions) -> Result<OidcSettings, AuthenticationError> {
    let mut ca_bundle = Vec::new();
    if let Some(path) = &options.ca_file {
        let wrong = |problem: String| AuthenticationError::Authorities { path: path.clone(), problem };
        ca_bundle = text("--oidc-ca-file", path)?.into_bytes();
        // Without one, the authorities of the system would be used.
        check_authorities(&ca_bundle).map_err(wrong)?;
    }
    Ok(OidcSettings { config: options.config.clone(), ca_bundle })
}

async fn token_webhook(options: &TokenWebhookOptions) -> Result<WebhookSettings, AuthenticationError> {
    let flag = "--authentication-token-webhook-config-file";
    let client = WebhookClient::connect(flag, &options.config_file).await?;
    let post: ReviewPost = Arc::new(move |document| {
        let sent = client.clone().post(document, MAX_ANSWER);
        async {
            let failed = |failure: PostFailure| ReviewPostError {
                message: failure.message,
                is_temporary: failure.is_temporary,
            };
            sent.await.map_err(failed)
        }
        .boxed()
    });
    Ok(WebhookSettings { post, version: options.version, cache_ttl: options.cache_ttl })
}

fn text(flag: &'static str, path: &Path) -> Result<String, AuthenticationError> {
    let failed = |error| AuthenticationError::Read { flag, path: path.to_owned(), error };
    input_file::read_text(path, MAX_FILE).map_err(failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_cli::config::{self, Config, Role};

    use super::*;

    fn listen(flags: &[&str]) -> ListenConfig {
        let args = ["orlop", "apiserver"].iter().chain(flags).map(std::ffi::OsString::from);
        let Ok(Config::Run(run)) = config::load(args, |_| None) else { panic!("{flags:?}") };
        let Role::Apiserver(server) = run.role else { panic!("{flags:?}") };
        server.listen
    }

    /// The error of a server with this flag and a file with this text.
    async fn error(flag: &str, text: &[u8]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let issuer = ["--oidc-issuer-url=https://i", "--oidc-client-id=c"];
        let given = format!("{flag}={}", file.path().display());
        let listen = listen(&[issuer[0], issuer[1], given.as_str()]);
        let found = read(&listen).await.map(|_| ());
        let found =
            found.and_then(|()| service_accounts(&listen.authentication.service_accounts).map(|_| ()));
        let Err(error) = found else { return String::new() };
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        let text = format!("{error}{}", source.unwrap_or_default());
        assert!(text.contains(flag), "{flag}: {text}");
        text
    }

    #[tokio::test]
    async fn damaged_files_are_reported_without_their_content() {
        let key = "--service-account-signing-key-file";
        let large = vec![b'#'; 1 + MAX_FILE as usize];
        for (case, flag, text, part) in [
            ("1 no token", "--token-auth-file", &b""[..], "no token"),
            ("2 a short line", "--token-auth-file", b"hush,ann", "line 1"),
            ("3 not UTF-8", "--token-auth-file", b"hush\xff,ann,u", "cannot be read"),
            ("4 no key", key, b"hush", "contains no private key"),
            (
                "5 a damaged key",
                key,
                b"-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n",
                "cannot be used",
            ),
            ("6 no end", key, b"-----BEGIN PRIVATE KEY-----\nhush", "damaged"),
            ("7 no public key", "--service-account-key-file", b"hush", "contains no key"),
            (
                "8 a damaged public key",
                "--service-account-key-file",
                b"-----BEGIN PUBLIC KEY-----\nhush\n-----END PUBLIC KEY-----\n",
                "damaged",
            ),
            ("9 too large", key, &large, "larger than"),
            ("10 no authority", "--oidc-ca-file", b"hush", "no certificate"),
            (
                "11 a damaged authority",
                "--oidc-ca-file",
                b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
                "",
            ),
            ("12 no kubeconfig", "--authentication-token-webhook-config-file", b"hush", ""),
        ] {
            let error = error(flag, text).await;
            assert!(!error.is_empty() && error.contains(part), "{case}: {error}");
            assert!(!error.contains("hush"), "{case}: {error}");
        }
    }

    #[tokio::test]
    async fn flags_configure_authentication() {
        let plain = read(&listen(&[])).await.unwrap();
        assert!(!plain.is_required && plain.client_authorities.is_none() && !plain.bootstrap_tokens);
        let own = read(&listen(&["--listen=0.0.0.0:0"])).await.unwrap();
        assert!(own.is_required && own.client_authorities.is_some() && own.bootstrap_tokens);
        let local = read(&listen(&["--authorization-mode=RBAC"])).await.unwrap();
        assert!(local.is_required && local.page_sign_in.is_some() && !local.bootstrap_tokens);
        assert!(plain.page_sign_in.is_none() && own.page_sign_in.is_none());
        let off = ["--listen=0.0.0.0:0", "--enable-bootstrap-token-auth=false", "--anonymous-auth=false"];
        let off = read(&listen(&off)).await.unwrap();
        assert_eq!((off.bootstrap_tokens, off.anonymous), (false, Some(false)));
    }
}
