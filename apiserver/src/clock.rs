//! The clock of a server.

use std::sync::Arc;

use jiff::Timestamp;

/// Returns the current time. Tests replace it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
