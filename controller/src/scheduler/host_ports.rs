//! Host ports, of a pod or of all pods on a node, by number and protocol: a conflict is a lookup for each port of the
//! smaller side. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::amounts;

/// The address of ports that are used on all addresses.
const ALL: &str = "0.0.0.0";

/// How often each address of a port is used.
type Addresses = BTreeMap<Arc<str>, usize>;

/// Addresses by port and protocol; none is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPorts(BTreeMap<(i32, Arc<str>), Addresses>);

impl HostPorts {
    /// The ports of a pod: those of its containers and sidecars.
    pub fn of(pod: &Pod) -> Self {
        let mut ports = Self::default();
        let Some(spec) = &pod.spec else { return ports };
        let beside = spec.init_containers.iter().flatten().filter(|container| amounts::is_sidecar(container));
        let all = |container: &Container| container.ports.clone().unwrap_or_default();
        for port in spec.containers.iter().chain(beside).flat_map(all) {
            let or = |text: Option<String>, default: &str| -> Arc<str> {
                text.filter(|text| !text.is_empty()).map_or_else(|| default.into(), Arc::from)
            };
            let Some(number) = port.host_port.filter(|port| *port > 0) else { continue };
            let addresses = ports.0.entry((number, or(port.protocol, "TCP"))).or_default();
            *addresses.entry(or(port.host_ip, ALL)).or_default() += 1;
        }
        ports
    }

    /// Adds all ports of `other`.
    pub fn add(&mut self, other: &Self) {
        for (port, addresses) in &other.0 {
            let known = self.0.entry(port.clone()).or_default();
            for (address, count) in addresses {
                *known.entry(Arc::clone(address)).or_default() += count;
            }
        }
    }

    /// Removes all ports of `other`, which were added before.
    pub fn take(&mut self, other: &Self) {
        for (port, addresses) in &other.0 {
            let Some(known) = self.0.get_mut(port) else { continue };
            for (address, count) in addresses {
                if let Some(left) = known.get_mut(address) {
                    *left = left.saturating_sub(*count);
                    if *left == 0 {
                        known.remove(address);
                    }
                }
            }
            if known.is_empty() {
                self.0.remove(port);
            }
        }
    }

    /// Whether the ports cannot be used together.
    pub fn conflicts(&self, other: &Self) -> bool {
        let (few, many) = if self.0.len() < other.0.len() { (self, other) } else { (other, self) };
        let overlap = |(port, addresses)| many.0.get(port).is_some_and(|others| meet(addresses, others));
        few.0.iter().any(overlap)
    }
}

fn meet(a: &Addresses, b: &Addresses) -> bool {
    let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
    a.contains_key(ALL) || b.contains_key(ALL) || few.keys().any(|address| many.contains_key(address))
}
