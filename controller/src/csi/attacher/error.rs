//! Errors of one attachment, and which of them are recorded on it.

use orlop_csi::error::CallError;

use super::decide::AttachRefusal;
use orlop_client::client::{is_conflict, message_of, status_of};
use orlop_volume::csi::secrets::SecretError;

/// An error as recorded on an attachment.
pub(super) struct RecordedError {
    /// The failed action.
    pub(super) message: String,
    /// The gRPC code, when the driver or the connection to it failed.
    pub(super) code: Option<i32>,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The objects do not allow the step.
    #[error(transparent)]
    Refused(#[from] AttachRefusal),
    /// The secret of the call cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The driver refused the call, or its outcome is unknown.
    #[error(transparent)]
    Driver(#[from] CallError),
    /// The API server could not be read from or written to.
    #[error("could not {what}: {}", message_of(cause))]
    Api {
        /// The message.
        what: &'static str,
        /// The server's error.
        cause: kube::Error,
    },
    /// Too many write conflicts.
    #[error("the attachment changes all the time; it is tried again")]
    Busy,
}

impl Failure {
    /// A failure of the API server to do `what`.
    pub(super) fn api(what: &'static str) -> impl Fn(kube::Error) -> Failure {
        move |cause| Failure::Api { what, cause }
    }

    /// The error to record on the attachment: every error that a user may have to fix. An unreachable API server cannot be
    /// recorded in the API server.
    pub(super) fn recorded_error(&self) -> Option<RecordedError> {
        let code = match self {
            Failure::Refused(_) | Failure::Secret(_) => None,
            Failure::Driver(error) => Some(error.code as i32),
            Failure::Api { cause, .. } if status_of(cause).is_some() && !is_conflict(cause) => None,
            Failure::Api { .. } | Failure::Busy => return None,
        };
        Some(RecordedError { message: self.to_string(), code })
    }
}
