//! A revisioned key-value store: bytes and revisions. It knows no Kubernetes type and no JSON.
//!
//! # The contract (both backends are held to it by one suite)
//!
//! * A **commit** is a list of writes, carried out as a whole or not at all. Every write has an
//!   expectation (the key is absent, or its record has this revision), checked against the state
//!   that all earlier commits left, those of the same group included.
//! * A commit may have **guards**: keys and ranges that it only rests on. They are checked against that same
//!   state, and nothing is written for them: no revision, no event.
//! * Every write gets a **revision** of its own: dense, increasing, across all keys. The writes of
//!   one commit get consecutive ones, and no reader sees a commit in part.
//! * A commit is **acknowledged** only when it would survive a power cut, and only then can a
//!   reader or a watch see it.
//! * A **watch** after revision R delivers every later event of its prefix once and in order, or
//!   ends with `Expired`. There is never a silent gap.
//! * The **log** can be read as a whole: the events of all keys in order, page by page, and which
//!   revision it was at a time (times never go back in the log).
//! * **Compaction** forgets what was overwritten or deleted at or before a revision. Reads and
//!   watches below it are `Expired`; current records are never touched.
//! * When the disk is nearly full nothing is taken that grows (`Full`); deletes are, and reads and
//!   watches go on. When there is room again so do the writes, by themselves.
//! * When it is unknown whether something is on disk (a failed sync), the store is **poisoned**: it
//!   stops acknowledging, says why, and no revision is ever used twice.
//!
//! Reading order: [`revision`], [`key`], [`record`] are the words; [`kv`] is the contract as a
//! trait; [`snapshot`] is how one reads; [`watch`] is how one follows; `memory` is the oracle;
//! `embedded` is the store that survives; `archive` is what one keeps of it elsewhere.

pub mod archive;
pub mod clock;
mod commit;
pub mod embedded;
pub mod error;
mod future;
pub mod guard;
pub mod key;
pub mod kv;
pub mod memory;
mod moment;
pub mod record;
pub mod revision;
pub mod snapshot;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod watch;
mod write;

pub use clock::{Clock, ManualClock, SystemClock};
pub use embedded::accept::{AcceptedLoss, accept_loss};
pub use embedded::check::{CheckOptions, FileState, Line, Report, Verdict, check};
pub use embedded::{Embedded, Options, Retention, Room, Space};
pub use error::{CommitError, OpenError, ReadError, WatchError};
pub use future::BoxFuture;
pub use guard::Guard;
pub use key::Key;
pub use kv::{Kv, Usage};
pub use memory::{Memory, MemoryOptions};
pub use moment::revision_at;
pub use record::{Event, Record, View};
pub use revision::Revision;
pub use snapshot::Snapshot;
pub use watch::{RingLimits, Watcher};
pub use write::{Committed, Expect, Op, Write};
