//! The settings of a webhook that reviews tokens.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

/// Maximum size of an answer, bytes.
pub const MAX_ANSWER: usize = 256 * 1024;

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReviewPostError {
    /// The error; never the token.
    pub message: String,
    /// Whether another attempt may succeed.
    pub is_temporary: bool,
}

/// Posts a document to the webhook and returns its answer of at most [`MAX_ANSWER`] bytes.
pub type ReviewPost = Arc<dyn Fn(Bytes) -> BoxFuture<'static, Result<Bytes, ReviewPostError>> + Send + Sync>;

/// The version of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `authentication.k8s.io/v1`.
    V1,
    /// `authentication.k8s.io/v1beta1`.
    V1beta1,
}

/// A webhook.
#[derive(Clone)]
pub struct WebhookSettings {
    /// Calls the webhook.
    pub post: ReviewPost,
    /// The version of reviews.
    pub version: ReviewVersion,
    /// How long results are valid; zero disables the cache.
    pub cache_ttl: Duration,
}

impl std::fmt::Debug for WebhookSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WebhookSettings").field("version", &self.version).finish_non_exhaustive()
    }
}
