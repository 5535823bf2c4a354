//! Tracks creations and deletions in flight. The cache does not yet contain a controller's latest writes, so a
//! sync that relied on it would create the same pods again. The controller therefore records the expected
//! changes before it writes, change handlers remove those that they observe, and until none is left the number
//! of pods is not changed. Upstream: pkg/controller/controller_utils.go, ControllerExpectations.
//!
//! Expectations belong to one UID: a sync of a deleted workload may still record some after a workload with the same key is created,
//! whose pods never meet them.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

/// After this time, an expected change is considered lost: the watch was interrupted, and the new list did not
/// contain the change. Upstream: 5 min.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The expectations by key of the workload.
#[derive(Default)]
pub struct Expectations(Mutex<HashMap<String, Expected>>);

struct Expected {
    /// The UID of the workload.
    uid: String,
    creations: usize,
    /// Keys of pods.
    deletions: HashSet<String>,
    since: Instant,
}

impl Expectations {
    /// Expects this number of pods to be created.
    pub fn creations(&self, key: &str, uid: &str, count: usize) {
        self.changes(key, uid, count, []);
    }

    /// Expects these pods to be deleted.
    pub fn deletions(&self, key: &str, uid: &str, pods: impl IntoIterator<Item = String>) {
        self.changes(key, uid, 0, pods);
    }

    /// Expects this number of pods to be created, and these pods to be deleted.
    pub fn changes(
        &self,
        key: &str,
        uid: &str,
        creations: usize,
        deletions: impl IntoIterator<Item = String>,
    ) {
        let (uid, deletions) = (uid.to_owned(), deletions.into_iter().collect());
        self.lock().insert(key.to_owned(), Expected { uid, creations, deletions, since: Instant::now() });
    }

    /// Records that a pod was created or its creation failed.
    pub fn created(&self, key: &str) {
        if let Some(expected) = self.lock().get_mut(key) {
            expected.creations = expected.creations.saturating_sub(1);
        }
    }

    /// Records that a pod is deleted or its deletion failed.
    pub fn deleted(&self, key: &str, pod: &str) {
        if let Some(expected) = self.lock().get_mut(key) {
            expected.deletions.remove(pod);
        }
    }

    /// Whether all expected changes of this workload were observed or have expired. Removes the expectations of a workload with another
    /// UID.
    pub fn are_met(&self, key: &str, uid: &str) -> bool {
        let mut expectations = self.lock();
        let Some(expected) = expectations.get(key) else { return true };
        let met = expected.creations == 0 && expected.deletions.is_empty();
        if met || expected.uid != uid || expected.since.elapsed() >= TIMEOUT {
            expectations.remove(key);
            return true;
        }
        false
    }

    /// The time until the outstanding expectations expire.
    pub fn patience(&self, key: &str) -> Option<Duration> {
        self.lock().get(key).map(|expected| TIMEOUT.saturating_sub(expected.since.elapsed()))
    }

    /// Removes the expectations of a deleted workload.
    pub fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Expected>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn expectations_are_met_when_all_are_observed_or_expired() {
        let expectations = Expectations::default();
        assert!(expectations.are_met("ns/a", "u"), "nothing is expected");
        expectations.creations("ns/a", "u", 2);
        expectations.created("ns/b");
        expectations.created("ns/a");
        assert!(!expectations.are_met("ns/a", "u"));
        expectations.created("ns/a");
        assert!(expectations.are_met("ns/a", "u"));
        expectations.created("ns/a");

        expectations.deletions("ns/a", "u", ["ns/p".to_owned(), "ns/q".to_owned()]);
        expectations.deleted("ns/a", "ns/p");
        expectations.deleted("ns/a", "ns/p");
        assert!(!expectations.are_met("ns/a", "u"), "one pod is struck off once");
        expectations.deleted("ns/a", "ns/q");
        assert!(expectations.are_met("ns/a", "u"));

        expectations.changes("ns/a", "u", 1, ["ns/p".to_owned()]);
        expectations.deleted("ns/a", "ns/p");
        assert!(!expectations.are_met("ns/a", "u"), "a pod is still to be created");
        expectations.created("ns/a");
        assert!(expectations.are_met("ns/a", "u"));

        expectations.creations("ns/a", "u", 1);
        tokio::time::advance(TIMEOUT - Duration::from_secs(1)).await;
        assert_eq!(expectations.patience("ns/a"), Some(Duration::from_secs(1)));
        assert!(!expectations.are_met("ns/a", "u"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(expectations.are_met("ns/a", "u"), "it is given up");

        expectations.creations("ns/a", "u", 1);
        expectations.forget("ns/a");
        assert!(expectations.are_met("ns/a", "u"));
    }
    #[test]
    fn expectations_of_a_deleted_workload_do_not_concern_its_successor() {
        let expectations = Expectations::default();
        expectations.changes("ns/a", "old", 250, ["ns/p".to_owned()]);
        assert!(!expectations.are_met("ns/a", "old"));
        assert!(expectations.are_met("ns/a", "new"));
        assert_eq!(expectations.patience("ns/a"), None, "they are removed");
    }
}
