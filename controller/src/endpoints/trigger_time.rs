//! Computes the annotation `endpoints.kubernetes.io/last-change-trigger-time`: the earliest change of a pod or Service
//! since the last sync. It measures how long a change takes to reach the nodes. Upstream: util/trigger_time_tracker.go.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use parking_lot::Mutex;

/// The times that the last sync of each Service observed.
#[derive(Default)]
pub struct TriggerTimes(Mutex<HashMap<String, Observed>>);

#[derive(Default)]
struct Observed {
    service: Option<Timestamp>,
    pods: HashMap<String, Timestamp>,
}

impl TriggerTimes {
    /// The time for the annotation; `None` removes it. Call it in every sync, even if the sync writes nothing.
    pub fn next(&self, key: &str, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let changed = pods.iter().filter_map(|pod| Some((pod.metadata.name.clone()?, ready_changed(pod)?)));
        let observed = Observed { service: created, pods: changed.collect() };
        let mut all = self.0.lock();
        let Some(last) = all.get(key) else {
            all.insert(key.to_owned(), observed);
            return created;
        };
        let later =
            observed.pods.iter().filter(|(name, time)| last.pods.get(*name).is_none_or(|last| *time > last));
        let earliest =
            later.map(|(_, time)| *time).chain(created.filter(|time| Some(*time) > last.service)).min();
        all.insert(key.to_owned(), observed);
        earliest
    }

    /// Removes the times of a deleted Service.
    pub fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }
}

/// When the condition Ready of the pod changed.
fn ready_changed(pod: &Pod) -> Option<Timestamp> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready")?.last_transition_time.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn pod(name: &str, changed: &str) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name}, "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": format!("2026-01-01T00:00:{changed}Z")}]}}))
            .unwrap(),
        )
    }

    fn service(created: &str) -> Service {
        serde_json::from_value(
            json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:00:{created}Z")}}),
        )
        .unwrap()
    }

    #[test]
    fn earliest_change_since_the_last_sync_is_the_trigger() {
        let times = TriggerTimes::default();
        let steps = [
            ("1 a new Service", "10", vec![pod("a", "01")], Some("10")),
            ("2 nothing", "10", vec![pod("a", "01")], None),
            ("3 a new pod", "10", vec![pod("a", "01"), pod("b", "05")], Some("05")),
            ("4 both change", "10", vec![pod("a", "21"), pod("b", "22")], Some("21")),
            ("5 an earlier time is no change", "10", vec![pod("a", "20"), pod("b", "22")], None),
            ("6 the Service is replaced", "30", vec![pod("a", "20")], Some("30")),
            ("7 a pod returns", "30", vec![pod("a", "20"), pod("b", "22")], Some("22")),
        ];
        let shown = |time: Option<Timestamp>| time.map(|time| time.to_string()[17..19].to_owned());
        for (name, created, pods, wanted) in steps {
            assert_eq!(shown(times.next("ns/s", &service(created), &pods)).as_deref(), wanted, "{name}");
        }
        times.forget("ns/s");
        let time = times.next("ns/s", &service("40"), &[pod("a", "50")]);
        assert_eq!(shown(time).as_deref(), Some("40"), "8 a new Service with the same name");
        assert_eq!(time.unwrap().to_string(), "2026-01-01T00:00:40Z");
    }
}
