//! The modes in which users impersonate others.
//!
//! Upstream: apiserver `pkg/endpoints/filters/impersonation/cache.go` (modeIndexCache).

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use orlop_auth::impersonation::Mode;
use parking_lot::Mutex;

/// Maximum number of users whose last mode is known (upstream).
const MAX_USERS: usize = 10_000;

/// The mode in which each user has last impersonated another one. As upstream, its next request tries this mode first, which saves
/// the checks of the modes before it. A user with the rights of several modes gets the groups of that mode.
#[derive(Default)]
pub(super) struct LastModes {
    /// By the hash of the user name. A collision only changes the order of the modes.
    modes: Mutex<HashMap<u64, Mode>>,
    hasher: RandomState,
}

impl LastModes {
    /// The mode of a user; `None` if it is not known.
    pub(super) fn of(&self, user: &str) -> Option<Mode> {
        self.modes.lock().get(&self.hasher.hash_one(user)).copied()
    }

    /// Sets the mode of a user.
    pub(super) fn set(&self, user: &str, mode: Mode) {
        let mut modes = self.modes.lock();
        if modes.len() >= MAX_USERS {
            modes.clear();
        }
        modes.insert(self.hasher.hash_one(user), mode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_last_modes_is_bounded() {
        let modes = LastModes::default();
        for number in 0..MAX_USERS + 2 {
            modes.set(&number.to_string(), Mode::Legacy);
        }
        assert!(modes.modes.lock().len() <= MAX_USERS);
        assert_eq!(modes.of(&(MAX_USERS + 1).to_string()), Some(Mode::Legacy));
        assert_eq!(modes.of("another user"), None);
    }
}
