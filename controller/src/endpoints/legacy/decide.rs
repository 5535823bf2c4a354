//! Computes the Endpoints of a Service. Pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service, ServiceSpec,
};
use orlop_apimachinery::steps::{OutOfSteps, Steps};
use orlop_client::names::{
    ANN_LAST_CHANGE_TRIGGER_TIME, ANN_OVER_CAPACITY, COMPONENT_ENDPOINTS, LABEL_ENDPOINTS_MANAGED_BY,
    LABEL_HEADLESS,
};

use crate::endpoints::pods::{
    addresses, has_no_ip, hostname, is_endpoint, is_headless, protocol, same_target, target,
};
use crate::endpoints::subsets::{PackedSubset, PortId, Ports, pack, subset};
use crate::endpoints::target_ports::{PortName, TargetPort, TargetPorts};
use crate::endpoints::{ip, pods};
use crate::workload::ready::is_ready;

/// The maximum number of addresses in Endpoints.
pub(super) const CAPACITY: usize = 1000;
/// The maximum number of ports in Endpoints. More do not fit into a request.
pub const MOST_PORTS: u64 = 200_000;
/// The value of [`ANN_OVER_CAPACITY`].
const TRUNCATED: &str = "truncated";

type Labels = BTreeMap<String, String>;

/// The Endpoints to write; `None` if the current ones are correct. `trigger` is the time of the change that caused the
/// sync.
///
/// # Errors
/// The Endpoints would have more than [`MOST_PORTS`] ports.
pub fn wanted(
    service: &Service,
    spec: &ServiceSpec,
    pods: &[Arc<Pod>],
    current: Option<&Endpoints>,
    trigger: Option<Timestamp>,
) -> Result<Option<Endpoints>, OutOfSteps> {
    let (subsets, is_truncated) = subsets(service, spec, pods)?;
    let labels = service.metadata.labels.clone().unwrap_or_default();
    // Truncated Endpoints are always written again.
    if !is_truncated && current.is_some_and(|current| is_current(current, &subsets, &labels)) {
        return Ok(None);
    }
    let mut next = current.cloned().unwrap_or_default();
    next.metadata.name.clone_from(&service.metadata.name);
    next.metadata.namespace.clone_from(&service.metadata.namespace);
    next.metadata.labels = Some(labels_for(spec, labels));
    let annotations = next.metadata.annotations.get_or_insert_default();
    set(annotations, ANN_LAST_CHANGE_TRIGGER_TIME, trigger.map(|time| time.to_string()));
    set(annotations, ANN_OVER_CAPACITY, is_truncated.then(|| TRUNCATED.to_owned()));
    if annotations.is_empty() {
        next.metadata.annotations = None;
    }
    next.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
    Ok(Some(next))
}

fn set(annotations: &mut BTreeMap<String, String>, key: &str, value: Option<String>) {
    match value {
        Some(value) => annotations.insert(key.to_owned(), value),
        None => annotations.remove(key),
    };
}

fn labels_for(spec: &ServiceSpec, mut labels: Labels) -> Labels {
    match is_headless(spec) {
        true => labels.insert(LABEL_HEADLESS.to_owned(), String::new()),
        false => labels.remove(LABEL_HEADLESS),
    };
    labels.insert(LABEL_ENDPOINTS_MANAGED_BY.to_owned(), COMPONENT_ENDPOINTS.to_owned());
    labels
}

/// Whether subsets, labels and the annotation of the capacity are correct.
fn is_current(current: &Endpoints, subsets: &[EndpointSubset], service_labels: &Labels) -> bool {
    let known = current.subsets.as_deref().unwrap_or_default();
    let is_marked =
        current.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(ANN_OVER_CAPACITY));
    let same = known.len() == subsets.len() && known.iter().zip(subsets).all(|(a, b)| same_subset(a, b));
    same && has_labels(current, service_labels) && !is_marked
}

/// Whether the labels are those of the Service and the controller's own.
fn has_labels(current: &Endpoints, service_labels: &Labels) -> bool {
    let empty = Labels::new();
    let labels = current.metadata.labels.as_ref().unwrap_or(&empty);
    let copied: Vec<_> = labels
        .iter()
        .filter(|(key, _)| *key != LABEL_HEADLESS && *key != LABEL_ENDPOINTS_MANAGED_BY)
        .collect();
    labels.get(LABEL_ENDPOINTS_MANAGED_BY).is_some_and(|manager| manager == COMPONENT_ENDPOINTS)
        && copied.len() == service_labels.len()
        && copied.into_iter().all(|(key, value)| service_labels.get(key) == Some(value))
}

fn ready(subset: &EndpointSubset) -> &[EndpointAddress] {
    subset.addresses.as_deref().unwrap_or_default()
}

fn not_ready(subset: &EndpointSubset) -> &[EndpointAddress] {
    subset.not_ready_addresses.as_deref().unwrap_or_default()
}

fn same_subset(a: &EndpointSubset, b: &EndpointSubset) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let same_address = |(a, b): (&EndpointAddress, &EndpointAddress)| {
        a.ip == b.ip
            && text(&a.hostname) == text(&b.hostname)
            && a.node_name == b.node_name
            && same_target(a.target_ref.as_ref(), b.target_ref.as_ref())
    };
    let same_addresses = |a: &[EndpointAddress], b: &[EndpointAddress]| {
        a.len() == b.len() && a.iter().zip(b).all(same_address)
    };
    let port = |port: &EndpointPort| {
        let protocol = pods::protocol(port.protocol.as_deref()).to_owned();
        (text(&port.name), protocol, port.port, port.app_protocol.clone())
    };
    same_addresses(ready(a), ready(b))
        && same_addresses(not_ready(a), not_ready(b))
        && a.ports.iter().flatten().map(port).eq(b.ports.iter().flatten().map(port))
}

/// A pod with an address in the first address family of the Service.
struct Candidate<'p> {
    ip: &'p str,
    uid: &'p str,
    pod: &'p Pod,
}

/// The endpoints of the pods, packed, and whether addresses were removed.
fn subsets(
    service: &Service,
    spec: &ServiceSpec,
    pods: &[Arc<Pod>],
) -> Result<(Vec<EndpointSubset>, bool), OutOfSteps> {
    let publish_all = spec.publish_not_ready_addresses == Some(true);
    let mut candidates: Vec<Candidate<'_>> = pods
        .iter()
        .filter(|pod| is_endpoint(pod, publish_all))
        .filter_map(|pod| {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            Some(Candidate { ip: first_ip(spec, pod)?, uid, pod })
        })
        .collect();
    candidates.sort_by_key(|candidate| (candidate.ip, candidate.uid));
    let (packed, is_truncated) = truncate(pack_pods(spec, &candidates, publish_all)?);
    // Addresses are created only now: there are few of them, and without the limit a pod would have one for each port.
    let those = |positions: &[usize]| -> Vec<EndpointAddress> {
        let found = positions.iter().filter_map(|position| candidates.get(*position));
        found.map(|candidate| address(service, candidate)).collect()
    };
    let subsets =
        packed.into_iter().map(|packed| subset(those(&packed.ready), those(&packed.not_ready), packed.ports));
    Ok((subsets.collect(), is_truncated))
}

/// The subsets as positions in `candidates`. The ports with one number have the same addresses: all of them, or those of
/// the pods in which the named target has this number.
fn pack_pods(
    spec: &ServiceSpec,
    candidates: &[Candidate<'_>],
    publish_all: bool,
) -> Result<Vec<PackedSubset>, OutOfSteps> {
    let targets = TargetPorts::of(spec);
    let (mut all, mut by_number) = (Vec::new(), BTreeMap::<(PortName<'_>, i32), Vec<_>>::new());
    for (position, candidate) in candidates.iter().enumerate() {
        let entry = (position, publish_all || is_ready(candidate.pod));
        all.push(entry);
        for key in targets.numbers(candidate.pod) {
            by_number.entry(key).or_default().push(entry);
        }
    }
    let mut lists = vec![all];
    let mut named: BTreeMap<PortName<'_>, Vec<(i32, usize)>> = BTreeMap::new();
    for ((name, number), addresses) in by_number {
        named.entry(name).or_default().push((number, lists.len()));
        lists.push(addresses);
    }
    let (mut ports, steps) = (Ports::new(), Steps::new(MOST_PORTS));
    if targets.ports.is_empty() && has_no_ip(spec) {
        ports.insert(None, vec![0]);
    }
    for (port, target) in &targets.ports {
        let id = |number: i32| -> Option<PortId<'_>> {
            let name = port.name.as_deref().filter(|name| !name.is_empty());
            let protocol = protocol(port.protocol.as_deref());
            Some((name, Some(protocol), number, port.app_protocol.as_deref()))
        };
        match target {
            TargetPort::Number(number) => {
                steps.take(1)?;
                ports.entry(id(*number)).or_default().push(0);
            }
            TargetPort::Named(name) => {
                let numbers = named.get(name).map(Vec::as_slice).unwrap_or_default();
                steps.take(numbers.len())?;
                for (number, list) in numbers {
                    ports.entry(id(*number)).or_default().push(*list);
                }
            }
        }
    }
    // The lists are no larger than the pods.
    pack(&lists, ports, &Steps::new(u64::MAX))
}

/// The address of a pod in the first address family of the Service; `None` if the pod has none.
fn first_ip<'p>(spec: &ServiceSpec, pod: &'p Pod) -> Option<&'p str> {
    let is_v6 = match spec.ip_families.as_deref().unwrap_or_default() {
        [first, ..] => first == "IPv6",
        // Services in old stores have no families.
        [] => match spec.cluster_ip.as_deref() {
            None | Some("" | "None") => {
                let first = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
                ip::is_v6(first.unwrap_or_default())
            }
            Some(cluster_ip) => ip::is_v6(cluster_ip),
        },
    };
    addresses(pod).find(|address| ip::is_v6(address) == is_v6)
}

fn address(service: &Service, candidate: &Candidate<'_>) -> EndpointAddress {
    let pod = candidate.pod;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    EndpointAddress {
        ip: candidate.ip.to_owned(),
        hostname: hostname(pod, service),
        // As upstream: a pod without a node has the empty name, which the server rejects.
        node_name: Some(node.unwrap_or_default()),
        target_ref: Some(target(pod)),
    }
}

/// Shortens the subsets to [`CAPACITY`] addresses, in proportion to their sizes; ready addresses take precedence. Returns
/// whether addresses were removed.
pub(super) fn truncate(mut subsets: Vec<PackedSubset>) -> (Vec<PackedSubset>, bool) {
    let all_ready: usize = subsets.iter().map(|subset| subset.ready.len()).sum();
    let all_not_ready: usize = subsets.iter().map(|subset| subset.not_ready.len()).sum();
    if all_ready + all_not_ready <= CAPACITY {
        return (subsets, false);
    }
    let cuts_ready = all_ready > CAPACITY;
    let (room, total) =
        if cuts_ready { (CAPACITY, all_ready) } else { (CAPACITY - all_ready, all_not_ready) };
    let mut left = room;
    for subset in &mut subsets {
        let list = if cuts_ready { &mut subset.ready } else { &mut subset.not_ready };
        // Rounded up, so the last subset may receive less.
        let share = (list.len() * room).div_ceil(total).min(left).min(list.len());
        list.truncate(share);
        left -= share;
        if cuts_ready {
            subset.not_ready.clear();
        }
    }
    // The server rejects subsets without addresses.
    subsets.retain(|subset| !subset.ready.is_empty() || !subset.not_ready.is_empty());
    (subsets, true)
}
