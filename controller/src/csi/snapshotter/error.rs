//! Why a step of the snapshot controllers was not done.

use orlop_csi::error::CallError;

use crate::csi::secrets::SecretError;

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum SnapshotError {
    /// A write of a snapshot.
    #[error("cannot {what} snapshot {snapshot}: {cause}")]
    Snapshot { what: &'static str, snapshot: String, cause: kube::Error },
    /// A read or write of a content.
    #[error("cannot {what} content {content}: {cause}")]
    Content { what: &'static str, content: String, cause: kube::Error },
    /// A write of a claim.
    #[error("cannot {what} claim {claim} for its snapshots: {cause}")]
    Claim { what: &'static str, claim: String, cause: kube::Error },
}

/// Why a content is not yet as it has to be.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallFailure {
    /// The API.
    #[error(transparent)]
    Api(#[from] SnapshotError),
    /// What is needed to ask.
    #[error("{0}")]
    Input(String),
    /// The driver.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The driver is not done yet.
    #[error("the snapshot of content {0} is not ready to use yet")]
    NotReady(String),
}
