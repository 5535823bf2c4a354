//! Tracks removals of finalizers in flight: the cache may still show a finalizer that was removed, and the pod would be counted
//! twice. Upstream: tracking_utils.go, uidTrackingExpectations.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

/// The UIDs of pods whose finalizer was removed, by key of the Job.
#[derive(Default)]
pub struct RemovedFinalizers(Mutex<HashMap<String, HashSet<String>>>);

impl RemovedFinalizers {
    /// Expects the finalizers of these pods to be removed.
    pub fn expect(&self, key: &str, uids: impl IntoIterator<Item = String>) {
        self.0.lock().entry(key.to_owned()).or_default().extend(uids);
    }

    /// Records that the cache shows the pod without the finalizer, or that the removal failed.
    pub fn observed(&self, key: &str, uid: &str) {
        let mut all = self.0.lock();
        let Some(uids) = all.get_mut(key) else { return };
        uids.remove(uid);
        if uids.is_empty() {
            all.remove(key);
        }
    }

    /// The pods that the cache still shows with the finalizer.
    pub fn expected(&self, key: &str) -> HashSet<String> {
        self.0.lock().get(key).cloned().unwrap_or_default()
    }

    /// Forgets the pods of a deleted Job.
    pub fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_are_expected_until_they_are_observed() {
        let removed = RemovedFinalizers::default();
        removed.expect("ns/a", ["1".to_owned(), "2".to_owned()]);
        removed.observed("ns/a", "1");
        removed.observed("ns/b", "2");
        assert_eq!(removed.expected("ns/a"), HashSet::from(["2".to_owned()]));
        removed.observed("ns/a", "2");
        assert!(removed.expected("ns/a").is_empty() && removed.0.lock().is_empty());
        removed.expect("ns/a", ["3".to_owned()]);
        removed.forget("ns/a");
        assert!(removed.expected("ns/a").is_empty());
    }
}
