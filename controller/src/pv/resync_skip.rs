//! What the resync may leave out. A bound pair, or a volume that is nobody's and Available, was looked at and nothing was
//! to do; the look depends on these two objects alone. As long as neither has another version, the next look would find
//! the same. Without this a cluster at rest costs a decoded object for every volume and claim at every resync.
//!
//! Everything else is looked at at every resync: what waits, what is released, what failed, and what the caches and the
//! own stores do not agree about.

/// What the last look at an object in this version said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settled {
    /// Something was to do, or it was not looked at.
    #[default]
    No,
    /// Nothing is to do, whatever happens to others.
    Alone,
    /// Nothing is to do as long as the volume or claim on the other side has this version.
    With(u64),
}
