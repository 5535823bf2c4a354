//! Objects that the resync can skip: a bound pair, or a free Available volume, whose last sync had nothing to do.
//! The result depends on these two objects alone, so while neither changes its version, the next sync would have
//! the same result. Without skipping, an idle cluster decodes every volume and claim at every resync.
//!
//! Everything else is synced at every resync: waiting, released and failed objects, and those that differ between
//! the caches and the controller's own stores.

/// The result of the last sync of an object in this version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The sync had something to do, or has not run.
    #[default]
    No,
    /// Nothing to do, independent of other objects.
    Alone,
    /// Nothing to do while the volume or claim on the other side has this version.
    With(u64),
}
