//! The key of a pod in the queue.

use std::sync::Arc;

/// The key of a pod.
pub type Key = Arc<str>;
