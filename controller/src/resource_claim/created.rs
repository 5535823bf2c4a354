//! The claims that this process has created and that its cache may not contain yet.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The keys of the claims, by the UID of their pod and by the entry in the pod's `spec.resourceClaims`. A claim is removed as soon as
/// the cache contains it, or when its pod is deleted.
#[derive(Default)]
pub(super) struct CreatedClaims(Mutex<HashMap<String, HashMap<String, String>>>);

impl CreatedClaims {
    /// Adds the claim of an entry.
    pub(super) fn add(&self, pod: &str, entry: &str, claim: &str) {
        let mut all = self.0.lock();
        all.entry(pod.to_owned()).or_default().insert(entry.to_owned(), claim.to_owned());
    }

    /// The claim of an entry.
    pub(super) fn get(&self, pod: &str, entry: &str) -> Option<String> {
        self.0.lock().get(pod)?.get(entry).cloned()
    }

    /// Removes the claim of an entry.
    pub(super) fn remove(&self, pod: &str, entry: &str, claim: &str) {
        let mut all = self.0.lock();
        let Some(entries) = all.get_mut(pod) else { return };
        if entries.get(entry).is_some_and(|known| known == claim) {
            entries.remove(entry);
        }
        if entries.is_empty() {
            all.remove(pod);
        }
    }

    /// Removes the claims of a deleted pod.
    pub(super) fn remove_pod(&self, pod: &str) {
        self.0.lock().remove(pod);
    }

    /// Whether there is no claim.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
