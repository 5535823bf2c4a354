//! Checks the flags of authentication that depend on each other.

use std::path::PathBuf;
use std::time::Duration;

use orlop_apiserver::authentication::config::{FrontProxyConfig, OidcConfig};
use orlop_apiserver::authentication::webhook::ReviewVersion;

use super::tls_files::TlsFiles;
use crate::args::{
    AuthenticationArgs, FrontProxyArgs, OidcArgs, ReviewVersionArg, ServiceAccountArgs, TokenWebhookArgs,
};

/// The bounds of `--service-account-max-token-expiration` (upstream).
const MAX_EXPIRATION: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(3600)..=Duration::from_secs(1 << 32);

/// Authentication, without the content of its files.
#[derive(Debug)]
pub struct AuthenticationOptions {
    /// The authorities of client certificates.
    pub client_ca_file: Option<PathBuf>,
    /// The file of bearer tokens.
    pub token_auth_file: Option<PathBuf>,
    /// Whether requests without credentials are permitted; `None` for the default.
    pub anonymous: Option<bool>,
    /// Whether bootstrap tokens are accepted; `None` for the default.
    pub bootstrap_tokens: Option<bool>,
    /// Service account tokens.
    pub service_accounts: ServiceAccountOptions,
    /// The OpenID Connect issuer.
    pub oidc: Option<OidcOptions>,
    /// The webhook that reviews tokens.
    pub webhook: Option<TokenWebhookOptions>,
    /// The front proxy.
    pub front_proxy: Option<FrontProxyOptions>,
    /// The certificate for requests to aggregated API servers.
    pub proxy_client: Option<TlsFiles>,
}

/// Service account tokens.
#[derive(Debug)]
pub struct ServiceAccountOptions {
    /// The issuer.
    pub issuer: String,
    /// The audiences of the server; empty for the issuer.
    pub audiences: Vec<String>,
    /// The files with keys that verify tokens.
    pub key_files: Vec<PathBuf>,
    /// The file with the key that signs tokens; `None` for the key in the store.
    pub signing_key_file: Option<PathBuf>,
    /// The maximum validity.
    pub max_expiration: Option<Duration>,
    /// Whether tokens of pods are valid for longer than requested.
    pub extend_expiration: bool,
}

/// The OpenID Connect issuer.
#[derive(Debug)]
pub struct OidcOptions {
    /// The issuer and its claims.
    pub config: OidcConfig,
    /// The authorities of its server; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
}

/// The webhook that reviews tokens.
#[derive(Debug)]
pub struct TokenWebhookOptions {
    /// Its kubeconfig.
    pub config_file: PathBuf,
    /// The version of reviews.
    pub version: ReviewVersion,
    /// How long results are reused.
    pub cache_ttl: Duration,
}

/// The front proxy.
#[derive(Debug)]
pub struct FrontProxyOptions {
    /// The authorities of its certificates.
    pub ca_file: PathBuf,
    /// Its headers.
    pub config: FrontProxyConfig,
}

/// Flags that conflict.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AuthenticationError {
    /// Only one of the issuer and the client is set.
    #[error("--oidc-issuer-url and --oidc-client-id must be set together")]
    HalfOidc,
    /// A value is missing.
    #[error("{0} must not be empty: set a value, or remove the flag")]
    Empty(&'static str),
    /// The issuer's keys must be read over TLS.
    #[error(
        "--oidc-issuer-url must be a URL with the scheme https: the server trusts the keys that it reads there"
    )]
    OidcScheme,
    /// No claim has an empty name.
    #[error("--oidc-username-claim must not be empty")]
    OidcUsernameClaim,
    /// Two values of a claim.
    #[error("--oidc-required-claim names the claim {0} twice")]
    OidcRequiredTwice(String),
    /// A front proxy that cannot name users.
    #[error(
        "--requestheader-client-ca-file requires --requestheader-username-headers, such as X-Remote-User: without a \
         user name, the server ignores the other headers"
    )]
    NoUsernameHeaders,
    /// Headers without an authority of front proxies.
    #[error(
        "the flags --requestheader-* require --requestheader-client-ca-file: without it, every client could name any \
         user"
    )]
    NoProxyAuthority,
    /// The maximum validity is out of range.
    #[error("--service-account-max-token-expiration must be between 1 hour and 2^32 seconds")]
    MaxExpiration,
    /// Tokens must name an issuer.
    #[error("--service-account-issuer must not be empty")]
    NoIssuer,
}

impl AuthenticationOptions {
    /// Checks that the flags fit together.
    pub(super) fn new(args: AuthenticationArgs) -> Result<Self, AuthenticationError> {
        Ok(AuthenticationOptions {
            client_ca_file: args.client_ca_file,
            token_auth_file: args.token_auth_file,
            anonymous: args.anonymous_auth,
            bootstrap_tokens: args.enable_bootstrap_token_auth,
            service_accounts: service_accounts(args.service_accounts, args.api_audiences)?,
            oidc: oidc(args.oidc)?,
            webhook: webhook(args.webhook),
            front_proxy: front_proxy(args.front_proxy)?,
            proxy_client: args
                .proxy_client_cert_file
                .zip(args.proxy_client_key_file)
                .map(|(certificate, key)| TlsFiles { certificate, key }),
        })
    }

    /// Whether client certificates are verified with given authorities.
    pub fn has_client_authorities(&self) -> bool {
        self.client_ca_file.is_some() || self.front_proxy.is_some()
    }

    /// Whether the flags configure a way to authenticate users.
    pub(super) fn identifies_users(&self) -> bool {
        self.has_client_authorities()
            || self.token_auth_file.is_some()
            || self.oidc.is_some()
            || self.webhook.is_some()
    }

    /// Whether clients have to authenticate, on every address.
    pub(super) fn is_required(&self) -> bool {
        self.identifies_users() || self.anonymous.is_some() || self.bootstrap_tokens == Some(true)
    }
}

fn service_accounts(
    args: ServiceAccountArgs,
    audiences: Vec<String>,
) -> Result<ServiceAccountOptions, AuthenticationError> {
    if args.service_account_issuer.is_empty() {
        return Err(AuthenticationError::NoIssuer);
    }
    let max = args.service_account_max_token_expiration;
    let max_expiration = (!max.is_zero()).then_some(max);
    if max_expiration.is_some_and(|max| !MAX_EXPIRATION.contains(&max)) {
        return Err(AuthenticationError::MaxExpiration);
    }
    Ok(ServiceAccountOptions {
        issuer: args.service_account_issuer,
        audiences: audiences.into_iter().filter(|audience| !audience.is_empty()).collect(),
        key_files: args.service_account_key_file,
        signing_key_file: args.service_account_signing_key_file,
        max_expiration,
        extend_expiration: args.service_account_extend_token_expiration,
    })
}

fn oidc(args: OidcArgs) -> Result<Option<OidcOptions>, AuthenticationError> {
    let text = |text: Option<String>| text.filter(|text| !text.is_empty());
    // An empty value would leave the server without authentication.
    for (flag, value) in
        [("--oidc-issuer-url", &args.oidc_issuer_url), ("--oidc-client-id", &args.oidc_client_id)]
    {
        if value.as_deref() == Some("") {
            return Err(AuthenticationError::Empty(flag));
        }
    }
    let (issuer, client_id) = match (text(args.oidc_issuer_url), text(args.oidc_client_id)) {
        (Some(issuer), Some(client_id)) => (issuer, client_id),
        (None, None) => return Ok(None),
        (Some(_), None) | (None, Some(_)) => return Err(AuthenticationError::HalfOidc),
    };
    if issuer.strip_prefix("https://").is_none_or(str::is_empty) {
        return Err(AuthenticationError::OidcScheme);
    }
    if args.oidc_username_claim.is_empty() {
        return Err(AuthenticationError::OidcUsernameClaim);
    }
    // Upstream prefixes all names but addresses, so that no issuer names the users of another one.
    let username_prefix = match text(args.oidc_username_prefix).as_deref() {
        Some("-") => String::new(),
        Some(prefix) => prefix.to_owned(),
        None if args.oidc_username_claim == "email" => String::new(),
        None => format!("{issuer}#"),
    };
    let mut required_claims = std::collections::BTreeMap::new();
    for (claim, value) in args.oidc_required_claim {
        if required_claims.insert(claim.clone(), value).is_some() {
            return Err(AuthenticationError::OidcRequiredTwice(claim));
        }
    }
    let config = OidcConfig {
        issuer,
        client_id,
        username_claim: args.oidc_username_claim,
        username_prefix,
        groups_claim: text(args.oidc_groups_claim),
        groups_prefix: args.oidc_groups_prefix,
        required_claims,
        algorithms: args.oidc_signing_algs,
    };
    Ok(Some(OidcOptions { config, ca_file: args.oidc_ca_file }))
}

fn webhook(args: TokenWebhookArgs) -> Option<TokenWebhookOptions> {
    let version = match args.authentication_token_webhook_version {
        ReviewVersionArg::V1 => ReviewVersion::V1,
        ReviewVersionArg::V1beta1 => ReviewVersion::V1beta1,
    };
    let cache_ttl = args.authentication_token_webhook_cache_ttl;
    let config_file = args.authentication_token_webhook_config_file?;
    Some(TokenWebhookOptions { config_file, version, cache_ttl })
}

fn front_proxy(args: FrontProxyArgs) -> Result<Option<FrontProxyOptions>, AuthenticationError> {
    let config = FrontProxyConfig {
        allowed_names: args.requestheader_allowed_names,
        username_headers: args.requestheader_username_headers,
        uid_headers: args.requestheader_uid_headers,
        group_headers: args.requestheader_group_headers,
        extra_prefixes: args.requestheader_extra_headers_prefix,
    };
    match args.requestheader_client_ca_file {
        Some(_) if config.username_headers.is_empty() => Err(AuthenticationError::NoUsernameHeaders),
        Some(ca_file) => Ok(Some(FrontProxyOptions { ca_file, config })),
        None if config == FrontProxyConfig::default() => Ok(None),
        None => Err(AuthenticationError::NoProxyAuthority),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser as _;
    use orlop_apiserver::authentication::config::Algorithm;

    use super::*;
    use crate::args::{Cli, Command};

    fn options(flags: &[&str]) -> Result<AuthenticationOptions, AuthenticationError> {
        let args = ["orlop", "apiserver"].iter().chain(flags);
        let Command::Apiserver(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("no server")
        };
        AuthenticationOptions::new(args.authentication)
    }

    const ISSUER: &[&str] = &["--oidc-issuer-url=https://i", "--oidc-client-id=c"];
    const PROXY: &[&str] =
        &["--requestheader-client-ca-file=p", "--requestheader-username-headers=X-Remote-User"];

    #[test]
    fn prefix_of_user_names_is_upstreams() {
        for (flags, want) in [
            (&[][..], "https://i#"),
            (&["--oidc-username-claim=email"], ""),
            (&["--oidc-username-prefix=-"], ""),
            (&["--oidc-username-prefix", "-"], ""),
            (&["--oidc-username-prefix=p:"], "p:"),
            (&["--oidc-username-claim=email", "--oidc-username-prefix=p:"], "p:"),
        ] {
            let config = options(&[ISSUER, flags].concat()).unwrap().oidc.unwrap().config;
            assert_eq!(config.username_prefix, want, "{flags:?}");
        }
        let more =
            ["--oidc-signing-algs=ES256,PS512", "--oidc-required-claim=a=b=c", "--oidc-required-claim=d="];
        let config = options(&[ISSUER, &more].concat()).unwrap().oidc.unwrap().config;
        assert_eq!(config.algorithms, [Algorithm::Es256, Algorithm::Ps512]);
        assert_eq!(config.required_claims["a"], "b=c");
        assert_eq!(config.required_claims["d"], "");
    }

    #[test]
    fn conflicting_flags_are_rejected() {
        use AuthenticationError as E;
        let claims = ["--oidc-required-claim=a=b", "--oidc-required-claim=a=c"];
        for (flags, want) in [
            (vec!["--oidc-issuer-url=https://i"], E::HalfOidc),
            (vec!["--oidc-issuer-url=", "--oidc-client-id="], E::Empty("--oidc-issuer-url")),
            (vec!["--oidc-issuer-url=https://i", "--oidc-client-id="], E::Empty("--oidc-client-id")),
            (vec!["--oidc-client-id=c"], E::HalfOidc),
            (vec!["--oidc-issuer-url=http://i", "--oidc-client-id=c"], E::OidcScheme),
            (vec!["--oidc-issuer-url=https://", "--oidc-client-id=c"], E::OidcScheme),
            ([ISSUER, &["--oidc-username-claim="]].concat(), E::OidcUsernameClaim),
            ([ISSUER, &claims].concat(), E::OidcRequiredTwice("a".to_owned())),
            (vec!["--requestheader-client-ca-file=p"], E::NoUsernameHeaders),
            (vec!["--requestheader-username-headers=X-Remote-User"], E::NoProxyAuthority),
            (vec!["--requestheader-allowed-names=a"], E::NoProxyAuthority),
            (vec!["--service-account-max-token-expiration=59m"], E::MaxExpiration),
            (vec!["--service-account-issuer="], E::NoIssuer),
        ] {
            assert_eq!(options(&flags).unwrap_err(), want, "{flags:?}");
        }
    }

    #[test]
    fn wrong_values_are_rejected() {
        for flag in [
            "--oidc-signing-algs=HS256",
            "--oidc-signing-algs=ES512",
            "--oidc-signing-algs=none",
            "--oidc-required-claim=a",
            "--oidc-required-claim==a",
            "--requestheader-username-headers=",
            "--requestheader-username-headers=X Remote User",
            "--requestheader-extra-headers-prefix=X:",
            "--authentication-token-webhook-version=v2",
            "--anonymous-auth=maybe",
        ] {
            assert!(Cli::try_parse_from(["orlop", "apiserver", flag]).is_err(), "{flag}");
        }
    }

    #[test]
    fn flags_decide_whether_clients_authenticate() {
        for (flags, identifies, required) in [
            (&[][..], false, false),
            (&["--token-auth-file=t"], true, true),
            (&["--client-ca-file=c"], true, true),
            (ISSUER, true, true),
            (PROXY, true, true),
            (&["--authentication-token-webhook-config-file=k"], true, true),
            (&["--enable-bootstrap-token-auth"], false, true),
            (&["--enable-bootstrap-token-auth=false"], false, false),
            (&["--anonymous-auth=false"], false, true),
            (&["--anonymous-auth"], false, true),
            (&["--service-account-key-file=k"], false, false),
        ] {
            let options = options(flags).unwrap();
            assert_eq!(
                (options.identifies_users(), options.is_required()),
                (identifies, required),
                "{flags:?}"
            );
        }
    }
}
