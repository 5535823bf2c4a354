//! The revision counter, which orders all writes.

use std::fmt;

/// The number of a write: dense and increasing across all keys. `Revision::ZERO` is the state
/// before the first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The state before the first write.
    pub const ZERO: Revision = Revision(0);

    /// The revision after this one.
    pub fn next(self) -> Self {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
