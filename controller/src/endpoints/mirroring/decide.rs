//! Compares Endpoints with their mirrored EndpointSlices. Pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use orlop_apimachinery::steps::{OutOfSteps, Steps};
use orlop_client::meta::annotation;
use orlop_client::names::{
    ANN_LAST_APPLIED, ANN_LAST_CHANGE_TRIGGER_TIME, ANN_LEADER, LABEL_SERVICE_NAME, LABEL_SKIP_MIRROR,
    LABEL_SLICE_MANAGED_BY,
};

use crate::endpoints::slice::{
    EndpointId, EndpointSet, IPV4, IPV6, PortSet, endpoints, new_metadata, same_attributes, sort_ports,
};
use crate::endpoints::subsets::repack;
use crate::endpoints::write::SliceChanges;
use crate::endpoints::{ip, pods};

/// The value of the label `endpointslice.kubernetes.io/managed-by`.
pub const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";

/// The maximum number of addresses in the subsets after addresses with the same ports are in one subset. Subsets with
/// different ports and addresses do not reach it: their Endpoints do not fit into a request.
pub const MOST_ADDRESSES: u64 = 300_000;

type Texts = BTreeMap<String, String>;

/// Whether Endpoints are mirrored, if their Service has no selector: they are neither excluded nor the lock of a leader
/// election.
pub fn is_mirrored(endpoints: &Endpoints) -> bool {
    let skip = endpoints.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_SKIP_MIRROR));
    skip.is_none_or(|skip| skip != "true") && annotation(endpoints, ANN_LEADER).is_none()
}

/// The decision on the slices of Endpoints.
#[derive(Debug, Default)]
pub struct Decision {
    /// The slices to write.
    pub changes: SliceChanges,
    /// The number of addresses that are no IP addresses.
    pub invalid: usize,
    /// The number of addresses that are not mirrored, including the invalid ones.
    pub skipped: usize,
}

/// The addresses of one type with the same ports. They form one slice.
struct Group {
    ports: Vec<EndpointPort>,
    endpoints: EndpointSet,
}

/// Decides on the slices. `existing` are the mirrored slices of the Endpoints; `most` is the maximum number of addresses of
/// a subset.
///
/// # Errors
/// The subsets have more than [`MOST_ADDRESSES`] addresses.
pub fn decide(
    object: &Endpoints,
    existing: &[Arc<EndpointSlice>],
    most: usize,
) -> Result<Decision, OutOfSteps> {
    let (mut decision, groups) = desired(object, most)?;
    let mut known: BTreeMap<(String, PortSet), Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in existing {
        let ports = PortSet::of(slice.ports.as_deref().unwrap_or_default());
        known.entry((slice.address_type.clone(), ports)).or_default().push(Arc::clone(slice));
    }
    let changes = &mut decision.changes;
    for ((address_type, ports), group) in groups {
        let slices = known.remove(&(address_type.to_owned(), ports)).unwrap_or_default();
        let mut slices = slices.into_iter();
        let first = slices.next();
        changes.delete.extend(slices);
        match first {
            Some(first) if is_current(object, &first, &group.endpoints) => {}
            Some(first) => {
                let mut next = new_slice(object, group, address_type, most);
                next.metadata.generate_name = None;
                next.metadata.name.clone_from(&first.metadata.name);
                next.metadata.resource_version.clone_from(&first.metadata.resource_version);
                changes.update.push(next);
            }
            None => changes.create.push(new_slice(object, group, address_type, most)),
        }
    }
    // No address has these ports any longer.
    changes.delete.extend(known.into_values().flatten());
    changes.recycle(|_| true);
    Ok(decision)
}

type Groups = BTreeMap<(&'static str, PortSet), Group>;

fn desired(object: &Endpoints, most: usize) -> Result<(Decision, Groups), OutOfSteps> {
    let (mut decision, mut groups) = (Decision::default(), Groups::new());
    let (addresses, subsets) =
        repack(object.subsets.as_deref().unwrap_or_default(), &Steps::new(MOST_ADDRESSES))?;
    for subset in subsets {
        let ready = subset.ready.iter().map(|position| (position, true));
        let all = ready.chain(subset.not_ready.iter().map(|position| (position, false)));
        let (mut mirrored, mut by_type) = (0, BTreeMap::<&'static str, EndpointSet>::new());
        for (position, is_ready) in all {
            if mirrored >= most {
                break;
            }
            let found = addresses.get(*position).and_then(|address| endpoint(address, is_ready));
            let Some((endpoint, address_type)) = found else {
                decision.invalid += 1;
                continue;
            };
            mirrored += 1;
            by_type.entry(address_type).or_default().insert(EndpointId::of(&endpoint), endpoint);
        }
        decision.skipped += subset.ready.len() + subset.not_ready.len() - mirrored;
        let ports = slice_ports(&subset.ports);
        for (address_type, endpoints) in by_type {
            let new = || Group { ports: ports.clone(), endpoints: EndpointSet::new() };
            let group = groups.entry((address_type, PortSet::of(&ports))).or_insert_with(new);
            group.endpoints.extend(endpoints);
        }
    }
    Ok((decision, groups))
}

fn slice_ports(ports: &[k8s_openapi::api::core::v1::EndpointPort]) -> Vec<EndpointPort> {
    let convert = |port: &k8s_openapi::api::core::v1::EndpointPort| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(pods::protocol(port.protocol.as_deref()).to_owned()),
        app_protocol: port.app_protocol.clone(),
    };
    let mut ports: Vec<EndpointPort> = ports.iter().map(convert).collect();
    sort_ports(&mut ports);
    ports
}

/// The endpoint of an address, and its type; `None` if it is no IP address.
fn endpoint(address: &EndpointAddress, is_ready: bool) -> Option<(Endpoint, &'static str)> {
    let ip = ip::parse(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions { ready: Some(is_ready), serving: None, terminating: None }),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    };
    Some((endpoint, if ip.is_ipv4() { IPV4 } else { IPV6 }))
}

fn without(texts: Option<&Texts>, keys: [&str; 2]) -> Texts {
    let all = texts.into_iter().flatten().filter(|(key, _)| !keys.contains(&key.as_str()));
    all.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The annotations of the slices: those of the Endpoints, except two.
fn annotations(object: &Endpoints) -> Texts {
    without(object.metadata.annotations.as_ref(), [ANN_LAST_CHANGE_TRIGGER_TIME, ANN_LAST_APPLIED])
}

fn is_current(object: &Endpoints, slice: &EndpointSlice, desired: &EndpointSet) -> bool {
    let same = |endpoint: &Endpoint| {
        desired.get(&EndpointId::of(endpoint)).is_some_and(|wanted| same_attributes(wanted, endpoint))
    };
    let labels = without(slice.metadata.labels.as_ref(), [LABEL_SLICE_MANAGED_BY, LABEL_SERVICE_NAME]);
    endpoints(slice).len() == desired.len()
        && endpoints(slice).iter().all(same)
        && object.metadata.labels.clone().unwrap_or_default() == labels
        && slice.metadata.annotations.clone().unwrap_or_default() == annotations(object)
}

fn new_slice(object: &Endpoints, group: Group, address_type: &str, most: usize) -> EndpointSlice {
    let mut metadata = new_metadata(object);
    let mut labels = object.metadata.labels.clone().unwrap_or_default();
    labels.insert(LABEL_SERVICE_NAME.to_owned(), object.metadata.name.clone().unwrap_or_default());
    labels.insert(LABEL_SLICE_MANAGED_BY.to_owned(), MANAGER.to_owned());
    metadata.labels = Some(labels);
    metadata.annotations = Some(annotations(object)).filter(|all| !all.is_empty());
    EndpointSlice {
        address_type: address_type.to_owned(),
        endpoints: Some(group.endpoints.into_values().take(most).collect()),
        metadata,
        ports: Some(group.ports),
    }
}
