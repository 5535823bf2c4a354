//! Computes the Endpoints of a Service. Pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service, ServiceSpec,
};
use orlop_client::names::{
    ANN_LAST_CHANGE_TRIGGER_TIME, ANN_OVER_CAPACITY, COMPONENT_ENDPOINTS, LABEL_ENDPOINTS_MANAGED_BY,
    LABEL_HEADLESS,
};

use crate::endpoints::pods::{
    addresses, has_no_ip, hostname, is_endpoint, is_headless, same_target, target, target_port,
};
use crate::endpoints::subsets::{repack, subset};
use crate::endpoints::{ip, pods};
use crate::workload::ready::is_ready;

/// The maximum number of addresses in Endpoints.
pub(super) const CAPACITY: usize = 1000;
/// The value of [`ANN_OVER_CAPACITY`].
const TRUNCATED: &str = "truncated";

type Labels = BTreeMap<String, String>;

/// The Endpoints to write; `None` if the current ones are correct. `trigger` is the time of the change that caused the
/// sync.
pub fn wanted(
    service: &Service,
    spec: &ServiceSpec,
    pods: &[Arc<Pod>],
    current: Option<&Endpoints>,
    trigger: Option<Timestamp>,
) -> Option<Endpoints> {
    let subsets = subsets(service, spec, pods);
    let labels = service.metadata.labels.clone().unwrap_or_default();
    if current.is_some_and(|current| is_current(current, &subsets, &labels)) {
        return None;
    }
    let mut next = current.cloned().unwrap_or_default();
    next.metadata.name.clone_from(&service.metadata.name);
    next.metadata.namespace.clone_from(&service.metadata.namespace);
    next.metadata.labels = Some(labels_for(spec, labels));
    let (subsets, is_truncated) = truncate(subsets);
    let annotations = next.metadata.annotations.get_or_insert_default();
    set(annotations, ANN_LAST_CHANGE_TRIGGER_TIME, trigger.map(|time| time.to_string()));
    set(annotations, ANN_OVER_CAPACITY, is_truncated.then(|| TRUNCATED.to_owned()));
    if annotations.is_empty() {
        next.metadata.annotations = None;
    }
    next.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
    Some(next)
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

/// Whether subsets, labels and the annotation of the capacity are correct. Truncated Endpoints are always written again.
fn is_current(current: &Endpoints, subsets: &[EndpointSubset], service_labels: &Labels) -> bool {
    let known = current.subsets.as_deref().unwrap_or_default();
    let count: usize = known.iter().map(|subset| ready(subset).len() + not_ready(subset).len()).sum();
    let is_marked =
        current.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(ANN_OVER_CAPACITY));
    let same = known.len() == subsets.len() && known.iter().zip(subsets).all(|(a, b)| same_subset(a, b));
    same && has_labels(current, service_labels) && count <= CAPACITY && !is_marked
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

/// The endpoints of the pods, packed.
fn subsets(service: &Service, spec: &ServiceSpec, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let publish_all = spec.publish_not_ready_addresses == Some(true);
    let ports = spec.ports.as_deref().unwrap_or_default();
    let mut all = Vec::new();
    for pod in pods.iter().filter(|pod| is_endpoint(pod, publish_all)) {
        let Some(address) = address(service, spec, pod) else { continue };
        let mut add = |ports: Vec<EndpointPort>| {
            let address = vec![address.clone()];
            all.push(match publish_all || is_ready(pod) {
                true => subset(address, Vec::new(), ports),
                false => subset(Vec::new(), address, ports),
            });
        };
        if ports.is_empty() && has_no_ip(spec) {
            add(Vec::new());
        }
        for port in ports {
            // A pod may lack a port that others have.
            let Some(number) = target_port(pod, port) else { continue };
            add(vec![EndpointPort {
                name: port.name.clone().filter(|name| !name.is_empty()),
                port: number,
                protocol: Some(pods::protocol(port.protocol.as_deref()).to_owned()),
                app_protocol: port.app_protocol.clone(),
            }]);
        }
    }
    repack(&all)
}

/// The address of a pod in the first address family of the Service; `None` if the pod has none.
fn address(service: &Service, spec: &ServiceSpec, pod: &Pod) -> Option<EndpointAddress> {
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
    let address = addresses(pod).find(|address| ip::is_v6(address) == is_v6)?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    Some(EndpointAddress {
        ip: address.to_owned(),
        hostname: hostname(pod, service),
        // As upstream: a pod without a node has the empty name, which the server rejects.
        node_name: Some(node.unwrap_or_default()),
        target_ref: Some(target(pod)),
    })
}

/// Shortens the subsets to [`CAPACITY`] addresses, in proportion to their sizes; ready addresses take precedence. Returns
/// whether addresses were removed.
pub(super) fn truncate(mut subsets: Vec<EndpointSubset>) -> (Vec<EndpointSubset>, bool) {
    let all_ready: usize = subsets.iter().map(|subset| ready(subset).len()).sum();
    let all_not_ready: usize = subsets.iter().map(|subset| not_ready(subset).len()).sum();
    if all_ready + all_not_ready <= CAPACITY {
        return (subsets, false);
    }
    let cuts_ready = all_ready > CAPACITY;
    let (room, total) =
        if cuts_ready { (CAPACITY, all_ready) } else { (CAPACITY - all_ready, all_not_ready) };
    let mut left = room;
    for subset in &mut subsets {
        let list = if cuts_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        let count = list.as_ref().map_or(0, Vec::len);
        // Rounded up, so the last subset may receive less.
        let share = (count * room).div_ceil(total).min(left).min(count);
        if let Some(list) = list {
            list.truncate(share);
        }
        left -= share;
        if cuts_ready {
            subset.not_ready_addresses = None;
        }
        for list in [&mut subset.addresses, &mut subset.not_ready_addresses] {
            if list.as_ref().is_some_and(Vec::is_empty) {
                *list = None;
            }
        }
    }
    // The server rejects subsets without addresses.
    subsets.retain(|subset| !ready(subset).is_empty() || !not_ready(subset).is_empty());
    (subsets, true)
}
