//! The log of the committer.

use std::sync::Arc;

use crate::data_size::WriteSize;
use crate::{Event, Revision};

/// The disk has too little free space for a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// Free bytes.
    pub(crate) free: u64,
    /// Required bytes.
    pub(crate) needed: u64,
    /// The directory on that disk.
    pub(crate) place: Arc<str>,
}

/// The log that makes groups durable.
pub(crate) trait Durable<V>: Send + 'static {
    /// Blocks while the backlog is full. A shortage means that the backlog cannot shrink for now, an error
    /// that it never will.
    fn wait_for_space(&mut self) -> Result<Option<Shortage>, String>;

    /// Whether the disk has space for a commit. Each write is a key with the sizes of its current and its new
    /// value.
    fn admits(&mut self, writes: &[WriteSize<'_>]) -> Result<(), Shortage>;

    /// Makes a group durable.
    fn append(&mut self, events: &[Arc<Event<V>>]) -> Result<(), AppendError>;

    /// Receives a durable group before it is published.
    fn durable(&mut self, events: &[Arc<Event<V>>]);

    /// Starts a new segment of the log. Returns the newest revision in the other segments.
    fn rotate(&mut self) -> Result<Revision, AppendError>;
}

/// Why a group was not made durable.
#[derive(Clone, Debug)]
pub(crate) enum AppendError {
    /// The disk is full, and the bytes already written have been removed, as if the append had not been tried.
    NoSpace(Shortage),
    /// The state on disk is unknown.
    Unknown(String),
}
