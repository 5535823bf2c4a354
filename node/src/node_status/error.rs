//! Errors of writing the Node or its Lease.

use orlop_client::client::{message_of, status_of};

/// Why the Node or its Lease could not be written; the write is retried.
#[derive(Debug, thiserror::Error)]
pub enum NodeStatusError {
    /// The server refused the request, or the request failed.
    #[error("cannot {what}: {}", in_words(cause))]
    Request {
        /// The operation.
        what: &'static str,
        /// The error.
        cause: kube::Error,
    },
    /// The server did not answer in time.
    #[error("cannot {what}: the server does not answer")]
    NoAnswer {
        /// The operation.
        what: &'static str,
    },
}

/// Adds the remedy to an Unauthorized answer of the server.
fn in_words(cause: &kube::Error) -> String {
    match status_of(cause) {
        Some(status) if status.code == 401 => {
            "the server does not accept the credentials (Unauthorized): set the right --token-file, or a --kubeconfig".to_owned()
        }
        Some(_) | None => message_of(cause),
    }
}
