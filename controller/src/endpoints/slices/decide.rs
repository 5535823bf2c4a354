//! Compares the endpoints of a Service with its EndpointSlices. Pure functions.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use orlop_client::informer::key_of;
use orlop_client::pods::node_name;
use parking_lot::Mutex;

use super::endpoint::{endpoint, is_owned, new_slice, ports};
use super::hints::HintedSlices;
use super::pack::pack;
use super::topology::{HintEvent, Topology, is_requested};
use super::traffic::{Distribution, set_hints};
use crate::endpoints::error::EndpointsError;
use crate::endpoints::pods::is_endpoint;
use crate::endpoints::slice::{EndpointId, EndpointSet, PortSet, endpoints};
use crate::endpoints::target_ports::{Numbers, TargetPorts};
use crate::endpoints::write::SliceChanges;

/// The maximum number of ports in all slices of one address type. Each slice repeats the ports of its endpoints.
pub const MOST_PORTS: usize = 500_000;
/// The number of reported pods without a known node. The text of as many errors is longer than the message of an event.
pub const MOST_MISSING: usize = 32;

/// The cached objects of a decision.
pub struct Situation<'a> {
    /// The Service.
    pub service: &'a Service,
    /// Its specification.
    pub spec: &'a ServiceSpec,
    /// The pods that it selects.
    pub pods: &'a [Arc<Pod>],
    /// Finds a node by name.
    pub node: &'a (dyn Fn(&str) -> Option<Arc<Node>> + Sync),
    /// The maximum number of endpoints in a slice.
    pub most: usize,
}

/// The decision for one address type.
#[derive(Debug, Default)]
pub struct Decision {
    /// The slices to write.
    pub changes: SliceChanges,
    /// What happened to the hints.
    pub event: Option<HintEvent>,
    /// The first [`MOST_MISSING`] pods without a known node. The sync fails after the writes, so that it is repeated.
    pub missing: Vec<EndpointsError>,
}

/// Decides on the slices of one address type. `existing` are the Service's slices of this type.
///
/// # Errors
/// The slices would have more than [`MOST_PORTS`] ports.
pub fn decide(
    situation: &Situation<'_>,
    existing: &[Arc<EndpointSlice>],
    address_type: &str,
    topology: &Mutex<Topology>,
) -> Result<Decision, EndpointsError> {
    let Situation { service, spec, most, .. } = *situation;
    let (mut decision, mut by_ports) = (Decision::default(), BTreeMap::<PortSet, Vec<_>>::new());
    let changes = &mut decision.changes;
    for slice in existing {
        match is_owned(slice, service) {
            true => {
                let ports = PortSet::of(slice.ports.as_deref().unwrap_or_default());
                by_ports.entry(ports).or_default().push(Arc::clone(slice));
            }
            false => changes.delete.push(Arc::clone(slice)),
        }
    }
    let targets = TargetPorts::of(spec);
    let (groups, missing) = desired(situation, &targets, address_type);
    check_ports(service, &targets, &groups, most)?;
    decision.missing = missing;
    for (numbers, endpoints) in groups {
        let ports = ports(&targets, &numbers);
        let known = by_ports.remove(&PortSet::of(&ports)).unwrap_or_default();
        let new = || new_slice(service, spec, &ports, address_type);
        changes.extend(pack(service, spec, &known, endpoints, new, most));
    }
    // No endpoint has these ports any longer.
    changes.delete.extend(by_ports.into_values().flatten());
    keep_placeholder(situation, existing, address_type, changes);
    decision.event = set_all_hints(service, spec, existing, address_type, topology, changes);
    changes.recycle(|slice| is_owned(slice, service));
    Ok(decision)
}

/// Endpoints by the numbers of the named target ports. Pods with different numbers have different ports.
type Groups<'s> = BTreeMap<Numbers<'s>, EndpointSet>;

/// The endpoints of the pods, and the first pods without a known node.
fn desired<'s>(
    situation: &Situation<'s>,
    targets: &TargetPorts<'s>,
    address_type: &str,
) -> (Groups<'s>, Vec<EndpointsError>) {
    let Situation { service, spec, .. } = *situation;
    let (mut groups, mut missing) = (Groups::new(), Vec::new());
    for pod in situation.pods.iter().filter(|pod| is_endpoint(pod, true)) {
        let group = groups.entry(targets.numbers(pod)).or_default();
        let name = node_name(pod).unwrap_or_default();
        let node = (situation.node)(name);
        if node.is_none() && spec.publish_not_ready_addresses != Some(true) {
            if missing.len() < MOST_MISSING {
                missing.push(EndpointsError::NodeNotFound {
                    pod: pod.metadata.name.clone().unwrap_or_default(),
                    service: format!("Service {}", key_of(service)),
                    node: name.to_owned(),
                });
            }
            continue;
        }
        let endpoint = endpoint(service, spec, pod, node.as_deref(), address_type);
        if !endpoint.addresses.is_empty() {
            group.insert(EndpointId::of(&endpoint), endpoint);
        }
    }
    (groups, missing)
}

/// Checks the number of ports before the slices are computed.
fn check_ports(
    service: &Service,
    targets: &TargetPorts<'_>,
    groups: &Groups<'_>,
    most: usize,
) -> Result<(), EndpointsError> {
    let of_group = |(numbers, endpoints): (&Numbers<'_>, &EndpointSet)| {
        targets.count(numbers).saturating_mul(endpoints.len().div_ceil(most.max(1)).max(1))
    };
    let ports = groups.iter().map(of_group).fold(0, usize::saturating_add);
    if ports <= MOST_PORTS {
        return Ok(());
    }
    let service = format!("Service {}", key_of(service));
    Err(EndpointsError::TooManyPorts { service, ports, most: MOST_PORTS })
}

/// A Service without endpoints has one slice without endpoints and ports, so that clients see that it was processed.
fn keep_placeholder(
    situation: &Situation<'_>,
    existing: &[Arc<EndpointSlice>],
    address_type: &str,
    changes: &mut SliceChanges,
) {
    if existing.len() != changes.delete.len() || !changes.create.is_empty() {
        return;
    }
    let placeholder = new_slice(situation.service, situation.spec, &[], address_type);
    match changes.delete.as_slice() {
        [only] if is_owned(only, situation.service) && is_same_placeholder(only, &placeholder) => {
            changes.delete.clear();
        }
        _ => changes.create.push(placeholder),
    }
}

fn is_same_placeholder(slice: &EndpointSlice, placeholder: &EndpointSlice) -> bool {
    let labels = |slice: &EndpointSlice| slice.metadata.labels.clone().unwrap_or_default();
    endpoints(slice).is_empty()
        && slice.ports.as_ref().is_none_or(Vec::is_empty)
        && labels(slice) == labels(placeholder)
}

/// The existing slices that are neither updated nor deleted.
fn unchanged(existing: &[Arc<EndpointSlice>], changes: &SliceChanges) -> Vec<Arc<EndpointSlice>> {
    let updated = changes.update.iter().map(|slice| &slice.metadata.name);
    let deleted = changes.delete.iter().map(|slice| &slice.metadata.name);
    let changed: HashSet<&Option<String>> = updated.chain(deleted).collect();
    existing.iter().filter(|slice| !changed.contains(&slice.metadata.name)).cloned().collect()
}

/// Sets the hints that the annotation or `spec.trafficDistribution` requests, and removes others.
fn set_all_hints(
    service: &Service,
    spec: &ServiceSpec,
    existing: &[Arc<EndpointSlice>],
    address_type: &str,
    topology: &Mutex<Topology>,
    changes: &mut SliceChanges,
) -> Option<HintEvent> {
    let unchanged = unchanged(existing, changes);
    let mut slices = HintedSlices {
        create: std::mem::take(&mut changes.create),
        update: std::mem::take(&mut changes.update),
        unchanged,
    };
    let key = key_of(service);
    let event = if is_requested(service) {
        topology.lock().set_hints(&key, address_type, &mut slices)
    } else {
        match Distribution::parse(spec.traffic_distribution.as_deref()) {
            Some(distribution) => set_hints(distribution, &mut slices),
            None => slices.remove_hints(),
        }
        topology.lock().disable(&key, address_type)
    };
    (changes.create, changes.update) = (slices.create, slices.update);
    event
}
