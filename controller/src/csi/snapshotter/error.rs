//! Why a step of the snapshot controllers was not done.

use orlop_csi::error::CallError;

use orlop_volume::csi::secrets::SecretError;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SnapshotError {
    /// A write of a snapshot failed.
    #[error("cannot {what} snapshot {snapshot}: {cause}")]
    Snapshot { what: &'static str, snapshot: String, cause: kube::Error },
    /// A read or write of a content failed.
    #[error("cannot {what} content {content}: {cause}")]
    Content { what: &'static str, content: String, cause: kube::Error },
    /// A write of a claim failed.
    #[error("cannot {what} claim {claim} for its snapshots: {cause}")]
    Claim { what: &'static str, claim: String, cause: kube::Error },
}

/// Why a content is not yet in its desired state.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallFailure {
    /// The API failed.
    #[error(transparent)]
    Api(#[from] SnapshotError),
    /// The input of the call is missing.
    #[error("{0}")]
    Input(String),
    /// The driver failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The secret cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The snapshot is not ready to use yet.
    #[error("the snapshot of content {0} is not ready to use yet")]
    NotReady(String),
}
