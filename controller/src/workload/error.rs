//! Why a sync of a workload did not end well. All of it is tried again.

use orlop_client::client::message_of;

/// One request failed, or a few of a batch.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A request failed.
    #[error("cannot {what} {object}: {}", message_of(.cause))]
    Api {
        /// What was tried.
        what: &'static str,
        /// Kind and key of the object.
        object: String,
        /// Why.
        cause: kube::Error,
    },
    /// The cached object is not the one that the server has under this name.
    #[error("{object} is another one by now or is being deleted; nothing is adopted for it")]
    Replaced {
        /// Kind and key of the object.
        object: String,
    },
    /// A claim of a pod is on its way out, so the pod would lose it.
    #[error("pvc {claim} is being deleted")]
    ClaimTerminating {
        /// Name of the claim.
        claim: String,
    },
    /// The name of a new ReplicaSet is taken, by that very set or by another one. The next sync knows.
    #[error("the name {name} of the new ReplicaSet is taken; it is looked at again")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The pod template that a revision holds cannot be read.
    #[error("revision {revision} holds no pod template: {cause}")]
    Revision {
        /// Name of the ControllerRevision.
        revision: String,
        /// What is wrong.
        cause: String,
    },
}

impl WorkloadError {
    /// For `map_err`: a request about this object failed.
    pub fn api(what: &'static str, object: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let object = object.into();
        move |cause| Self::Api { what, object, cause }
    }

    /// The text for events and conditions: the server's words alone where there are some.
    pub fn told(&self) -> String {
        match self {
            Self::Api { cause, .. } => message_of(cause),
            Self::Replaced { .. }
            | Self::ClaimTerminating { .. }
            | Self::NameTaken { .. }
            | Self::Revision { .. } => self.to_string(),
        }
    }
}
