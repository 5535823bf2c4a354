//! Flags of authentication, with upstream's names and defaults.
//!
//! Upstream: `pkg/kubeapiserver/options/authentication.go`, apiserver `pkg/server/options/authentication.go`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use orlop_apiserver::authentication::config::Algorithm;
use orlop_apiserver::server::DEFAULT_ISSUER;

use super::values;

/// Authentication.
#[derive(Debug, PartialEq, Args)]
#[command(next_help_heading = "Authentication")]
pub(crate) struct AuthenticationArgs {
    /// Certificate authorities for client certificates (PEM): the CN of a certificate is the user name, and its O values
    /// are the groups
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// CSV file of bearer tokens: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Accept requests without credentials as requests of the user system:anonymous; with
    /// --authorization-mode=AlwaysAllow, only requests to /healthz, /livez, /readyz and /version [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = values::boolean)]
    pub(crate) anonymous_auth: Option<bool>,
    /// Accept bootstrap tokens, which are Secrets of the type bootstrap.kubernetes.io/token in the namespace kube-system
    /// [default: true if the server creates its own certificates, and --tls-san is set or --listen is not a loopback
    /// address; else false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = values::boolean)]
    pub(crate) enable_bootstrap_token_auth: Option<bool>,
    /// Audiences of this server; a token must be for one of them [default: --service-account-issuer]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) api_audiences: Vec<String>,
    #[command(flatten)]
    pub(crate) service_accounts: ServiceAccountArgs,
    #[command(flatten)]
    pub(crate) oidc: OidcArgs,
    #[command(flatten)]
    pub(crate) webhook: TokenWebhookArgs,
    #[command(flatten)]
    pub(crate) front_proxy: FrontProxyArgs,
    /// Client certificate (PEM) with which the server forwards requests to aggregated API servers
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    pub(crate) proxy_client_cert_file: Option<PathBuf>,
    /// Private key (PEM) of the certificate of --proxy-client-cert-file
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    pub(crate) proxy_client_key_file: Option<PathBuf>,
}

/// Service account tokens.
#[derive(Debug, PartialEq, Args)]
pub(crate) struct ServiceAccountArgs {
    /// Issuer of service account tokens
    #[arg(long, value_name = "URL", default_value = DEFAULT_ISSUER)]
    pub(crate) service_account_issuer: String,
    /// File with public or private keys that verify service account tokens (PEM); can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) service_account_key_file: Vec<PathBuf>,
    /// File with the private key that signs service account tokens (PEM); it verifies them too [default: a key in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) service_account_signing_key_file: Option<PathBuf>,
    /// Maximum validity of service account tokens, at least 1h0m0s; 0s is unlimited
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) service_account_max_token_expiration: Duration,
    /// Issue a pod token that is valid for a year if the request asks for 3607 seconds. The server annotates the audit
    /// event of each request that uses such a token after the 3607 seconds
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean)]
    pub(crate) service_account_extend_token_expiration: bool,
}

/// An OpenID Connect issuer.
#[derive(Debug, PartialEq, Args)]
pub(crate) struct OidcArgs {
    /// URL of the OpenID Connect issuer whose ID tokens the server accepts; must begin with https://
    #[arg(long, value_name = "URL")]
    pub(crate) oidc_issuer_url: Option<String>,
    /// Audience of the ID tokens
    #[arg(long, value_name = "ID")]
    pub(crate) oidc_client_id: Option<String>,
    /// Certificate authorities of the issuer (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub(crate) oidc_ca_file: Option<PathBuf>,
    /// Claim with the user name
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    pub(crate) oidc_username_claim: String,
    /// Prefix of user names; - is none [default: the URL of the issuer and #, but none for the claim email]
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    pub(crate) oidc_username_prefix: Option<String>,
    /// Claim with the groups: a string or a list of strings
    #[arg(long, value_name = "CLAIM")]
    pub(crate) oidc_groups_claim: Option<String>,
    /// Prefix of groups
    #[arg(
        long,
        value_name = "PREFIX",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) oidc_groups_prefix: String,
    /// Claim that a token must have, and its value; can be repeated
    #[arg(long, value_name = "CLAIM=VALUE", value_parser = claim)]
    pub(crate) oidc_required_claim: Vec<(String, String)>,
    /// Accepted signature algorithms: RS256, RS384, RS512, ES256, ES384, PS256, PS384, PS512
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "RS256")]
    pub(crate) oidc_signing_algs: Vec<Algorithm>,
}

/// A webhook that reviews tokens.
#[derive(Debug, PartialEq, Args)]
pub(crate) struct TokenWebhookArgs {
    /// Kubeconfig of a webhook that reviews bearer tokens
    #[arg(long, value_name = "FILE")]
    pub(crate) authentication_token_webhook_config_file: Option<PathBuf>,
    /// How long the server caches the results of the webhook
    #[arg(long, value_name = "DURATION", default_value = "2m0s", value_parser = values::duration)]
    pub(crate) authentication_token_webhook_cache_ttl: Duration,
    /// API version of the reviews
    #[arg(long, value_enum, default_value = "v1beta1")]
    pub(crate) authentication_token_webhook_version: ReviewVersionArg,
}

/// The version of the API group in which a webhook receives reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReviewVersionArg {
    /// v1
    V1,
    /// v1beta1
    V1beta1,
}

/// A front proxy that authenticates users.
#[derive(Debug, PartialEq, Args)]
pub(crate) struct FrontProxyArgs {
    /// Certificate authorities (PEM) of front proxies, which name the user in request headers
    #[arg(long, value_name = "FILE")]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,
    /// Accepted common names of the certificates of front proxies [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) requestheader_allowed_names: Vec<String>,
    /// Headers with the user name, such as X-Remote-User
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', value_parser = header)]
    pub(crate) requestheader_username_headers: Vec<String>,
    /// Headers with the UID, such as X-Remote-Uid
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', value_parser = header)]
    pub(crate) requestheader_uid_headers: Vec<String>,
    /// Headers with groups, such as X-Remote-Group
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', value_parser = header)]
    pub(crate) requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with extra attributes, such as X-Remote-Extra-
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', value_parser = header)]
    pub(crate) requestheader_extra_headers_prefix: Vec<String>,
}

/// Parses the name of a header.
fn header(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_letter) {
        return Err(format!("`{text}` is not the name of a header, such as X-Remote-User"));
    }
    Ok(text.to_owned())
}

/// Parses a claim and its value.
fn claim(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((claim, value)) if !claim.is_empty() => Ok((claim.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("`{text}` is not a CLAIM=VALUE")),
    }
}
