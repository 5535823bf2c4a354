//! Moments between a look and what is done then, in which somebody may swap a name for a link. Tests wait there and do it; nobody else does
//! anything.

use std::path::Path;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RacePoint {
    /// An entry was seen in its directory, and is not opened yet.
    Seen,
    /// It was opened, and nothing was done with it yet.
    Opened,
    /// What is in a directory is about to be read.
    Descend,
}

/// The walk is there. `path` is how it names the place.
#[cfg(not(test))]
#[inline]
pub(crate) fn at(_: RacePoint, _: &Path) {}

#[cfg(test)]
pub(crate) use tests::{at, with};

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{Path, RacePoint};

    type Hook = Box<dyn FnMut(RacePoint, &Path)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// The walk is there.
    pub(crate) fn at(moment: RacePoint, path: &Path) {
        HOOK.with_borrow_mut(|hook| {
            if let Some(hook) = hook {
                hook(moment, path);
            }
        });
    }

    /// Runs a walk in this thread whose moments somebody else uses.
    pub(crate) fn with<T>(hook: impl FnMut(RacePoint, &Path) + 'static, walk: impl FnOnce() -> T) -> T {
        HOOK.set(Some(Box::new(hook)));
        let outcome = walk();
        HOOK.set(None);
        outcome
    }
}
