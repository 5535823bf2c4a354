//! The committer: one thread that turns queued requests into durable, published groups.
//!
//! The committer takes all queued requests (within bounds), checks the expectations of each against the
//! head and the earlier requests of the group, assigns revisions, makes the whole group durable with one
//! sync, publishes it, and answers. Latency is one sync; throughput is group size times sync rate.
//!
//! When a group could not be made durable, its outcome is unknown and the store is poisoned: no further
//! request is acknowledged, nothing of the group is published, and no revision is assigned until the store
//! has been reopened and has read the disk.

mod committer;
mod durable;
mod published;
mod queue;

pub(crate) use self::committer::start;
pub(crate) use self::durable::{AppendError, Durable, Shortage};
pub(crate) use self::published::{Head, Published};
pub(crate) use self::queue::{Queue, Rotator, WriteOptions, check_sizes};

#[cfg(test)]
mod tests;
