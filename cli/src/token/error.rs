//! Why a command about tokens failed.

use orlop_client::bootstrap_token::TokenError;
use orlop_client::client::{ConnectError, message_of};

/// Why a command failed. Never contains the secret of a token.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot {what}: {}", message_of(cause))]
    Request { what: String, cause: kube::Error },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(
        "--groups requires a token that authenticates clients: add authentication to --usages, or set --groups ''"
    )]
    GroupsWithoutAuthentication,
    #[error("--ttl ends after the year 9999: use 0 for a token that never expires")]
    Ttl,
    #[error(
        "the ID of a bootstrap token has 6 lowercase letters and digits: `orlop token list` shows the IDs"
    )]
    Id,
    #[error("there is no bootstrap token {0}: `orlop token list` shows the IDs")]
    Missing(String),
    #[error(
        "cannot create the join command: the server's certificate authority is unknown. The ConfigMap kube-public/cluster-info is \
         missing, and neither --certificate-authority nor the kubeconfig names a file with the authority"
    )]
    NoAuthority,
    #[error("cannot start threads: {0}")]
    Threads(#[source] std::io::Error),
}

impl CommandError {
    pub(super) fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |cause| CommandError::Request { what, cause }
    }
}
