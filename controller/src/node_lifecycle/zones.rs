//! Number of ready nodes per zone, and the rate of evictions from the others: the more nodes are lost together,
//! the more likely the fault is on this side (upstream: handleDisruption, ComputeZoneState). Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::time::Instant;

/// A node with this label is not counted.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// Labels for region and zone, newest first.
const REGION: [&str; 2] = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];
const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

/// The values of upstream's flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionRates {
    /// `--node-eviction-rate`: nodes per second and zone.
    pub rate: f32,
    /// `--secondary-node-eviction-rate`: the same in a large, partially disrupted zone.
    pub secondary_rate: f32,
    /// `--large-cluster-size-threshold`: a zone with more nodes than this is large.
    pub large: usize,
    /// `--unhealthy-zone-threshold`: a zone with at least this share of lost nodes (and at least three) is partially
    /// disrupted.
    pub threshold: f32,
}

/// The state of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Most nodes are ready.
    Normal,
    /// Many nodes are lost.
    Partial,
    /// Whether no node is ready.
    Full,
}

/// The zone of a node; empty if no label specifies it.
pub fn zone_of(node: &Node) -> String {
    let labels = node.metadata.labels.as_ref();
    let first = |keys: [&str; 2]| keys.iter().find_map(|key| labels?.get(*key)).map_or("", String::as_str);
    match (first(REGION), first(ZONE)) {
        ("", "") => String::new(),
        (region, zone) => format!("{region}/{zone}"),
    }
}

/// Whether the node is counted.
pub fn counts(node: &Node) -> bool {
    !node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(EXCLUDED))
}

/// The change that an update of the counts caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneChange {
    /// No change.
    None,
    /// The state of that zone changed.
    Zone,
    /// All nodes are lost now.
    AllLost,
    /// Some nodes are ready again.
    SomeBack,
}

/// When the pods of a node may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turnstile {
    /// Now.
    Open,
    /// After this time, unless another node of the zone is first.
    In(Duration),
    /// Only after the state of the zone has changed.
    Shut,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    ready: usize,
    lost: usize,
    state: ZoneState,
    passed: Option<Instant>,
}

/// All zones.
#[derive(Debug)]
pub struct Zones {
    pace: EvictionRates,
    zones: BTreeMap<String, Zone>,
    all_lost: bool,
}

impl Zones {
    /// Starts without nodes.
    pub fn new(pace: EvictionRates) -> Self {
        Self { pace, zones: BTreeMap::new(), all_lost: false }
    }

    /// Updates the counts for a node of this zone. `gone` is the readiness of a node to remove, `come` that of a node
    /// to add; a changed node has both.
    pub fn count(&mut self, zone: &str, gone: Option<bool>, come: Option<bool>) -> ZoneChange {
        let entry = self.zones.entry(zone.to_owned()).or_insert(Zone {
            ready: 0,
            lost: 0,
            state: ZoneState::Normal,
            passed: None,
        });
        match gone {
            Some(true) => entry.ready = entry.ready.saturating_sub(1),
            Some(false) => entry.lost = entry.lost.saturating_sub(1),
            None => {}
        }
        match come {
            Some(true) => entry.ready += 1,
            Some(false) => entry.lost += 1,
            None => {}
        }
        let state = state(entry.ready, entry.lost, self.pace.threshold);
        let turned = std::mem::replace(&mut entry.state, state) != state;
        if entry.ready + entry.lost == 0 {
            self.zones.remove(zone);
        }
        let all_lost =
            !self.zones.is_empty() && self.zones.values().all(|zone| zone.state == ZoneState::Full);
        match (std::mem::replace(&mut self.all_lost, all_lost), all_lost) {
            (false, true) => ZoneChange::AllLost,
            (true, false) => ZoneChange::SomeBack,
            (false, false) | (true, true) if turned => ZoneChange::Zone,
            (false, false) | (true, true) => ZoneChange::None,
        }
    }

    /// No node is ready.
    pub fn all_lost(&self) -> bool {
        self.all_lost
    }

    /// Requests the eviction of one node's pods. If it is granted, the next node of the zone has to wait.
    pub fn pass(&mut self, zone: &str, now: Instant) -> Turnstile {
        let Some(period) = self.period(zone) else { return Turnstile::Shut };
        // A zone without counted nodes has no entry.
        let Some(entry) = self.zones.get_mut(zone) else { return Turnstile::Open };
        let since = entry.passed.map(|passed| now.saturating_duration_since(passed));
        match since.and_then(|since| period.checked_sub(since)).filter(|left| !left.is_zero()) {
            Some(left) => Turnstile::In(left),
            None => {
                entry.passed = Some(now);
                Turnstile::Open
            }
        }
    }

    /// The interval between evictions of two nodes of a zone.
    fn period(&self, zone: &str) -> Option<Duration> {
        if self.all_lost {
            return None;
        }
        let rate =
            match self.zones.get(zone) {
                Some(Zone { state: ZoneState::Partial, ready, lost, .. }) => {
                    if ready + lost > self.pace.large { self.pace.secondary_rate } else { 0.0 }
                }
                Some(Zone { state: ZoneState::Normal | ZoneState::Full, .. }) | None => self.pace.rate,
            };
        (rate > 0.0).then(|| Duration::try_from_secs_f32(rate.recip()).unwrap_or(Duration::MAX))
    }
}

fn state(ready: usize, lost: usize, threshold: f32) -> ZoneState {
    // Exact for fewer than sixteen million nodes.
    #[allow(clippy::cast_precision_loss)]
    let share = lost as f32 / (lost + ready).max(1) as f32;
    match (ready, lost) {
        (0, 1..) => ZoneState::Full,
        (_, 3..) if share >= threshold => ZoneState::Partial,
        _ => ZoneState::Normal,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    const PACE: EvictionRates = EvictionRates { rate: 0.1, secondary_rate: 0.01, large: 50, threshold: 0.55 };

    fn zones(counts: &[(&str, usize, usize)]) -> Zones {
        let mut zones = Zones::new(PACE);
        for (zone, ready, lost) in counts {
            for is_ready in std::iter::repeat_n(true, *ready).chain(std::iter::repeat_n(false, *lost)) {
                zones.count(zone, None, Some(is_ready));
            }
        }
        zones
    }

    #[test]
    fn zone_state_depends_on_the_share_of_lost_nodes() {
        for (ready, lost, wanted) in [
            (0, 0, ZoneState::Normal),
            (1, 0, ZoneState::Normal),
            (0, 1, ZoneState::Full),
            (1, 2, ZoneState::Normal),
            (3, 3, ZoneState::Normal),
            (2, 3, ZoneState::Partial),
            (1, 99, ZoneState::Partial),
            (99, 99, ZoneState::Normal),
        ] {
            assert_eq!(state(ready, lost, PACE.threshold), wanted, "{ready} ready, {lost} lost");
        }
    }

    #[test]
    fn eviction_interval_depends_on_the_zone_state() {
        let seconds = |seconds| Turnstile::In(Duration::from_secs(seconds));
        for (name, counts, second) in [
            ("normal", &[("a", 3, 2)][..], seconds(10)),
            ("a whole zone, and another one is well", &[("a", 0, 5), ("b", 1, 0)][..], seconds(10)),
            ("many of a small zone", &[("a", 1, 9)][..], Turnstile::Shut),
            ("many of a large zone", &[("a", 1, 60)][..], seconds(100)),
            ("all", &[("a", 0, 5), ("b", 0, 1)][..], Turnstile::Shut),
        ] {
            let mut zones = zones(counts);
            let now = Instant::now();
            let first = if second == Turnstile::Shut { Turnstile::Shut } else { Turnstile::Open };
            assert_eq!(zones.pass("a", now), first, "{name}");
            assert_eq!(zones.pass("a", now), second, "{name}");
            if let Turnstile::In(left) = second {
                assert_eq!(zones.pass("a", now + left), Turnstile::Open, "{name}");
            }
        }
    }

    #[test]
    fn count_reports_changed_zones_and_loss_of_all_nodes() {
        let mut zones = Zones::new(PACE);
        let steps = [
            ("a", None, Some(true), ZoneChange::None),
            ("b", None, Some(true), ZoneChange::None),
            ("a", Some(true), Some(false), ZoneChange::Zone),
            ("b", Some(true), Some(false), ZoneChange::AllLost),
            ("b", None, Some(false), ZoneChange::None),
            ("b", Some(false), Some(true), ZoneChange::SomeBack),
            ("b", Some(true), None, ZoneChange::AllLost),
            ("b", Some(false), None, ZoneChange::Zone),
            ("a", Some(false), None, ZoneChange::SomeBack),
        ];
        for (step, (zone, gone, come, wanted)) in steps.into_iter().enumerate() {
            assert_eq!(zones.count(zone, gone, come), wanted, "step {step}");
        }
    }

    #[test]
    fn node_zone_comes_from_current_or_beta_labels() {
        for (labels, wanted) in [
            (json!(null), ""),
            (json!({"topology.kubernetes.io/zone": "z"}), "/z"),
            (
                json!({"failure-domain.beta.kubernetes.io/zone": "old", "topology.kubernetes.io/region": "r"}),
                "r/old",
            ),
        ] {
            let node = serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap();
            assert_eq!((zone_of(&node).as_str(), counts(&node)), (wanted, true), "{labels}");
        }
        let node =
            json!({"metadata": {"name": "n", "labels": {"node.kubernetes.io/exclude-disruption": ""}}});
        assert!(!counts(&serde_json::from_value(node).unwrap()));
    }
}
