//! What can go wrong in one sync: one variant per operation, with the object's key. The source is not repeated in the
//! text; `chain` writes both.

use super::cache::BadVersion;
use orlop_client::client;
use orlop_volume::class::NoBindingMode;

/// Why a sync did not finish. The key comes back with a delay, alone.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// A volume's spec or metadata could not be written.
    #[error("cannot update volume {volume}")]
    WriteVolume {
        /// The volume.
        volume: String,
        /// What the server said.
        source: kube::Error,
    },
    /// A volume's status could not be written.
    #[error("cannot update the status of volume {volume}")]
    WriteVolumeStatus {
        /// The volume.
        volume: String,
        /// What the server said.
        source: kube::Error,
    },
    /// A claim's spec or metadata could not be written.
    #[error("cannot update claim {claim}")]
    WriteClaim {
        /// The claim, `namespace/name`.
        claim: String,
        /// What the server said.
        source: kube::Error,
    },
    /// A claim's status could not be written.
    #[error("cannot update the status of claim {claim}")]
    WriteClaimStatus {
        /// The claim, `namespace/name`.
        claim: String,
        /// What the server said.
        source: kube::Error,
    },
    /// A volume could not be read from the server.
    #[error("cannot read volume {volume}")]
    ReadVolume {
        /// The volume.
        volume: String,
        /// What the server said.
        source: kube::Error,
    },
    /// A claim could not be read from the server.
    #[error("cannot read claim {claim}")]
    ReadClaim {
        /// The claim, `namespace/name`.
        claim: String,
        /// What the server said.
        source: kube::Error,
    },
    /// The pods that may use a volume could not be read.
    #[error("cannot read the pods that use claim {claim}")]
    ListPods {
        /// The claim, `namespace/name`.
        claim: String,
        /// What the server said.
        source: kube::Error,
    },
    /// A volume object could not be deleted.
    #[error("cannot delete volume {volume}")]
    DeleteVolume {
        /// The volume.
        volume: String,
        /// What the server said.
        source: kube::Error,
    },
    /// A plugin failed; the volume says so already.
    #[error("cannot reclaim volume {volume}: {message}")]
    Reclaim {
        /// The volume.
        volume: String,
        /// The plugin's words.
        message: String,
    },
    /// Provisioning failed; the claim says so already.
    #[error("cannot provision a volume for claim {claim}: {message}")]
    Provision {
        /// The claim, `namespace/name`.
        claim: String,
        /// What went wrong.
        message: String,
    },
    /// The claim names a volume by a controller's hand, and the volume belongs to somebody else.
    #[error(
        "invalid binding of claim {claim} to volume {volume}: the volume is already bound to a different claim; \
             delete the claim, or clear its spec.volumeName by making it anew"
    )]
    Stolen {
        /// The claim, `namespace/name`.
        claim: String,
        /// The volume.
        volume: String,
    },
    /// The claim's class does not say when to bind.
    #[error("cannot decide when to bind claim {claim}")]
    BindingMode {
        /// The claim, `namespace/name`.
        claim: String,
        /// Which class.
        source: NoBindingMode,
    },
    /// The volume does not say how big it is.
    #[error("cannot finish binding claim {claim}")]
    Capacity {
        /// The claim, `namespace/name`.
        claim: String,
        /// Which volume.
        source: NoCapacity,
    },
    /// An object's version is no number.
    #[error(transparent)]
    Version(#[from] BadVersion),
}

/// A capacity that a claim's status needs and that the volume does not say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCapacity {
    /// There is none.
    #[error("PersistentVolume {volume:?} is without a storage capacity; set spec.capacity.storage")]
    Missing {
        /// The volume.
        volume: String,
    },
    /// The annotation with the size before a resize is no quantity.
    #[error(
        "PersistentVolume {volume:?}: the annotation with the size before the resize, {text:?}, is no quantity"
    )]
    BeforeResize {
        /// The volume.
        volume: String,
        /// What it says.
        text: String,
    },
}

impl SyncError {
    /// What the server answered, if it was the server.
    pub fn server_error(&self) -> Option<&kube::Error> {
        match self {
            Self::WriteVolume { source, .. }
            | Self::WriteVolumeStatus { source, .. }
            | Self::WriteClaim { source, .. }
            | Self::WriteClaimStatus { source, .. }
            | Self::ReadVolume { source, .. }
            | Self::ReadClaim { source, .. }
            | Self::ListPods { source, .. }
            | Self::DeleteVolume { source, .. } => Some(source),
            Self::Reclaim { .. }
            | Self::Provision { .. }
            | Self::Stolen { .. }
            | Self::BindingMode { .. }
            | Self::Capacity { .. }
            | Self::Version(_) => None,
        }
    }

    /// Somebody else was faster: nothing is wrong, the next look sees the newer object.
    pub fn is_conflict(&self) -> bool {
        self.server_error().is_some_and(client::is_conflict)
    }
}

/// An error with all its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
