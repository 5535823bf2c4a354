//! Sets the hints that `spec.trafficDistribution` requests: the zone, and perhaps the node, of each ready endpoint. Pure
//! functions. Upstream: trafficdist.

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, ForNode, ForZone};

use super::hints::{HintedSlices, is_ready};
use crate::endpoints::slice::endpoints;

/// The hints of a value of `spec.trafficDistribution`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// The zone of the endpoint.
    Zone,
    /// The zone and the node of the endpoint.
    Node,
}

impl Distribution {
    /// The value of `spec.trafficDistribution`; `None` for an unknown one.
    pub fn parse(value: Option<&str>) -> Option<Self> {
        match value? {
            "PreferClose" | "PreferSameZone" => Some(Self::Zone),
            "PreferSameNode" => Some(Self::Node),
            _ => None,
        }
    }
}

/// Sets the hints of the ready endpoints. Unchanged slices with other hints are updated.
pub fn set_hints(distribution: Distribution, slices: &mut HintedSlices) {
    let wanted = |endpoint: &Endpoint| hints(distribution, endpoint);
    slices.update_if(|slice| {
        endpoints(slice)
            .iter()
            .any(|endpoint| is_ready(endpoint) && !same(endpoint, wanted(endpoint).as_ref()))
    });
    for slice in slices.written() {
        for endpoint in slice.endpoints.iter_mut().flatten().filter(|endpoint| is_ready(endpoint)) {
            endpoint.hints = wanted(endpoint);
        }
    }
}

fn hints(distribution: Distribution, endpoint: &Endpoint) -> Option<EndpointHints> {
    let zone = endpoint.zone.clone().map(|name| vec![ForZone { name }]);
    let node = endpoint.node_name.clone().filter(|_| distribution == Distribution::Node);
    let node = node.map(|name| vec![ForNode { name }]);
    (zone.is_some() || node.is_some()).then_some(EndpointHints { for_zones: zone, for_nodes: node })
}

fn same(endpoint: &Endpoint, wanted: Option<&EndpointHints>) -> bool {
    type Lists<'a> = (&'a [ForZone], &'a [ForNode]);
    fn lists(hints: Option<&EndpointHints>) -> Lists<'_> {
        let zones = hints.and_then(|hints| hints.for_zones.as_deref()).unwrap_or_default();
        (zones, hints.and_then(|hints| hints.for_nodes.as_deref()).unwrap_or_default())
    }
    lists(endpoint.hints.as_ref()) == lists(wanted)
}
