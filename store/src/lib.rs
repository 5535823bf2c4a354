//! A revisioned key-value store of bytes, independent of Kubernetes types and of JSON.
//!
//! # The contract (one suite tests both backends against it)
//!
//! * A **commit** is a list of writes, applied atomically. Every write has an expectation (the key is absent,
//!   or its record has this revision), checked against the state after all earlier commits, including those
//!   of the same group.
//! * A commit may have **guards**: keys and ranges that it depends on without writing them. They are checked
//!   against the same state, and produce no revision and no event.
//! * Every write gets its own **revision**: dense, increasing, across all keys. The writes of one commit get
//!   consecutive revisions, and no reader sees a part of a commit.
//! * A commit is **acknowledged** only when it would survive a power failure, and only then can a reader or a
//!   watch see it.
//! * A **watch** after revision R delivers every later event of its prefix once and in order, or ends with
//!   `Expired`. There is never a silent gap.
//! * The **log** can be read as a whole: the events of all keys in order, in pages, and the revision at a
//!   given time (time stamps never decrease in the log).
//! * **Compaction** drops versions that were replaced or deleted at or before a revision. Reads and watches
//!   below it are `Expired`; current records are never dropped.
//! * When the disk is nearly full, writes that grow the store are refused (`Full`); deletes, reads and
//!   watches continue. When space is free again, writes are accepted again automatically.
//! * When it is unknown whether a write is on disk (a failed sync), the store is **poisoned**: it stops
//!   acknowledging, reports why, and no revision is ever used twice.
//!
//! Reading order: [`revision`], [`key`], [`record`] define the terms; [`kv`] is the contract as a trait;
//! [`snapshot`] reads; [`watch`] follows changes; `memory` is the oracle; `embedded` is the durable store;
//! `archive` saves it to a file.

pub mod archive;
pub mod clock;
mod commit;
mod data_size;
pub mod embedded;
pub mod error;
mod future;
pub mod guard;
pub mod key;
pub mod kv;
pub mod memory;
pub mod memory_budget;
mod memory_former;
mod moment;
pub mod record;
pub mod revision;
pub mod snapshot;
pub mod stored;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transform;
pub mod watch;
mod write;

pub use clock::{Clock, ManualClock, SystemClock};
pub use data_size::DataBytes;
pub use embedded::accepted_loss::accept_loss;
pub use embedded::check::{CheckOptions, CheckOutcome, FileState, Line, Report, check};
pub use embedded::loss_record::AcceptedLoss;
pub use embedded::{CONTINUITY, DiskSpace, Embedded, Options, Redact, Retention, Sensitive, Space};
pub use error::{CommitError, OpenError, ReadError, WatchError};
pub use future::BoxFuture;
pub use guard::Guard;
pub use key::Key;
pub use kv::{Kv, Usage};
pub use memory::{Memory, MemoryOptions};
pub use memory_budget::{MemoryBudget, OutOfMemory, ReservedMemory};
pub use moment::revision_at;
pub use record::{Event, Record, View};
pub use revision::Revision;
pub use snapshot::Snapshot;
pub use stored::{Stored, TransformError};
pub use transform::{Decoded, Transformer};
pub use watch::{RingLimits, Watcher};
pub use write::{Committed, Expect, Op, Write};
