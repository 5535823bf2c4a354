//! Flags of a client: API server, credentials and trusted authorities.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::values;

/// The API server of a client.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "API server to work on")]
pub(crate) struct RemoteArgs {
    /// URL of the API server, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Upstream's name for --server; both take precedence over the address in the kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// Kubeconfig with address and credentials
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Bearer token; other users of this machine can read the command line, so prefer --token-file
    #[arg(long, value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// File with a bearer token
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate authorities (PEM) to verify the server's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Accept any certificate of the server; for tests only
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false",
        value_parser = values::boolean,
        action = ArgAction::Set
    )]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Only false is supported: run one controller process
    #[arg(long, hide = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) leader_elect: bool,
}
