//! State of every node beyond the cache: its last heartbeat, its share in the zone counts, and its eviction
//! permit. One lock, held only for the call; each call costs the work of one node, except for the rare changes
//! that affect all nodes.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use tokio::time::Instant;

use super::health::{Grace, Heartbeat, Readiness};
use super::wanted::Eviction;
use super::zones::{self, Turnstile, ZoneChange, Zones};
use orlop_client::uid::Uid;

/// The state of all nodes.
pub struct NodeStates {
    grace: Grace,
    inner: Mutex<Inner>,
}

struct Inner {
    nodes: HashMap<String, Entry>,
    zones: Zones,
}

struct Entry {
    uid: Uid,
    heard: Heartbeat,
    zone: String,
    /// Whether the node counts as ready; `None` if it is not counted.
    counted: Option<bool>,
    readiness: Readiness,
    granted: bool,
}

/// The nodes to sync after a change.
#[derive(Debug, PartialEq, Eq)]
pub enum Wake {
    /// The node itself.
    One,
    /// These nodes too.
    These(Vec<String>),
}

/// Whether a node is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeHealth {
    /// Not lost, and cannot be before this time has passed.
    Fine(Duration),
    /// No heartbeat arrived within the grace period.
    Lost,
}

/// Whether pods may be evicted from a node, and when to ask again if that depends on the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The current decision.
    pub eviction: Eviction,
    /// The delay before the next request.
    pub again: Option<Duration>,
}

impl NodeStates {
    /// Starts without nodes.
    pub fn new(grace: Grace, zones: Zones) -> Self {
        Self { grace, inner: Mutex::new(Inner { nodes: HashMap::new(), zones }) }
    }

    /// Records a node from the cache. The first result is whether the node is new.
    pub fn node(&self, name: &str, node: &Node, now: Instant) -> (bool, Wake) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let uid = Uid::from(node.metadata.uid.as_deref().unwrap_or_default());
        let readiness = Readiness::of(node);
        let counted = zones::counts(node).then_some(readiness == Readiness::Ready);
        let zone = zones::zone_of(node);
        let mut turns = Vec::new();
        let mut is_new = false;
        match inner.nodes.get_mut(name) {
            Some(entry) if entry.uid == uid => {
                entry.heard.status(node, now);
                entry.readiness = readiness;
                entry.granted &= matches!(readiness, Readiness::NotReady | Readiness::Unknown);
                let was = entry.counted;
                if (was, &entry.zone) != (counted, &zone) {
                    if entry.zone == zone {
                        turns.push((zone.clone(), inner.zones.count(&zone, was, counted)));
                    } else {
                        turns.push((zone.clone(), inner.zones.count(&zone, None, counted)));
                        turns.push((entry.zone.clone(), inner.zones.count(&entry.zone, was, None)));
                    }
                }
                (entry.counted, entry.zone) = (counted, zone);
            }
            Some(_) | None => {
                is_new = true;
                let heard = Heartbeat::first(node, now);
                let entry = Entry { uid, heard, zone: zone.clone(), counted, readiness, granted: false };
                if let Some(old) = inner.nodes.insert(name.to_owned(), entry) {
                    turns.push((old.zone.clone(), inner.zones.count(&old.zone, old.counted, None)));
                }
                turns.push((zone.clone(), inner.zones.count(&zone, None, counted)));
            }
        }
        (is_new, inner.turned(turns, now))
    }

    /// Removes a deleted node.
    pub fn gone(&self, name: &str, now: Instant) -> Wake {
        let mut inner = self.inner();
        let Some(old) = inner.nodes.remove(name) else { return Wake::One };
        let turn = inner.zones.count(&old.zone, old.counted, None);
        inner.turned(vec![(old.zone, turn)], now)
    }

    /// Records the renewal time of a node's Lease. Returns true if the time changed.
    pub fn renewed(&self, name: &str, time: Option<Timestamp>, now: Instant) -> bool {
        self.inner().nodes.get_mut(name).is_some_and(|entry| entry.heard.renewed(time, now))
    }

    /// Restarts the grace period of every node, because no heartbeat could have arrived before now.
    pub fn forgive_all(&self, now: Instant) {
        self.inner().nodes.values_mut().for_each(|entry| entry.heard.forgive(now));
    }

    /// Whether a node is lost. An unknown node is not.
    pub fn verdict(&self, name: &str, now: Instant) -> NodeHealth {
        let inner = self.inner();
        let Some(entry) = inner.nodes.get(name) else { return NodeHealth::Fine(self.grace.monitor) };
        entry.heard.left(self.grace, now).map_or(NodeHealth::Lost, NodeHealth::Fine)
    }

    /// Whether the node's Lease was seen since the node was added.
    pub fn has_renewed(&self, name: &str) -> bool {
        self.inner().nodes.get(name).is_some_and(|entry| entry.heard.has_renewed())
    }

    /// Whether the readiness of the node is unknown.
    pub fn is_unknown(&self, name: &str) -> bool {
        self.inner().nodes.get(name).is_some_and(|entry| entry.readiness == Readiness::Unknown)
    }

    /// Requests permission to evict the pods of a node. `asks` is whether the node needs a permit; a granted permit
    /// lasts until the node is ready.
    pub fn permit(&self, name: &str, asks: bool, now: Instant) -> Permit {
        let waiting = |again| Permit { eviction: Eviction::Waiting, again };
        let mut inner = self.inner();
        let inner = &mut *inner;
        if inner.zones.all_lost() {
            return Permit { eviction: Eviction::Stopped, again: None };
        }
        let Some(entry) = inner.nodes.get_mut(name).filter(|_| asks) else { return waiting(None) };
        if !entry.granted {
            match inner.zones.pass(&entry.zone, now) {
                Turnstile::Open => entry.granted = true,
                Turnstile::In(left) => return waiting(Some(left)),
                Turnstile::Shut => return waiting(None),
            }
        }
        Permit { eviction: Eviction::Granted, again: None }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    fn turned(&mut self, turns: Vec<(String, ZoneChange)>, now: Instant) -> Wake {
        let mut wake = Wake::One;
        for (zone, turn) in turns {
            match turn {
                ZoneChange::None => {}
                ZoneChange::Zone => {
                    let of_zone = self.nodes.iter().filter(|(_, entry)| entry.zone == zone);
                    wake.add(of_zone.map(|(name, _)| name.clone()).collect());
                }
                ZoneChange::AllLost => {
                    tracing::info!("no node is ready: evictions stop until one is ready");
                    self.nodes.values_mut().for_each(|entry| entry.granted = false);
                    wake = Wake::These(self.nodes.keys().cloned().collect());
                }
                ZoneChange::SomeBack => {
                    tracing::info!("some nodes are ready");
                    // The other nodes may recover as well.
                    self.nodes.values_mut().for_each(|entry| entry.heard.forgive(now));
                    wake = Wake::These(self.nodes.keys().cloned().collect());
                }
            }
        }
        wake
    }
}

impl Wake {
    fn add(&mut self, more: Vec<String>) {
        match self {
            Self::One => *self = Self::These(more),
            Self::These(names) => names.extend(more),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::super::zones::EvictionRates;
    use super::*;

    fn known() -> NodeStates {
        let grace = Grace { monitor: Duration::from_secs(50), startup: Duration::from_secs(60) };
        NodeStates::new(
            grace,
            Zones::new(EvictionRates { rate: 0.1, secondary_rate: 0.01, large: 50, threshold: 0.55 }),
        )
    }

    fn node(name: &str, uid: &str, ready: &str) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name, "uid": uid},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
        .unwrap()
    }

    #[test]
    fn permit_lasts_until_the_node_is_ready() {
        let (known, now) = (known(), Instant::now());
        for (name, ready) in [("a", "Unknown"), ("b", "False"), ("c", "True"), ("d", "True")] {
            assert!(known.node(name, &node(name, "1", ready), now).0);
        }
        let granted = Permit { eviction: Eviction::Granted, again: None };
        let later = Permit { eviction: Eviction::Waiting, again: Some(Duration::from_secs(10)) };
        assert_eq!(known.permit("a", true, now), granted);
        assert_eq!(known.permit("b", true, now), later);
        assert_eq!(known.permit("a", true, now), granted, "a write that failed needs no second permit");
        assert_eq!(known.node("a", &node("a", "1", "True"), now), (false, Wake::One));
        known.node("a", &node("a", "1", "Unknown"), now);
        assert_eq!(known.permit("a", true, now), later);
        assert_eq!(known.permit("a", false, now).eviction, Eviction::Waiting);
    }

    #[test]
    fn evictions_stop_while_all_nodes_are_lost() {
        let (known, began) = (known(), Instant::now());
        let now = began + Duration::from_secs(40);
        known.node("a", &node("a", "1", "True"), began);
        known.node("b", &node("b", "1", "Unknown"), began);
        assert_eq!(known.permit("b", true, began).eviction, Eviction::Granted);
        let sorted = |wake| match wake {
            Wake::One => vec![],
            Wake::These(mut names) => {
                names.sort();
                names
            }
        };
        assert_eq!(sorted(known.node("a", &node("a", "1", "False"), began).1), ["a", "b"]);
        assert_eq!(known.permit("b", true, now).eviction, Eviction::Stopped);
        assert_eq!(known.verdict("b", now), NodeHealth::Fine(Duration::from_secs(10)));
        assert_eq!(sorted(known.node("a", &node("a", "1", "True"), now).1), ["a", "b"]);
        assert_eq!(
            known.verdict("b", now),
            NodeHealth::Fine(Duration::from_secs(50)),
            "it has its whole time again"
        );
        assert_eq!(known.permit("b", true, now).eviction, Eviction::Granted);
    }

    #[test]
    fn recreated_node_starts_a_new_grace_period() {
        let (known, began) = (known(), Instant::now());
        known.node("a", &node("a", "1", "True"), began);
        known.node("b", &node("b", "1", "True"), began);
        let now = began + Duration::from_secs(50);
        assert_eq!(known.verdict("a", now), NodeHealth::Lost);
        assert!(known.node("a", &node("a", "2", "False"), now).0);
        assert_eq!(known.verdict("a", now), NodeHealth::Fine(Duration::from_secs(50)));
        assert_eq!(sorted_len(known.gone("b", now)), 1, "the one that is left is not ready");
        assert_eq!(known.permit("a", true, now).eviction, Eviction::Stopped);
        known.gone("a", now);
        assert_eq!(known.verdict("a", now), NodeHealth::Fine(Duration::from_secs(50)));
    }

    fn sorted_len(wake: Wake) -> usize {
        match wake {
            Wake::One => 0,
            Wake::These(names) => names.len(),
        }
    }
}
