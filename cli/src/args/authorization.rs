//! Flags of authorization, with upstream's names.
//!
//! Upstream: pkg/kubeapiserver/options/authorization.go.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::authentication::ReviewVersionArg;
use super::values;

/// Authorization.
#[derive(Debug, PartialEq, Args)]
#[command(next_help_heading = "Authorization")]
pub struct AuthorizationArgs {
    /// Authorization modes. The server tries them in the order in which you list them, until one permits the request or a
    /// webhook rejects it. AlwaysAllow permits every request of an authenticated user. AlwaysDeny permits no request. Node
    /// permits the requests that node agents need for the pods on their nodes. RBAC permits the requests that roles and
    /// bindings grant. Webhook asks another server [default: Node,RBAC on an address that other machines can reach or with
    /// --node, else AlwaysAllow]
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    pub(crate) authorization_mode: Vec<AuthorizationModeArg>,
    /// File with modes and webhooks (YAML, AuthorizationConfiguration of apiserver.config.k8s.io/v1), instead of the other
    /// authorization flags
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["authorization_mode", "authorization_webhook_config_file"]
    )]
    pub(crate) authorization_config: Option<PathBuf>,
    /// Kubeconfig of the server that decides in the mode Webhook
    #[arg(long, value_name = "FILE")]
    pub(crate) authorization_webhook_config_file: Option<PathBuf>,
    /// API version of the reviews that the mode Webhook sends
    #[arg(long, value_enum, default_value = "v1beta1")]
    pub(crate) authorization_webhook_version: ReviewVersionArg,
    /// How long the server caches a response that permits a request; 0s disables the cache
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub(crate) authorization_webhook_cache_authorized_ttl: Duration,
    /// How long the server caches a response that does not permit a request; 0s disables the cache
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    pub(crate) authorization_webhook_cache_unauthorized_ttl: Duration,
}

/// A mode of `--authorization-mode`, by upstream's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuthorizationModeArg {
    /// Permits every request of an authenticated user.
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    /// Permits no request.
    #[value(name = "AlwaysDeny")]
    AlwaysDeny,
    /// Permits the requests that node agents need for the pods on their nodes.
    #[value(name = "Node")]
    Node,
    /// Permits the requests that roles and bindings grant.
    #[value(name = "RBAC")]
    Rbac,
    /// Sends a review to the server of `--authorization-webhook-config-file`.
    #[value(name = "Webhook")]
    Webhook,
}
