//! Assigns the endpoints of a Service to zones in proportion to their CPUs, for the annotation
//! `service.kubernetes.io/topology-mode: Auto`. Pure state without requests. Upstream: topologycache.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use orlop_client::meta::annotation;
use orlop_client::names::{ANN_TOPOLOGY_AWARE_HINTS, ANN_TOPOLOGY_MODE};

use super::allocation::{Allocation, Zones, allocate, is_overloaded};
use super::hints::{HintedSlices, for_zone, is_ready};
use crate::endpoints::slice::endpoints;

/// What happened to the hints of a Service, for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HintEvent {
    /// The endpoints are assigned to zones.
    Enabled(String),
    /// They are not, or no longer.
    Disabled(String),
}

impl HintEvent {
    fn enabled(address_type: &str) -> Self {
        Self::Enabled(with_type("Topology Aware Hints has been enabled", address_type))
    }

    fn disabled(why: &str, address_type: &str) -> Self {
        Self::Disabled(with_type(why, address_type))
    }
}

fn with_type(text: &str, address_type: &str) -> String {
    format!("{text}, addressType: {address_type}")
}

/// The shares of the zones, and the endpoints that are assigned to them.
#[derive(Debug, Default)]
pub struct Topology {
    shares: BTreeMap<String, f64>,
    /// By key of the Service and address type.
    assigned: BTreeMap<String, BTreeMap<String, Zones>>,
    /// The Services whose endpoints have hints.
    hinted: BTreeSet<String>,
}

/// Whether the annotations of the Service request the assignment to zones.
pub fn is_requested(service: &Service) -> bool {
    let value =
        annotation(service, ANN_TOPOLOGY_AWARE_HINTS).or_else(|| annotation(service, ANN_TOPOLOGY_MODE));
    matches!(value, Some("Auto" | "auto"))
}

impl Topology {
    /// Sets the shares of the zones.
    pub fn set_shares(&mut self, shares: BTreeMap<String, f64>) {
        self.shares = shares;
    }

    /// The Services that a change of the shares affects.
    pub fn overloaded(&self) -> Vec<String> {
        let is_affected = |by_type: &BTreeMap<String, Zones>| {
            by_type.values().any(|zones| is_overloaded(zones, &self.shares))
        };
        let affected = self.assigned.iter().filter(|(_, by_type)| is_affected(by_type));
        affected.map(|(key, _)| key.clone()).collect()
    }

    /// Removes a deleted Service.
    pub fn forget(&mut self, service: &str) {
        self.assigned.remove(service);
        self.hinted.remove(service);
    }

    /// Records that the slices of one address type have no hints.
    pub fn remove(&mut self, service: &str, address_type: &str) {
        if let Some(by_type) = self.assigned.get_mut(service) {
            by_type.remove(address_type);
            if by_type.is_empty() {
                self.assigned.remove(service);
            }
        }
        self.hinted.remove(service);
    }

    /// As [`remove`](Self::remove), for a Service that no longer requests hints.
    pub fn disable(&mut self, service: &str, address_type: &str) -> Option<HintEvent> {
        let event = HintEvent::disabled("Topology Aware Hints has been disabled", address_type);
        let event = self.hinted.contains(service).then_some(event);
        self.remove(service, address_type);
        event
    }

    /// Sets the hints of the slices, or removes them if no assignment is possible.
    pub fn set_hints(
        &mut self,
        service: &str,
        address_type: &str,
        slices: &mut HintedSlices,
    ) -> Option<HintEvent> {
        match self.assign(slices) {
            Ok(zones) => {
                let by_type = self.assigned.entry(service.to_owned()).or_default();
                by_type.insert(address_type.to_owned(), zones);
                let is_new = self.hinted.insert(service.to_owned());
                is_new.then(|| HintEvent::enabled(address_type))
            }
            Err(why) => {
                self.remove(service, address_type);
                slices.remove_hints();
                Some(HintEvent::disabled(&why, address_type))
            }
        }
    }

    fn assign(&self, slices: &mut HintedSlices) -> Result<Zones, String> {
        let ready = slices.all().flat_map(endpoints).filter(|endpoint| is_ready(endpoint)).count();
        let allocations = allocate(&self.shares, ready).map_err(|why| why.to_string())?;
        // Checked before any slice is selected for an update, so that this case writes nothing again.
        let lacks_zone = |endpoint: &Endpoint| endpoint.zone.as_ref().is_none_or(String::is_empty);
        if slices.all().flat_map(endpoints).any(|endpoint| is_ready(endpoint) && lacks_zone(endpoint)) {
            return Err("One or more endpoints do not have a zone specified".to_owned());
        }
        let mut zones = keep_assigned(slices, &allocations);
        for slice in slices.written() {
            for endpoint in slice.endpoints.iter_mut().flatten().filter(|endpoint| is_ready(endpoint)) {
                let Some(zone) = endpoint.zone.clone() else { continue };
                endpoint.hints = Some(for_zone(&zone));
                *zones.entry(zone).or_default() += 1;
            }
        }
        redistribute(slices, &allocations, &mut zones);
        if zones.is_empty() {
            return Err("No hints allocated for zones".to_owned());
        }
        Ok(zones)
    }
}

/// Leaves the unchanged slices whose hints are still valid as they are, and counts their hints.
fn keep_assigned(slices: &mut HintedSlices, allocations: &BTreeMap<String, Allocation>) -> Zones {
    let mut zones = Zones::new();
    slices.update_if(|slice| match hinted_zones(slice, &zones, allocations) {
        Some(hints) => {
            for (zone, count) in hints {
                *zones.entry(zone).or_default() += count;
            }
            false
        }
        None => true,
    });
    zones
}

/// The number of hints for each zone; `None` if a ready endpoint has none, a zone is not allocated, or a zone would have
/// more than its maximum.
fn hinted_zones(
    slice: &EndpointSlice,
    assigned: &Zones,
    allocations: &BTreeMap<String, Allocation>,
) -> Option<Zones> {
    let mut zones = Zones::new();
    for endpoint in endpoints(slice).iter().filter(|endpoint| is_ready(endpoint)) {
        let hints = endpoint.hints.as_ref()?.for_zones.as_deref().filter(|zones| !zones.is_empty())?;
        for zone in hints {
            *zones.entry(zone.name.clone()).or_default() += 1;
        }
    }
    let fits = |(zone, count): (&String, &usize)| {
        let known = assigned.get(zone).copied().unwrap_or_default();
        allocations.get(zone).is_some_and(|allocation| known + count <= allocation.maximum)
    };
    zones.iter().all(fits).then_some(zones)
}

/// Assigns endpoints of zones with too many to zones with too few.
fn redistribute(slices: &mut HintedSlices, allocations: &BTreeMap<String, Allocation>, zones: &mut Zones) {
    let (mut surplus_zones, mut deficit_zones) = surplus_and_deficit(allocations, zones);
    for slice in slices.written() {
        for endpoint in slice.endpoints.iter_mut().flatten().filter(|endpoint| is_ready(endpoint)) {
            let Some(left) = endpoint.zone.as_ref().and_then(|zone| surplus_zones.get_mut(zone)) else {
                continue;
            };
            let Some((zone, open)) = deficit_zones.iter_mut().find(|(_, open)| **open > 0) else { return };
            if *left == 0 {
                continue;
            }
            *left -= 1;
            *open -= 1;
            endpoint.hints = Some(for_zone(zone));
            *zones.entry(zone.clone()).or_default() += 1;
            if let Some(count) = endpoint.zone.as_ref().and_then(|zone| zones.get_mut(zone)) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

/// The number of surplus endpoints of each zone, and of endpoints that each zone lacks.
fn surplus_and_deficit(allocations: &BTreeMap<String, Allocation>, zones: &Zones) -> (Zones, Zones) {
    let (mut extra, mut missing) = (BTreeMap::new(), BTreeMap::new());
    for (zone, allocation) in allocations {
        let assigned = zones.get(zone).copied().unwrap_or_default() as f64;
        if assigned > allocation.desired {
            extra.insert(zone.clone(), assigned - allocation.desired);
        } else if assigned < allocation.desired {
            missing.insert(zone.clone(), allocation.desired - assigned);
        }
    }
    let (mut surplus_zones, mut deficit_zones) = (Zones::new(), Zones::new());
    while let (Some((from, extra_count)), Some((to, missing_count))) = (largest(&extra), largest(&missing)) {
        // Half an endpoint is not worth the longer way, and one of both must be a whole endpoint.
        if extra_count < 0.5 || missing_count < 0.5 || (extra_count < 1.0 && missing_count < 1.0) {
            break;
        }
        for (zone, rest, counts) in
            [(from, &mut extra, &mut surplus_zones), (to, &mut missing, &mut deficit_zones)]
        {
            if let Some(rest) = rest.get_mut(&zone) {
                *rest -= 1.0;
            }
            *counts.entry(zone).or_default() += 1;
        }
    }
    (surplus_zones, deficit_zones)
}

/// The zone with the largest number above zero.
fn largest(zones: &BTreeMap<String, f64>) -> Option<(String, f64)> {
    let mut found: Option<(&String, f64)> = None;
    for (zone, number) in zones {
        if *number > found.map_or(0.0, |(_, most)| most) {
            found = Some((zone, *number));
        }
    }
    found.map(|(zone, number)| (zone.clone(), number))
}
