//! Tracks the EndpointSlices that a controller has written, so that a sync does not decide on a cache without the latest
//! writes, and so that only changes by other clients cause a sync. Upstream: util/endpointslice_tracker.go.
//!
//! The event of a write can arrive before its response. Then nothing removes the record of a slice that another client has
//! deleted or relabelled, so the tracker removes a record after [`MOST_MISSING`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use orlop_client::informer::Change;
use orlop_client::meta::is_terminating;
use orlop_client::names::LABEL_SERVICE_NAME;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::slice::{is_managed_by, label, service_key};

/// How long a written slice may be missing in the cache.
const MOST_MISSING: Duration = Duration::from_secs(60);

/// The expected state of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Generation(i64),
    Deleted,
}

/// A write of a slice.
struct Record {
    expected: Expected,
    /// When a sync first did not find the slice in the cache.
    missing_since: Option<Instant>,
}

/// The written slices by the key of their Service and by their UID.
#[derive(Default)]
pub struct SliceTracker(Mutex<HashMap<String, HashMap<String, Record>>>);

fn uid(slice: &EndpointSlice) -> &str {
    slice.metadata.uid.as_deref().unwrap_or_default()
}

fn generation(slice: &EndpointSlice) -> i64 {
    slice.metadata.generation.unwrap_or_default()
}

impl SliceTracker {
    fn expect(&self, slice: &EndpointSlice, expected: Expected) {
        let key = service_key(slice).unwrap_or_default();
        self.0
            .lock()
            .entry(key)
            .or_default()
            .insert(uid(slice).to_owned(), Record { expected, missing_since: None });
    }

    fn expected(&self, slice: &EndpointSlice) -> Option<Expected> {
        self.0
            .lock()
            .get(&service_key(slice).unwrap_or_default())?
            .get(uid(slice))
            .map(|record| record.expected)
    }

    /// Records the server's response to a create or update.
    pub fn written(&self, slice: &EndpointSlice) {
        self.expect(slice, Expected::Generation(generation(slice)));
    }

    /// Records a delete.
    pub fn deleted(&self, slice: &EndpointSlice) {
        self.expect(slice, Expected::Deleted);
    }

    /// Removes the slices of a deleted Service.
    pub fn forget(&self, service: &str) {
        self.0.lock().remove(service);
    }

    /// Whether the cached slices of a Service lack a recorded write. `cached` includes slices that are being deleted.
    pub fn is_stale(&self, service: &str, cached: &[Arc<EndpointSlice>]) -> bool {
        let mut all = self.0.lock();
        let Some(records) = all.get_mut(service) else { return false };
        let cached: HashMap<&str, &EndpointSlice> =
            cached.iter().map(|slice| (uid(slice), slice.as_ref())).collect();
        let (now, mut is_stale) = (Instant::now(), false);
        records.retain(|uid, record| {
            let Some(slice) = cached.get(uid.as_str()) else {
                if now - *record.missing_since.get_or_insert(now) > MOST_MISSING {
                    return false;
                }
                is_stale |= record.expected != Expected::Deleted;
                return true;
            };
            record.missing_since = None;
            is_stale |= match record.expected {
                // Its finalizers delay the deletion.
                Expected::Deleted => !is_terminating(*slice),
                Expected::Generation(written) => written > generation(slice),
            };
            true
        });
        is_stale
    }

    /// Whether a cached slice is newer than the recorded write.
    fn is_news(&self, slice: &EndpointSlice) -> bool {
        match self.expected(slice) {
            None => true,
            Some(Expected::Deleted) => true,
            Some(Expected::Generation(written)) => generation(slice) > written,
        }
    }

    /// Removes the record of a slice. Returns whether the slice was expected to exist.
    fn remove(&self, slice: &EndpointSlice) -> bool {
        let key = service_key(slice).unwrap_or_default();
        let mut all = self.0.lock();
        let Some(records) = all.get_mut(&key) else { return false };
        let record = records.remove(uid(slice));
        if records.is_empty() {
            all.remove(&key);
        }
        record.is_some_and(|record| record.expected != Expected::Deleted)
    }

    /// The keys of the Services to sync after the change of a slice.
    pub fn services_to_sync(&self, change: &Change<EndpointSlice>, manager: &str) -> Vec<String> {
        let is_ours = |slice: &EndpointSlice| is_managed_by(slice, manager);
        let added =
            |slice: &EndpointSlice| service_key(slice).filter(|_| is_ours(slice) && self.is_news(slice));
        let gone = |slice: &EndpointSlice| {
            let was_expected = self.remove(slice);
            service_key(slice).filter(|_| is_ours(slice) && was_expected)
        };
        let keys = match (change.old(), change.new.as_deref()) {
            (None, None) => [None, None],
            (None, Some(new)) => [added(new), None],
            (Some(old), None) => [gone(old), None],
            (Some(old), Some(new)) if change.replaced() => [gone(old), added(new)],
            // A user may have changed the label.
            (Some(old), Some(new)) if label(old, LABEL_SERVICE_NAME) != label(new, LABEL_SERVICE_NAME) => {
                self.remove(old);
                [service_key(new), service_key(old)]
            }
            (Some(old), Some(new)) if is_ours(old) != is_ours(new) => {
                if is_ours(old) {
                    self.remove(old);
                }
                [service_key(new), None]
            }
            (Some(_), Some(new)) => [added(new), None],
        };
        keys.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_apimachinery::thread_time::assert_linear;
    use orlop_client::informer::Informer;
    use serde_json::json;

    use super::*;

    fn slice(uid: &str, generation: i64, manager: &str, service: &str) -> EndpointSlice {
        serde_json::from_value(json!({"addressType": "IPv4", "endpoints": [], "metadata": {"namespace": "ns",
            "name": uid, "uid": uid, "generation": generation, "labels": {
                "kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": manager}}}))
        .unwrap()
    }

    #[test]
    fn cache_is_stale_until_it_contains_all_writes() {
        let tracker = SliceTracker::default();
        let cached = |all: &[(&str, i64)]| -> Vec<Arc<EndpointSlice>> {
            all.iter().map(|(uid, generation)| Arc::new(slice(uid, *generation, "m", "s"))).collect()
        };
        assert!(!tracker.is_stale("ns/s", &cached(&[("a", 1)])), "1 nothing was written");
        tracker.written(&slice("a", 2, "m", "s"));
        tracker.written(&slice("b", 1, "m", "s"));
        let table = [
            ("2 an old generation", vec![("a", 1), ("b", 1)], true),
            ("3 a slice is missing", vec![("a", 2)], true),
            ("4 current", vec![("a", 2), ("b", 1)], false),
            ("5 newer, with another slice", vec![("a", 3), ("b", 1), ("c", 1)], false),
        ];
        for (name, all, wanted) in table {
            assert_eq!(tracker.is_stale("ns/s", &cached(&all)), wanted, "{name}");
        }
        tracker.deleted(&slice("a", 2, "m", "s"));
        assert!(tracker.is_stale("ns/s", &cached(&[("a", 2), ("b", 1)])), "6 a deleted slice is cached");
        assert!(!tracker.is_stale("ns/s", &cached(&[("b", 1)])), "7 it is gone");
        tracker.forget("ns/s");
        assert!(!tracker.is_stale("ns/s", &[]), "8 the Service is deleted");
    }

    #[test]
    fn only_changes_by_other_clients_sync_the_service() {
        let (tracker, slices) = (Arc::new(SliceTracker::default()), Informer::new());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let _changes = slices.add_handler({
            let (tracker, seen) = (Arc::clone(&tracker), Arc::clone(&seen));
            move |change: &Change<EndpointSlice>| seen.lock().extend(tracker.services_to_sync(change, "m"))
        });
        let check = |name: &str, wanted: &[&str]| {
            let found: Vec<String> = std::mem::take(&mut *seen.lock());
            assert_eq!(found, wanted, "{name}");
        };
        tracker.written(&slice("a", 1, "m", "s"));
        slices.apply(slice("a", 1, "m", "s"));
        check("1 an own write", &[]);
        slices.apply(slice("a", 2, "m", "s"));
        check("2 a write of another client", &["ns/s"]);
        slices.apply(slice("b", 1, "other", "s"));
        check("3 a slice of another controller", &[]);
        slices.apply(slice("b", 2, "m", "s"));
        check("4 it becomes ours", &["ns/s"]);
        slices.apply(slice("b", 3, "m", "t"));
        check("5 another Service", &["ns/t", "ns/s"]);
        tracker.deleted(&slice("b", 3, "m", "t"));
        slices.remove(slice("b", 3, "m", "t"));
        check("6 an own delete", &[]);
        slices.remove(slice("a", 2, "m", "s"));
        check("7 a delete of another client", &["ns/s"]);
    }

    #[test]
    fn slice_that_loses_a_label_does_not_block_its_service() {
        let (tracker, slices) = (Arc::new(SliceTracker::default()), Informer::new());
        let _changes = slices.add_handler({
            let tracker = Arc::clone(&tracker);
            move |change: &Change<EndpointSlice>| drop(tracker.services_to_sync(change, "m"))
        });
        for (name, manager, service) in [("1 another Service", "m", "t"), ("2 another manager", "other", "s")]
        {
            tracker.written(&slice("a", 1, "m", "s"));
            slices.apply(slice("a", 1, "m", "s"));
            assert!(tracker.is_stale("ns/s", &[]), "{name}, before");
            slices.apply(slice("a", 2, manager, service));
            assert!(!tracker.is_stale("ns/s", &[]), "{name}");
            slices.remove(slice("a", 2, manager, service));
        }
        assert!(tracker.0.lock().is_empty(), "3 no record is left");
    }

    #[test]
    fn slice_with_a_finalizer_does_not_block_its_service() {
        let tracker = SliceTracker::default();
        let mut terminating = slice("a", 2, "m", "s");
        terminating.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let cached = [Arc::new(terminating)];
        tracker.written(&slice("a", 1, "m", "s"));
        assert!(!tracker.is_stale("ns/s", &cached), "1 deleted by another client");
        tracker.deleted(&slice("a", 1, "m", "s"));
        assert!(!tracker.is_stale("ns/s", &cached), "2 deleted by the controller");
    }

    #[tokio::test(start_paused = true)]
    async fn record_of_a_missing_slice_expires() {
        let tracker = SliceTracker::default();
        // The deletion arrived before this response.
        tracker.written(&slice("a", 1, "m", "s"));
        assert!(tracker.is_stale("ns/s", &[]), "1");
        tokio::time::advance(MOST_MISSING).await;
        assert!(tracker.is_stale("ns/s", &[]), "2 after 60 s");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!tracker.is_stale("ns/s", &[]), "3 after more than 60 s");
    }

    #[test]
    fn check_costs_linear_time() {
        let input = |n: usize| {
            let tracker = SliceTracker::default();
            let cached: Vec<_> =
                (0..n).map(|n| Arc::new(slice(&format!("uid-{n:09}"), 1, "m", "s"))).collect();
            cached.iter().for_each(|slice| tracker.written(slice));
            (tracker, cached)
        };
        assert_linear("slices", 1_000, input, |(tracker, cached)| assert!(!tracker.is_stale("ns/s", cached)));
    }
}
