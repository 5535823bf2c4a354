//! Points between a check and its use at which another process may replace a name by a link. Tests hook these
//! points to do so; outside tests they do nothing.

use std::path::Path;

/// A race point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RacePoint {
    /// An entry was listed in its directory and is not opened yet.
    Seen,
    /// The entry was opened, and nothing was done with it yet.
    Opened,
    /// The entries of a directory are about to be read.
    Descend,
}

/// Marks that a race point is reached. `path` is relative to the root.
#[cfg(not(any(test, feature = "testing")))]
#[inline]
pub fn at(_: RacePoint, _: &Path) {}

#[cfg(any(test, feature = "testing"))]
pub use hooks::{at, with};

#[cfg(any(test, feature = "testing"))]
mod hooks {
    use std::cell::RefCell;

    use super::{Path, RacePoint};

    type Hook = Box<dyn FnMut(RacePoint, &Path)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Calls the hook for a race point.
    pub fn at(moment: RacePoint, path: &Path) {
        HOOK.with_borrow_mut(|hook| {
            if let Some(hook) = hook {
                hook(moment, path);
            }
        });
    }

    /// Runs `walk` in this thread with a hook for its race points.
    pub fn with<T>(hook: impl FnMut(RacePoint, &Path) + 'static, walk: impl FnOnce() -> T) -> T {
        HOOK.set(Some(Box::new(hook)));
        let outcome = walk();
        HOOK.set(None);
        outcome
    }
}
