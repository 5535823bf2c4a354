//! Flags of a client: the API server, its credentials and its trust.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::values;

/// Which API server the controllers work on.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "API server to work on")]
pub(crate) struct RemoteArgs {
    /// URL of the API server, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Upstream's name for --server; wins over the address in the kubeconfig, as --server does
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// Client configuration with address and credentials
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Bearer token; other users of this machine can read a command line, so prefer --token-file
    #[arg(long, value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// File that holds a bearer token
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Authorities that the server's certificate is checked against (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Trust any certificate of the server; for trials only
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
    /// Only false is possible: run one controller process
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) leader_elect: bool,
}
