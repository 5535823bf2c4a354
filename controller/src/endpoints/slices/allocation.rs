//! How many endpoints each zone needs, in proportion to the CPUs of its nodes. Pure functions. Upstream: topologycache.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use orlop_apimachinery::quantity::Quantity;
use orlop_client::names::LABEL_ZONE;

/// How much more traffic than others an endpoint may receive.
const OVERLOAD: f64 = 0.2;

/// The number of endpoints of each zone.
pub type Zones = BTreeMap<String, usize>;

/// The number of endpoints that a zone may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allocation {
    /// The most.
    pub maximum: usize,
    /// The exact share, but not less than the minimum.
    pub desired: f64,
}

/// Why no endpoints are assigned to zones. The texts are messages of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAllocation {
    /// A node lacks a zone or CPUs, or there is only one zone.
    #[error("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")]
    NodeInfo,
    /// There are more zones than endpoints.
    #[error("Insufficient number of endpoints ({endpoints} endpoints, {zones} zones)")]
    TooFewEndpoints {
        /// The number of ready endpoints.
        endpoints: usize,
        /// The number of zones.
        zones: usize,
    },
    /// A zone would be overloaded.
    #[error(
        "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold ({endpoints} endpoints, {zones} zones)"
    )]
    Overload {
        /// The number of ready endpoints.
        endpoints: usize,
        /// The number of zones.
        zones: usize,
    },
}

/// Whether the node is ready.
pub fn is_node_ready(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .find(|condition| condition.type_ == "Ready")
        .is_some_and(|condition| condition.status == "True")
}

/// The zone of a node.
pub fn zone(node: &Node) -> Option<&str> {
    let zone = node.metadata.labels.as_ref()?.get(LABEL_ZONE)?;
    Some(zone.as_str()).filter(|zone| !zone.is_empty())
}

/// Whether the node runs the control plane. It does not count.
fn is_control_plane(node: &Node) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| {
        ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"]
            .iter()
            .any(|label| labels.contains_key(*label))
    })
}

/// The CPUs of a node in thousandths.
fn cpu(node: &Node) -> Option<i64> {
    let text = node.status.as_ref()?.allocatable.as_ref()?.get("cpu")?;
    Quantity::parse(&text.0).ok().map(|quantity| quantity.milli_value()).filter(|milli| *milli > 0)
}

/// The share of each zone in the CPUs of all ready nodes. Empty if a node lacks its zone or CPUs, or if there are less than
/// two zones.
pub fn shares(nodes: impl IntoIterator<Item = impl Borrow<Node>>) -> BTreeMap<String, f64> {
    let mut by_zone: BTreeMap<String, i64> = BTreeMap::new();
    for node in nodes {
        let node = node.borrow();
        if is_control_plane(node) || !is_node_ready(node) {
            continue;
        }
        let (Some(zone), Some(cpu)) = (zone(node), cpu(node)) else { return BTreeMap::new() };
        let sum = by_zone.entry(zone.to_owned()).or_default();
        *sum = sum.saturating_add(cpu);
    }
    if by_zone.len() < 2 {
        return BTreeMap::new();
    }
    let total: f64 = by_zone.values().map(|cpu| *cpu as f64).sum();
    by_zone.into_iter().map(|(zone, cpu)| (zone, cpu as f64 / total)).collect()
}

/// The least number of endpoints of a zone that does not overload them.
fn minimum(share: f64, endpoints: usize) -> usize {
    (share * endpoints as f64 * (1.0 / (1.0 + OVERLOAD))).ceil() as usize
}

/// The allocation of each zone.
///
/// # Errors
/// No allocation is possible.
pub fn allocate(
    shares: &BTreeMap<String, f64>,
    endpoints: usize,
) -> Result<BTreeMap<String, Allocation>, NoAllocation> {
    let zones = shares.len();
    if zones == 0 {
        return Err(NoAllocation::NodeInfo);
    }
    if zones > endpoints {
        return Err(NoAllocation::TooFewEndpoints { endpoints, zones });
    }
    let total: usize = shares.values().map(|share| minimum(*share, endpoints)).sum();
    let Some(rest) = endpoints.checked_sub(total) else {
        return Err(NoAllocation::Overload { endpoints, zones });
    };
    let allocation = |share: f64| {
        let least = minimum(share, endpoints);
        Allocation { maximum: least + rest, desired: (share * endpoints as f64).max(least as f64) }
    };
    Ok(shares.iter().map(|(zone, share)| (zone.clone(), allocation(*share))).collect())
}

/// Whether a zone has too few endpoints for its share.
pub fn is_overloaded(zones: &Zones, shares: &BTreeMap<String, f64>) -> bool {
    if zones.is_empty() {
        return false;
    }
    let total: usize = zones.values().sum();
    let lacks = |(zone, share): (&String, &f64)| {
        zones.get(zone).is_none_or(|endpoints| *endpoints < minimum(*share, total))
    };
    shares.is_empty() || shares.iter().any(lacks)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn node(zone: &str, cpu: &str) -> Node {
        serde_json::from_value(
            json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}, "status": {
            "allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}}),
        )
        .unwrap()
    }

    #[test]
    fn only_ready_workers_count() {
        let shown = |nodes: &[Node]| -> Vec<String> {
            shares(nodes).into_iter().map(|(zone, share)| format!("{zone} {share:.2}")).collect()
        };
        let (a, b) = (node("a", "3"), node("b", "1000m"));
        assert_eq!(shown(&[a.clone(), b.clone()]), ["a 0.75", "b 0.25"], "1");
        assert_eq!(shown(std::slice::from_ref(&a)), Vec::<String>::new(), "2 one zone");
        let without_zone = node("", "1");
        assert_eq!(shown(&[a.clone(), b.clone(), without_zone]), Vec::<String>::new(), "3 no zone");
        assert_eq!(shown(&[a.clone(), b.clone(), node("c", "0")]), Vec::<String>::new(), "4 no CPUs");
        let mut other = node("c", "4");
        other
            .metadata
            .labels
            .as_mut()
            .unwrap()
            .insert("node-role.kubernetes.io/master".into(), String::new());
        assert_eq!(shown(&[a.clone(), b.clone(), other]), ["a 0.75", "b 0.25"], "5 control plane");
        let mut silent = node("c", "4");
        silent.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "Unknown".to_owned();
        assert_eq!(shown(&[a, b, silent]), ["a 0.75", "b 0.25"], "6 not ready");
    }

    #[test]
    fn zones_receive_their_share_of_endpoints() {
        let shares = |all: &[f64]| -> BTreeMap<String, f64> {
            all.iter().enumerate().map(|(nth, share)| (format!("zone-{nth}"), *share)).collect()
        };
        let half = shares(&[0.5, 0.5]);
        assert_eq!(allocate(&shares(&[]), 3), Err(NoAllocation::NodeInfo), "1");
        assert_eq!(allocate(&half, 1), Err(NoAllocation::TooFewEndpoints { endpoints: 1, zones: 2 }), "2");
        assert_eq!(allocate(&half, 3), Err(NoAllocation::Overload { endpoints: 3, zones: 2 }), "3");
        assert_eq!(
            NoAllocation::TooFewEndpoints { endpoints: 1, zones: 2 }.to_string(),
            "Insufficient number of endpoints (1 endpoints, 2 zones)"
        );
        let four = allocate(&half, 4).unwrap();
        assert_eq!(four["zone-0"], Allocation { maximum: 2, desired: 2.0 }, "4");
        let six = allocate(&shares(&[0.5, 0.25, 0.25]), 8).unwrap();
        assert_eq!(six["zone-0"], Allocation { maximum: 4, desired: 4.0 }, "5");
        assert_eq!(six["zone-1"], Allocation { maximum: 2, desired: 2.0 }, "5");
    }

    #[test]
    fn service_is_overloaded_if_a_zone_lacks_endpoints() {
        let shares = BTreeMap::from([("a".to_owned(), 0.5), ("b".to_owned(), 0.5)]);
        let zones = |a: usize, b: usize| Zones::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        assert!(!is_overloaded(&Zones::new(), &shares), "1 no endpoints");
        assert!(is_overloaded(&zones(1, 1), &BTreeMap::new()), "2 no shares");
        assert!(!is_overloaded(&zones(5, 5), &shares), "3");
        assert!(is_overloaded(&zones(7, 3), &shares), "4");
        assert!(is_overloaded(&Zones::from([("a".to_owned(), 4)]), &shares), "5 a new zone");
    }
}
