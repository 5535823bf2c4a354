//! The options of a store.

use std::sync::Arc;
use std::time::Duration;

use super::disk_space::{DiskSpace, FileSystem};
use super::files::{Disk, Files};
use super::retention::Retention;
use super::sensitive::Sensitive;
use crate::transform::Transform;
use crate::watch::RingLimits;
use crate::{Clock, MemoryBudget, SystemClock, Transformer};

/// Options of a store.
#[derive(Clone)]
pub struct Options {
    /// How much history is retained.
    pub retention: Retention,
    /// The retention of sensitive records, such as Secrets.
    pub sensitive: Sensitive,
    /// The minimum interval between applications of the retention.
    pub retain_every: Duration,
    /// The maximum size of a value in bytes.
    pub max_value: usize,
    /// The maximum size of all current keys and values in bytes; 0 means no limit.
    pub max_data: u64,
    /// The limits of the watch rings.
    pub rings: RingLimits,
    /// The size in bytes at which a journal segment is closed and the next one starts.
    pub segment_bytes: u64,
    /// A snapshot is taken when the journal has grown by this many bytes (or by as many as the
    /// last snapshot had, if that is more).
    pub snapshot_bytes: u64,
    /// When this many bytes are queued for the served copy, writers wait.
    pub backlog_bytes: usize,
    /// Free bytes below which writes that grow the store are refused. `None` means 64 MiB or a tenth of the
    /// store, whichever is more, but at most an eighth of the disk.
    pub min_free_bytes: Option<u64>,
    /// The size of the ballast file, which is deleted to make space for recovery and deletes when the disk is
    /// completely full. `None` means 16 MiB, or less on a small disk.
    pub ballast_bytes: Option<u64>,
    /// Writes below these prefixes are refused when less than twice the minimum is free. For reproducible
    /// objects.
    pub shed_first: Vec<String>,
    /// Reports the free space of the disk.
    pub disk_space: Arc<dyn DiskSpace>,
    /// The interval after which the served copy is replaced even if it is not too large.
    pub renew_every: Duration,
    /// How long to wait for the lock of a process that is exiting.
    pub lock_wait: Duration,
    /// How long sled may take to open (a large copy gets more time).
    pub open_deadline: Duration,
    /// The memory for reads of old revisions.
    pub memory: Arc<MemoryBudget>,
    /// The clock that stamps the records.
    pub clock: Arc<dyn Clock>,
    /// The file system for journal and snapshots.
    pub files: Arc<dyn Files>,
    /// Transforms values between memory and disk. Without it, records contain the stored form of their values.
    pub transformer: Option<Arc<dyn Transformer>>,
}

impl Options {
    /// The transformer.
    pub(super) fn transform(&self) -> Transform {
        Transform(self.transformer.clone())
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            retention: Retention::default(),
            sensitive: Sensitive::default(),
            retain_every: Duration::from_secs(1),
            max_value: 2 << 20,
            max_data: 0,
            rings: RingLimits::default(),
            segment_bytes: 4 << 20,
            snapshot_bytes: 8 << 20,
            backlog_bytes: 64 << 20,
            min_free_bytes: None,
            ballast_bytes: None,
            shed_first: Vec::new(),
            disk_space: Arc::new(FileSystem),
            renew_every: Duration::from_secs(24 * 3600),
            lock_wait: Duration::from_secs(10),
            open_deadline: Duration::from_secs(120),
            memory: MemoryBudget::new(0),
            clock: Arc::new(SystemClock::default()),
            files: Arc::new(Disk),
            transformer: None,
        }
    }
}
