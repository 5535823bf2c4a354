//! The configuration of the audit log.
//!
//! Upstream: apiserver `pkg/server/options/audit.go`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use orlop_auth::audit::Policy;

/// The policy and the destinations.
#[derive(Clone)]
pub struct AuditConfig {
    /// Which requests are recorded.
    pub policy: Policy,
    /// The log.
    pub log: Option<LogConfig>,
    /// The webhook.
    pub webhook: Option<WebhookConfig>,
}

/// The audit log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Where it is written.
    pub target: LogTarget,
    /// The form of a line.
    pub format: LogFormat,
    /// The limits of its files.
    pub rotation: Rotation,
    /// How events get there.
    pub delivery: Delivery,
}

/// Where the log is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// The standard output.
    Stdout,
    /// A file. Older events are in files beside it.
    File(PathBuf),
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object.
    Json,
    /// A line of text.
    Legacy,
}

/// The limits of the files. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Maximum size of a file, bytes.
    pub max_bytes: u64,
    /// Maximum number of files beside the current one.
    pub max_backups: usize,
    /// How long these are retained.
    pub max_age: Duration,
    /// Compress them.
    pub compress: bool,
}

/// The webhook.
#[derive(Clone)]
pub struct WebhookConfig {
    /// Sends a request.
    pub post: Post,
    /// The time between a failed request and its first repetition.
    pub initial_backoff: Duration,
    /// How events get there.
    pub delivery: Delivery,
}

/// Sends a JSON document to the webhook. The caller bounds its time.
pub type Post = Arc<dyn Fn(Bytes) -> BoxFuture<'static, Result<(), PostError>> + Send + Sync>;

/// Why the webhook did not accept a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PostError {
    /// The cause.
    pub message: String,
    /// The same request may succeed later.
    pub is_temporary: bool,
}

/// How events get to the log or the webhook.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivery {
    /// Whether requests wait for it.
    pub mode: DeliveryMode,
    /// The batches.
    pub batch: BatchConfig,
}

/// Whether requests wait until their events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    /// They do not wait. Events that do not fit in the queue are dropped.
    Batch,
    /// They wait, at most for [`BLOCKING_LIMIT`], and continue if the event is not written.
    Blocking,
    /// They wait, and are rejected if the event of their arrival is not written.
    BlockingStrict,
}

/// The longest time for which a request waits for its event.
pub const BLOCKING_LIMIT: Duration = Duration::from_secs(5);

/// The queue and its batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchConfig {
    /// Maximum number of events in the queue.
    pub buffer_size: usize,
    /// Maximum number of events in a batch.
    pub max_size: usize,
    /// How long an event waits for others.
    pub max_wait: Duration,
    /// The rate of batches; `None` for no limit.
    pub throttle: Option<Throttle>,
}

/// A rate of batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Batches per second on average.
    pub qps: f64,
    /// Batches in immediate succession.
    pub burst: u32,
}
