//! Errors of a workload sync. All of them are retried.

use orlop_client::client::message_of;

/// Why the sync of a workload failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A request failed.
    #[error("cannot {what} {object}: {}", message_of(.cause))]
    Api {
        /// The attempted action.
        what: &'static str,
        /// Kind and key of the object.
        object: String,
        /// The API error.
        cause: kube::Error,
    },
    /// The object on the server has another UID than the cached one, is being deleted, or is gone.
    #[error("{object} is another one by now or is being deleted; nothing is adopted for it")]
    Replaced {
        /// Kind and key of the object.
        object: String,
    },
    /// A claim of the pod is being deleted, so the pod would lose it.
    #[error("pvc {claim} is being deleted")]
    ClaimTerminating {
        /// Name of the claim.
        claim: String,
    },
    /// The name of a new ReplicaSet is taken, by that ReplicaSet itself or by another one. The next sync resolves
    /// it.
    #[error("the name {name} of the new ReplicaSet is taken; it is looked at again")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The pod template in a revision cannot be decoded.
    #[error("revision {revision} contains no pod template: {cause}")]
    Revision {
        /// Name of the ControllerRevision.
        revision: String,
        /// The decoding error.
        cause: String,
    },
}

impl WorkloadError {
    /// For `map_err`: creates the error of a failed request for this object.
    pub fn api(what: &'static str, object: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let object = object.into();
        move |cause| Self::Api { what, object, cause }
    }

    /// The text for events and conditions: for an API error, only the server's message, if there is one.
    pub fn message(&self) -> String {
        match self {
            Self::Api { cause, .. } => message_of(cause),
            Self::Replaced { .. }
            | Self::ClaimTerminating { .. }
            | Self::NameTaken { .. }
            | Self::Revision { .. } => self.to_string(),
        }
    }
}
