//! Flags of `orlop token` and `orlop kubeconfig`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use orlop_client::bootstrap_token::{NODE_GROUP, Usage};

use super::remote::RemoteArgs;
use super::values;

/// `orlop token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create and print a bootstrap token, which a machine uses to join as a node
    Create(Box<TokenCreateArgs>),
    /// List bootstrap tokens, without their secrets
    List(TokenListArgs),
    /// Delete bootstrap tokens
    Delete(TokenDeleteArgs),
}

/// A permitted use of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageArg {
    /// Sign the ConfigMap cluster-info
    Signing,
    /// Authenticate to the API server
    Authentication,
}

impl UsageArg {
    pub(crate) fn usage(self) -> Usage {
        match self {
            UsageArg::Signing => Usage::Signing,
            UsageArg::Authentication => Usage::Authentication,
        }
    }
}

/// `orlop token create`. Flags and defaults are those of `kubeadm token create`.
#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// Token to create, as ID.SECRET [default: a random one]
    #[arg(value_name = "TOKEN")]
    pub(crate) new_token: Option<String>,
    /// Time after which the token expires; 0 creates a token that never expires
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::duration)]
    pub(crate) ttl: Duration,
    /// Permitted uses of the token
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["signing", "authentication"])]
    pub(crate) usages: Vec<UsageArg>,
    /// Additional groups of clients that authenticate with the token; each begins with system:bootstrappers:
    #[arg(long, value_name = "GROUP", value_delimiter = ',', default_value = NODE_GROUP)]
    pub(crate) groups: Vec<String>,
    /// Text that describes the use of the token
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,
    /// Print the complete join command of a node instead of the token alone
    #[arg(long)]
    pub(crate) print_join_command: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop token list`.
#[derive(Debug, Args)]
pub(crate) struct TokenListArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop token delete`.
#[derive(Debug, Args)]
pub(crate) struct TokenDeleteArgs {
    /// IDs of the tokens, or whole tokens
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop kubeconfig`.
#[derive(Debug, Subcommand)]
pub(crate) enum KubeconfigCommand {
    /// Create a kubeconfig with a client certificate for a user
    ///
    /// The command requests the certificate from the server and approves the request. You need the rights to create
    /// certificatesigningrequests, to update certificatesigningrequests/approval, and to approve for the signer
    /// kubernetes.io/kube-apiserver-client.
    Create(Box<KubeconfigCreateArgs>),
}

/// `orlop kubeconfig create`.
#[derive(Debug, Args)]
pub(crate) struct KubeconfigCreateArgs {
    /// User name
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
    /// Group of the user; can be repeated
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Vec<String>,
    /// Lifetime of the certificate; the server may shorten it (--cluster-signing-duration)
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = values::duration)]
    pub(crate) validity_period: Duration,
    /// Output file, readable only by its owner [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
