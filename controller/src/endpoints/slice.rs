//! EndpointSlices: the identity of endpoints, groups of ports, labels. Pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::Resource;
use kube::core::ObjectMeta;
use orlop_apimachinery::names::dns_subdomain_prefix;
use orlop_client::informer::Informer;
use orlop_client::names::{LABEL_SERVICE_NAME, LABEL_SLICE_MANAGED_BY};

use super::pods::same_target;
use crate::workload::owned::controller_reference;

/// The address type of IPv4.
pub const IPV4: &str = "IPv4";
/// The address type of IPv6.
pub const IPV6: &str = "IPv6";
/// Name of the index of EndpointSlices by the key of their Service.
const INDEX_SERVICE: &str = "endpoints-service";

/// Identifies an endpoint. Endpoints with the same identity are the same one, with changed attributes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointId {
    addresses: Vec<String>,
    hostname: String,
    namespace: String,
    name: String,
}

impl EndpointId {
    /// The identity of an endpoint.
    pub fn of(endpoint: &Endpoint) -> Self {
        let mut addresses = endpoint.addresses.clone();
        addresses.sort();
        let target = endpoint.target_ref.as_ref();
        Self {
            addresses,
            hostname: endpoint.hostname.clone().unwrap_or_default(),
            namespace: target.and_then(|target| target.namespace.clone()).unwrap_or_default(),
            name: target.and_then(|target| target.name.clone()).unwrap_or_default(),
        }
    }
}

/// Endpoints by their identity.
pub type EndpointSet = BTreeMap<EndpointId, Endpoint>;

/// Whether two endpoints with the same identity have the same attributes. Hints do not count.
pub fn same_attributes(a: &Endpoint, b: &Endpoint) -> bool {
    let conditions = |endpoint: &Endpoint| endpoint.conditions.clone().unwrap_or_default();
    a.node_name == b.node_name
        && a.zone == b.zone
        && conditions(a) == conditions(b)
        && same_target(a.target_ref.as_ref(), b.target_ref.as_ref())
}

/// The endpoints of a slice.
pub fn endpoints(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

/// Name, protocol, number and application protocol of a port.
type PortFields = (Option<String>, Option<String>, Option<i32>, Option<String>);

/// Identifies a set of ports. An EndpointSlice contains endpoints with the same set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortSet(Vec<PortFields>);

impl PortSet {
    /// The identity of these ports, in any order.
    pub fn of(ports: &[EndpointPort]) -> Self {
        let fields = |port: &EndpointPort| {
            (port.name.clone(), port.protocol.clone(), port.port, port.app_protocol.clone())
        };
        let mut all: Vec<PortFields> = ports.iter().map(fields).collect();
        all.sort();
        Self(all)
    }
}

/// Sorts ports as upstream does: by the FNV-1a hashes, 128 bits, of their texts in Go's format.
pub fn sort_ports(ports: &mut [EndpointPort]) {
    ports.sort_by_cached_key(|port| fnv1a(go_text(port).as_bytes()));
}

fn go_text(port: &EndpointPort) -> String {
    fn text<T: ToString>(value: Option<&T>) -> String {
        value.map_or_else(|| "<nil>".to_owned(), ToString::to_string)
    }
    // Go prints the type of a pointer differently if the pointer is nil, but always with one asterisk.
    format!(
        "(v1.EndpointPort){{Name:(*string){} Protocol:(*v1.Protocol){} Port:(*int32){} AppProtocol:(*string){}}}",
        text(port.name.as_ref()),
        text(port.protocol.as_ref()),
        text(port.port.as_ref()),
        text(port.app_protocol.as_ref()),
    )
}

fn fnv1a(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

/// The metadata of a new slice without labels. `owner` is the Service or the Endpoints object.
pub fn new_metadata<O: Resource<DynamicType = ()>>(owner: &O) -> ObjectMeta {
    let name = owner.meta().name.as_deref().unwrap_or_default();
    let dashed = format!("{name}-");
    let prefix = if dns_subdomain_prefix(&dashed).is_empty() { dashed } else { name.to_owned() };
    ObjectMeta {
        generate_name: Some(prefix),
        namespace: owner.meta().namespace.clone(),
        owner_references: Some(vec![controller_reference(owner)]),
        ..ObjectMeta::default()
    }
}

/// The value of a label.
pub fn label<'s>(slice: &'s EndpointSlice, key: &str) -> Option<&'s str> {
    slice.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Whether a controller writes this slice.
pub fn is_managed_by(slice: &EndpointSlice, manager: &str) -> bool {
    label(slice, LABEL_SLICE_MANAGED_BY) == Some(manager)
}

/// The key of the Service that a slice names; `None` if it names none.
pub fn service_key(slice: &EndpointSlice) -> Option<String> {
    let name = label(slice, LABEL_SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(format!("{}/{name}", slice.metadata.namespace.as_deref().unwrap_or_default()))
}

/// Adds the index that [`slices_of`] uses.
pub fn index_by_service(slices: &Informer<EndpointSlice>) {
    slices.add_index(INDEX_SERVICE, |slice| service_key(slice).into_iter().collect());
}

/// The slices that a controller writes for a Service, by name.
pub fn slices_of(slices: &Informer<EndpointSlice>, key: &str, manager: &str) -> Vec<Arc<EndpointSlice>> {
    let all = slices.each_by_index(INDEX_SERVICE, key);
    all.filter(|slice| is_managed_by(slice, manager)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, protocol: &str, port: i32) -> EndpointPort {
        EndpointPort {
            name: Some(name.to_owned()),
            protocol: Some(protocol.to_owned()),
            port: Some(port),
            app_protocol: None,
        }
    }

    #[test]
    fn hash_matches_the_fnv_reference_values() {
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(
            go_text(&port("http", "TCP", 80)),
            "(v1.EndpointPort){Name:(*string)http Protocol:(*v1.Protocol)TCP Port:(*int32)80 AppProtocol:(*string)<nil>}"
        );
    }

    #[test]
    fn order_of_ports_does_not_depend_on_the_input() {
        let (a, b) = (port("http", "TCP", 80), port("dns", "UDP", 53));
        let (mut one, mut other) = (vec![a.clone(), b.clone()], vec![b.clone(), a.clone()]);
        sort_ports(&mut one);
        sort_ports(&mut other);
        assert_eq!(one, other);
        assert_eq!(PortSet::of(&[a.clone(), b.clone()]), PortSet::of(&[b, a.clone()]));
        assert_ne!(PortSet::of(&[a]), PortSet::of(&[port("http", "TCP", 81)]));
    }
}
