//! Errors of a sync: one variant per operation, with the object's key. The text does not repeat the source;
//! `chain` writes both.

use super::cache::BadVersion;
use orlop_client::client;
use orlop_volume::class::NoBindingMode;

/// Why a sync failed. Only the affected key is queued again, with a delay.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// A volume's spec or metadata could not be written.
    #[error("cannot update volume {volume}")]
    WriteVolume {
        /// The volume.
        volume: String,
        /// The server's error.
        source: kube::Error,
    },
    /// A volume's status could not be written.
    #[error("cannot update the status of volume {volume}")]
    WriteVolumeStatus {
        /// The volume.
        volume: String,
        /// The server's error.
        source: kube::Error,
    },
    /// A claim's spec or metadata could not be written.
    #[error("cannot update claim {claim}")]
    WriteClaim {
        /// The claim, `namespace/name`.
        claim: String,
        /// The server's error.
        source: kube::Error,
    },
    /// A claim's status could not be written.
    #[error("cannot update the status of claim {claim}")]
    WriteClaimStatus {
        /// The claim, `namespace/name`.
        claim: String,
        /// The server's error.
        source: kube::Error,
    },
    /// A volume could not be read from the server.
    #[error("cannot read volume {volume}")]
    ReadVolume {
        /// The volume.
        volume: String,
        /// The server's error.
        source: kube::Error,
    },
    /// A claim could not be read from the server.
    #[error("cannot read claim {claim}")]
    ReadClaim {
        /// The claim, `namespace/name`.
        claim: String,
        /// The server's error.
        source: kube::Error,
    },
    /// The pods that may use a volume could not be read.
    #[error("cannot read the pods that use claim {claim}")]
    ListPods {
        /// The claim, `namespace/name`.
        claim: String,
        /// The server's error.
        source: kube::Error,
    },
    /// The volumes that may share storage could not be listed.
    #[error("cannot list the volumes to find those that share storage")]
    ListVolumes {
        /// The server's error.
        source: kube::Error,
    },
    /// The volumes could not be compared.
    #[error("cannot compare the storage of the volumes")]
    CompareVolumes {
        /// The error of the thread.
        source: tokio::task::JoinError,
    },
    /// A volume object could not be deleted.
    #[error("cannot delete volume {volume}")]
    DeleteVolume {
        /// The volume.
        volume: String,
        /// The server's error.
        source: kube::Error,
    },
    /// A plugin failed; the failure is already recorded on the volume.
    #[error("cannot reclaim volume {volume}: {message}")]
    Reclaim {
        /// The volume.
        volume: String,
        /// The plugin's error.
        message: String,
    },
    /// Provisioning failed; the failure is already recorded on the claim.
    #[error("cannot provision a volume for claim {claim}: {message}")]
    Provision {
        /// The claim, `namespace/name`.
        claim: String,
        /// The cause.
        message: String,
    },
    /// A controller wrote the volume name into the claim, and the volume belongs to another claim.
    #[error(
        "invalid binding of claim {claim} to volume {volume}: the volume is already bound to a different claim; \
             delete the claim, or create it again without spec.volumeName"
    )]
    Stolen {
        /// The claim, `namespace/name`.
        claim: String,
        /// The volume.
        volume: String,
    },
    /// The claim's class does not specify a binding mode.
    #[error("cannot decide when to bind claim {claim}")]
    BindingMode {
        /// The claim, `namespace/name`.
        claim: String,
        /// The class.
        source: NoBindingMode,
    },
    /// The volume does not specify a capacity.
    #[error("cannot finish binding claim {claim}")]
    Capacity {
        /// The claim, `namespace/name`.
        claim: String,
        /// The volume and its problem.
        source: NoCapacity,
    },
    /// An object's resourceVersion is not a number.
    #[error(transparent)]
    Version(#[from] BadVersion),
}

/// Why a volume lacks the capacity that a claim's status needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCapacity {
    /// The volume has no capacity.
    #[error("PersistentVolume {volume:?} is without a storage capacity; set spec.capacity.storage")]
    Missing {
        /// The volume.
        volume: String,
    },
    /// The annotation with the size before a resize is not a quantity.
    #[error(
        "PersistentVolume {volume:?}: the annotation with the size before the resize, {text:?}, is no quantity"
    )]
    BeforeResize {
        /// The volume.
        volume: String,
        /// The annotation's value.
        text: String,
    },
}

impl SyncError {
    /// The server's error, if the server returned one.
    pub fn server_error(&self) -> Option<&kube::Error> {
        match self {
            Self::WriteVolume { source, .. }
            | Self::WriteVolumeStatus { source, .. }
            | Self::WriteClaim { source, .. }
            | Self::WriteClaimStatus { source, .. }
            | Self::ReadVolume { source, .. }
            | Self::ReadClaim { source, .. }
            | Self::ListPods { source, .. }
            | Self::ListVolumes { source }
            | Self::DeleteVolume { source, .. } => Some(source),
            Self::Reclaim { .. }
            | Self::CompareVolumes { .. }
            | Self::Provision { .. }
            | Self::Stolen { .. }
            | Self::BindingMode { .. }
            | Self::Capacity { .. }
            | Self::Version(_) => None,
        }
    }

    /// Whether the error is a conflict: another writer was faster, and the next sync sees the newer object.
    pub fn is_conflict(&self) -> bool {
        self.server_error().is_some_and(client::is_conflict)
    }
}

/// An error with all of its causes, in one line.
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
