//! How many nodes of each zone are ready, and how fast pods are driven off the others: the more nodes are lost at once, the likelier it is
//! that the fault is on this side (upstream: handleDisruption, ComputeZoneState). Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::time::Instant;

/// A node with this label is not counted.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// Labels for region and zone, newest first.
const REGION: [&str; 2] = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];
const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

/// Upstream's flags of these names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// `--node-eviction-rate`: nodes per second and zone.
    pub rate: f32,
    /// `--secondary-node-eviction-rate`: the same in a large zone that is disrupted in part.
    pub secondary_rate: f32,
    /// `--large-cluster-size-threshold`: a zone with more nodes is large.
    pub large: usize,
    /// `--unhealthy-zone-threshold`: from this share of lost nodes on (and at least three) a zone is disrupted in part.
    pub threshold: f32,
}

/// How a zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Most of it is well.
    Normal,
    /// Many nodes are lost.
    Partial,
    /// No node is ready.
    Full,
}

/// The zone of a node; empty if it says nothing about it.
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

/// What has become different by a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing.
    None,
    /// The state of that zone.
    Zone,
    /// Now all nodes are lost.
    AllLost,
    /// Not all nodes are lost any more.
    SomeBack,
}

/// When it is a node's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turnstile {
    /// Now.
    Open,
    /// After this time, if nobody else is faster.
    In(Duration),
    /// When the zone is in another state.
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
    pace: Pace,
    zones: BTreeMap<String, Zone>,
    all_lost: bool,
}

impl Zones {
    /// No node is known.
    pub fn new(pace: Pace) -> Self {
        Self { pace, zones: BTreeMap::new(), all_lost: false }
    }

    /// A node of this zone has appeared or gone, or both at once when it has changed: `gone` and `come` say whether it is ready.
    pub fn count(&mut self, zone: &str, gone: Option<bool>, come: Option<bool>) -> Turn {
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
            (false, true) => Turn::AllLost,
            (true, false) => Turn::SomeBack,
            (false, false) | (true, true) if turned => Turn::Zone,
            (false, false) | (true, true) => Turn::None,
        }
    }

    /// No node is ready.
    pub fn all_lost(&self) -> bool {
        self.all_lost
    }

    /// One node asks to pass. If it may, the next of its zone has to wait.
    pub fn pass(&mut self, zone: &str, now: Instant) -> Turnstile {
        let Some(period) = self.period(zone) else { return Turnstile::Shut };
        // Zones of nodes that are not counted are not known.
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

    /// The time between two nodes of a zone.
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
    // Exact as long as there are fewer than sixteen million nodes.
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

    const PACE: Pace = Pace { rate: 0.1, secondary_rate: 0.01, large: 50, threshold: 0.55 };

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
    fn states() {
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
    fn how_fast_nodes_are_emptied() {
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
    fn what_turns() {
        let mut zones = Zones::new(PACE);
        let steps = [
            ("a", None, Some(true), Turn::None),
            ("b", None, Some(true), Turn::None),
            ("a", Some(true), Some(false), Turn::Zone),
            ("b", Some(true), Some(false), Turn::AllLost),
            ("b", None, Some(false), Turn::None),
            ("b", Some(false), Some(true), Turn::SomeBack),
            ("b", Some(true), None, Turn::AllLost),
            ("b", Some(false), None, Turn::Zone),
            ("a", Some(false), None, Turn::SomeBack),
        ];
        for (step, (zone, gone, come, wanted)) in steps.into_iter().enumerate() {
            assert_eq!(zones.count(zone, gone, come), wanted, "step {step}");
        }
    }

    #[test]
    fn zones_of_nodes() {
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
