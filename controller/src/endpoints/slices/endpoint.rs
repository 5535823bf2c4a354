//! Endpoints and slices of a Service, before they are distributed. Pure functions.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use orlop_client::meta::is_terminating;
use orlop_client::names::{LABEL_HEADLESS, LABEL_SERVICE_NAME, LABEL_SLICE_MANAGED_BY, LABEL_ZONE};
use orlop_client::pods::node_name;

use crate::endpoints::ip;
use crate::endpoints::pods::{addresses, hostname, is_headless, protocol, target};
use crate::endpoints::slice::{IPV4, IPV6, new_metadata, sort_ports};
use crate::endpoints::target_ports::{Numbers, TargetPorts};
use crate::workload::ready::is_ready;

/// The value of the label `endpointslice.kubernetes.io/managed-by`.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The address types of the slices of a Service.
pub fn address_types(spec: &ServiceSpec) -> BTreeSet<&'static str> {
    let families = spec.ip_families.iter().flatten();
    let types: BTreeSet<&str> = families
        .filter_map(|family| match family.as_str() {
            "IPv4" => Some(IPV4),
            "IPv6" => Some(IPV6),
            _ => None,
        })
        .collect();
    if !types.is_empty() {
        return types;
    }
    // Services in old stores have no families.
    match spec.cluster_ip.as_deref() {
        None | Some("" | "None") => BTreeSet::from([IPV4, IPV6]),
        Some(cluster_ip) => BTreeSet::from([if ip::is_v6(cluster_ip) { IPV6 } else { IPV4 }]),
    }
}

/// The endpoint of a pod with its addresses of one type.
pub fn endpoint(
    service: &Service,
    spec: &ServiceSpec,
    pod: &Pod,
    node: Option<&Node>,
    address_type: &str,
) -> Endpoint {
    let (serving, terminating) = (is_ready(pod), is_terminating(pod));
    // A terminating pod is not ready, for clients that do not know the other conditions.
    let ready = spec.publish_not_ready_addresses == Some(true) || serving && !terminating;
    let all = addresses(pod).filter_map(ip::parse);
    let zone = node.and_then(|node| node.metadata.labels.as_ref()?.get(LABEL_ZONE).cloned());
    Endpoint {
        addresses: all.filter(|ip| ip.is_ipv6() == (address_type == IPV6)).map(|ip| ip.to_string()).collect(),
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(pod, service),
        node_name: node_name(pod).map(str::to_owned),
        target_ref: Some(target(pod)),
        zone: zone.filter(|zone| !zone.is_empty()),
        ..Endpoint::default()
    }
}

/// The ports of the slices of pods with these numbers, in upstream's order.
pub fn ports(targets: &TargetPorts<'_>, numbers: &Numbers<'_>) -> Vec<EndpointPort> {
    let resolved = targets.resolved(numbers);
    let mut ports: Vec<EndpointPort> = resolved
        .map(|(port, number)| EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(number),
            protocol: Some(protocol(port.protocol.as_deref()).to_owned()),
            app_protocol: port.app_protocol.clone(),
        })
        .collect();
    sort_ports(&mut ports);
    ports
}

/// A new slice without endpoints.
pub fn new_slice(
    service: &Service,
    spec: &ServiceSpec,
    ports: &[EndpointPort],
    address_type: &str,
) -> EndpointSlice {
    let mut slice = EndpointSlice {
        address_type: address_type.to_owned(),
        endpoints: Some(Vec::new()),
        metadata: new_metadata(service),
        ports: Some(ports.to_vec()),
    };
    slice.metadata.labels = Some(labels(service, spec));
    slice
}

fn is_reserved(label: &str) -> bool {
    matches!(label, LABEL_SERVICE_NAME | LABEL_SLICE_MANAGED_BY | LABEL_HEADLESS)
}

/// The labels of the slices: those of the Service and the reserved ones.
pub fn labels(service: &Service, spec: &ServiceSpec) -> BTreeMap<String, String> {
    let own = service.metadata.labels.iter().flatten().filter(|(key, _)| !is_reserved(key));
    let mut labels: BTreeMap<String, String> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    if is_headless(spec) {
        labels.insert(LABEL_HEADLESS.to_owned(), String::new());
    }
    labels.insert(LABEL_SERVICE_NAME.to_owned(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(LABEL_SLICE_MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// Whether the slice lacks changes of the Service's labels. Reserved labels do not count.
pub fn has_old_labels(slice: &EndpointSlice, service: &Service) -> bool {
    let slice = slice.metadata.labels.iter().flatten().filter(|(key, _)| !is_reserved(key));
    let service = service.metadata.labels.iter().flatten().filter(|(key, _)| !is_reserved(key));
    !slice.eq(service)
}

/// Whether the Service owns the slice. A deleted Service with the same name may own slices too.
pub fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    let uid = service.metadata.uid.as_deref();
    slice
        .metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| Some(owner.uid.as_str()) == uid && owner.kind == "Service" && owner.api_version == "v1")
}
