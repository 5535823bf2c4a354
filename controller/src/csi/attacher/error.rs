//! What can go wrong with one attachment, and what of it is told on the attachment.

use orlop_csi::error::CallError;

use super::decide::AttachRefusal;
use crate::csi::secrets::SecretError;
use orlop_client::client::{is_conflict, message_of, status_of};

/// An error as it stands on an attachment.
pub(super) struct RecordedError {
    /// In words.
    pub(super) message: String,
    /// Of gRPC, when the driver or the way to it failed.
    pub(super) code: Option<i32>,
}

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The objects do not allow it.
    #[error(transparent)]
    Refused(#[from] AttachRefusal),
    /// The secret of the call cannot be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The driver refused, or nobody knows what it did.
    #[error(transparent)]
    Driver(#[from] CallError),
    /// The API server could not be read from or written to.
    #[error("could not {what}: {}", message_of(cause))]
    Api {
        /// In words.
        what: &'static str,
        /// What the server said.
        cause: kube::Error,
    },
    /// Others write all the time.
    #[error("the attachment changes all the time; it is tried again")]
    Busy,
}

impl Failure {
    /// A failure to do `what` with the API server.
    pub(super) fn api(what: &'static str) -> impl Fn(kube::Error) -> Failure {
        move |cause| Failure::Api { what, cause }
    }

    /// What is told on the attachment: everything that a person may have to mend. A server that is away is not told to
    /// itself.
    pub(super) fn told(&self) -> Option<RecordedError> {
        let code = match self {
            Failure::Refused(_) | Failure::Secret(_) => None,
            Failure::Driver(error) => Some(error.code as i32),
            Failure::Api { cause, .. } if status_of(cause).is_some() && !is_conflict(cause) => None,
            Failure::Api { .. } | Failure::Busy => return None,
        };
        Some(RecordedError { message: self.to_string(), code })
    }
}
