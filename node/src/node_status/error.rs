//! Errors of writing the Node or its Lease.

use orlop_client::client::{message_of, status_of};

/// What could not be done with Node or Lease; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum NodeStatusError {
    /// The server refused, or the request failed on the way.
    #[error("cannot {what}: {}", in_words(cause))]
    Request {
        /// What was to be done.
        what: &'static str,
        /// Why not.
        cause: kube::Error,
    },
    /// The server took too long.
    #[error("cannot {what}: the server does not answer")]
    NoAnswer {
        /// What was to be done.
        what: &'static str,
    },
}

/// What a server that knows nobody here says is of no use without what to do.
fn in_words(cause: &kube::Error) -> String {
    match status_of(cause) {
        Some(status) if status.code == 401 => {
            "the server does not know who this is (Unauthorized): give the right --token-file, or a --kubeconfig".to_owned()
        }
        Some(_) | None => message_of(cause),
    }
}
