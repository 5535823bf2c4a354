//! Allocation of cluster IPs and node ports for services.
//!
//! An address is allocated once. The store keeps each allocation as a separate record
//! ([`Kind::reserved`](crate::registry::Kind::reserved)), which is written and removed in the commits that write
//! the service, so allocations survive restarts and crashes. Between allocation and commit, the request holds the
//! address in [`Pool`], so that no other request receives it.
//!
//! Automatic addresses are of the range of the server (`--service-cluster-ip-range`) as long as it has free ones, then of further
//! ServiceCIDRs.

pub(crate) mod backend;
mod cidrs;
pub mod pool;
pub mod range;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use orlop_store::Snapshot;
use rand::Rng as _;
use serde_json::{Value, json};

use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry;
use crate::registry::service::{
    ADDRESSES, HEADLESS, NODE_PORTS, address_key, fields, has_address, has_health_port, has_node_ports,
    number, ports, rules, texts,
};
use crate::state::Inner;
use crate::system_objects::addresses;
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use pool::{HeldAllocations, Pool, Ranges};
use range::AddressRange;

/// Validates the addresses and ports of a service and allocates the missing ones. `old` is the stored service
/// that it replaces.
///
/// # Errors
/// 422 for a value that does not fit this cluster or is already allocated, 500 if the range is full.
pub(crate) fn settle(
    server: &Inner,
    held: &HeldAllocations,
    service: &mut Object,
    old: Option<&Object>,
) -> Result<(), ApiError> {
    if let Some(old) = old {
        fields::keep_given(service, old);
        fields::drop_with_type(service, old);
    }
    fields::join_addresses(service, old);
    if has_address(service) {
        let cluster = fields::family_of(server.config.services.addresses.first());
        let mut errors = FieldErrors::new();
        rules::cluster_ips(service, &mut errors);
        if errors.is_empty() {
            fields::settle_families(service, old, cluster, &mut errors);
        }
        if !errors.is_empty() {
            return Err(invalid(service, &errors));
        }
    }
    let pool = &server.pool;
    let mut taken = pool.keys();
    // Read under the lock: this snapshot contains all allocations that other requests have committed and released.
    let mut giving = Allocator {
        ranges: &server.config.services,
        head: server.store.head(),
        taken: &mut taken,
        held,
        pool,
    };
    giving.address(service, old)?;
    giving.node_ports(service, old)
}

fn invalid(service: &Object, errors: &FieldErrors) -> ApiError {
    ApiError::invalid("Service", "", service.name(), errors)
}

/// Why an address or port that a client specifies cannot be allocated.
enum AllocationRefusal {
    OutOfRange,
    Taken,
}

/// The allocations of one request.
struct Allocator<'a> {
    ranges: &'a Ranges,
    head: Snapshot<Projection>,
    taken: &'a mut HashSet<String>,
    held: &'a HeldAllocations,
    pool: &'a Arc<Pool>,
}

impl Allocator<'_> {
    fn is_free(&self, key: &str) -> bool {
        (!self.taken.contains(key) || self.held.has(key))
            && self.head.get(key).is_none()
            && !self.is_published(key)
    }

    /// Whether the key is that of an address with an IPAddress, which clients may create as well.
    fn is_published(&self, key: &str) -> bool {
        let ip = key.strip_prefix(ADDRESSES).and_then(|ip| ip.parse().ok());
        ip.and_then(addresses::key).is_some_and(|key| self.head.get(&key).is_some())
    }

    fn take(&mut self, key: String) {
        if self.taken.insert(key.clone()) {
            self.held.add(self.pool, key);
        }
    }

    fn address(&mut self, service: &mut Object, old: Option<&Object>) -> Result<(), ApiError> {
        if !has_address(service) {
            return Ok(());
        }
        let own: Vec<&str> = old
            .filter(|old| has_address(old))
            .map(|old| texts(old, "clusterIPs").collect())
            .unwrap_or_default();
        if fields::wants_address(service) {
            let free = self
                .free_in(&self.ranges.addresses)
                .or_else(|| self.further_ranges().iter().find_map(|range| self.free_in(range)));
            let ip =
                free.ok_or_else(|| ApiError::internal("failed to allocate a serviceIP: range is full"))?;
            let ip = ip.to_string();
            self.take(format!("{ADDRESSES}{ip}"));
            service.set(&["spec", "clusterIP"], ip.as_str());
            service.set(&["spec", "clusterIPs"], json!([ip]));
            return Ok(());
        }
        let ips: Vec<String> = texts(service, "clusterIPs").map(str::to_owned).collect();
        for ip in ips.iter().filter(|ip| *ip != HEADLESS && !own.contains(&ip.as_str())) {
            let why = match self.named_address(ip) {
                Ok(()) => continue,
                Err(AllocationRefusal::Taken) => "provided IP is already allocated".to_owned(),
                Err(AllocationRefusal::OutOfRange) => format!(
                    "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {}",
                    self.ranges.addresses
                ),
            };
            let mut errors = FieldErrors::new();
            let why = format!("failed to allocate IP {ip}: {why}");
            errors.invalid(&Path::new("spec.clusterIPs"), json!(ips), &why);
            return Err(invalid(service, &errors));
        }
        Ok(())
    }

    /// A free address of a range.
    fn free_in(&self, range: &AddressRange) -> Option<IpAddr> {
        let start = u128::from(rand::rng().random::<u64>());
        let is_free = |place: u128| self.is_free(&format!("{ADDRESSES}{}", range.at(place)));
        range::find(range.size(), range.band(), start, is_free).map(|place| range.at(place))
    }

    /// The ranges of further ServiceCIDRs. Their number and size are bounded (`admission::collections`).
    fn further_ranges(&self) -> Vec<AddressRange> {
        let Some(kind) = registry::by_resource("networking.k8s.io", "v1", "servicecidrs") else {
            return Vec::new();
        };
        let prefix = dispatch::prefix(kind, "");
        // An unreadable one gives no addresses.
        let objects = self.head.range(&prefix, None).filter_map(|record| stored::decode(record).ok());
        cidrs::usable(objects, self.ranges.addresses).collect()
    }

    fn named_address(&mut self, ip: &str) -> Result<(), AllocationRefusal> {
        let parsed = ip.parse::<IpAddr>().map_err(|_| AllocationRefusal::OutOfRange)?;
        let is_inside = self.ranges.addresses.contains(parsed)
            || self.further_ranges().iter().any(|range| range.contains(parsed));
        if !is_inside {
            return Err(AllocationRefusal::OutOfRange);
        }
        self.named(address_key(ip))
    }

    fn named(&mut self, key: String) -> Result<(), AllocationRefusal> {
        if !self.is_free(&key) {
            return Err(AllocationRefusal::Taken);
        }
        self.take(key);
        Ok(())
    }

    fn node_ports(&mut self, service: &mut Object, old: Option<&Object>) -> Result<(), ApiError> {
        if !has_node_ports(service) {
            return Ok(());
        }
        let own: HashSet<i64> = old.filter(|old| has_node_ports(old)).map(numbers).unwrap_or_default();
        // Specified ports come first, so that none of them is assigned automatically.
        for (i, port) in ports(service).iter().enumerate() {
            let node = number(port, "nodePort");
            let path = Path::new("spec.ports").index(i).child("nodePort");
            if node != 0 && !own.contains(&node) {
                self.named_port(node, &path).map_err(|errors| invalid(service, &errors))?;
            }
        }
        let health = service.at(&["spec", "healthCheckNodePort"]).and_then(Value::as_i64).unwrap_or_default();
        if has_health_port(service) {
            if health == 0 {
                let port = self.next_port()?;
                service.set(&["spec", "healthCheckNodePort"], port);
            } else if !own.contains(&health) {
                let path = Path::new("spec.healthCheckNodePort");
                self.named_port(health, &path).map_err(|errors| invalid(service, &errors))?;
            }
        }
        let gives = service.at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false));
        if !gives {
            return Ok(());
        }
        // The assigned node ports by service port, each with its protocol.
        let mut given: HashMap<i64, Vec<(String, i64)>> = HashMap::new();
        let protocol = |port: &Value| port["protocol"].as_str().unwrap_or_default().to_owned();
        for port in ports(service).iter().filter(|port| number(port, "nodePort") != 0) {
            let place = given.entry(number(port, "port")).or_default();
            place.push((protocol(port), number(port, "nodePort")));
        }
        for i in 0..ports(service).len() {
            let port = &ports(service)[i];
            if number(port, "nodePort") != 0 {
                continue;
            }
            // The same service port with another protocol shares its node port.
            let own = protocol(port);
            let place = given.entry(number(port, "port")).or_default();
            let node = match place.iter().find(|(other, _)| *other != own) {
                Some((_, node)) => *node,
                None => self.next_port()?,
            };
            place.push((own, node));
            if let Some(port) =
                service.object_at(&["spec"]).get_mut("ports").and_then(|ports| ports.get_mut(i))
            {
                port["nodePort"] = node.into();
            }
        }
        Ok(())
    }

    fn named_port(&mut self, port: i64, path: &Path) -> Result<(), FieldErrors> {
        let range = &self.ranges.node_ports;
        let inside = u16::try_from(port).is_ok_and(|port| range.contains(&port));
        let result = if inside {
            self.named(format!("{NODE_PORTS}{port}"))
        } else {
            Err(AllocationRefusal::OutOfRange)
        };
        let why = match result {
            Ok(()) => return Ok(()),
            Err(AllocationRefusal::Taken) => "provided port is already allocated".to_owned(),
            Err(AllocationRefusal::OutOfRange) => format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                self.ranges.node_ports.start(),
                self.ranges.node_ports.end()
            ),
        };
        let mut errors = FieldErrors::new();
        errors.invalid(path, port, &why);
        Err(errors)
    }

    fn next_port(&mut self) -> Result<i64, ApiError> {
        let first = i64::from(*self.ranges.node_ports.start());
        let size = u128::from(self.ranges.node_ports.end() - self.ranges.node_ports.start()) + 1;
        let at = |place: u128| first + i64::try_from(place).unwrap_or_default();
        let start = u128::from(rand::rng().random::<u64>());
        let free = |place: u128| {
            self.is_free(&format!("{NODE_PORTS}{}", at(place)))
                && !self.held.has(&format!("{NODE_PORTS}{}", at(place)))
        };
        let place = range::find(size, 0, start, free)
            .ok_or_else(|| ApiError::internal("failed to allocate a nodePort: range is full"))?;
        self.take(format!("{NODE_PORTS}{}", at(place)));
        Ok(at(place))
    }
}

fn numbers(service: &Object) -> HashSet<i64> {
    let health = service.at(&["spec", "healthCheckNodePort"]).and_then(Value::as_i64);
    let all = ports(service).iter().map(|port| number(port, "nodePort"));
    all.chain(health).filter(|port| *port != 0).collect()
}
