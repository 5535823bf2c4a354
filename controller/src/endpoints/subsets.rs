//! The canonical form of the subsets of Endpoints: addresses with the same ports are in one subset, sorted. Pure
//! functions.
//!
//! Upstream sorts ports and subsets by hashes of Go structures; orlop sorts them by their content. No client can rely on
//! the order. Upstream: pkg/api/v1/endpoints/util.go.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};

/// IP address, and UID of the target.
type AddressId = (String, String);
/// Name, protocol, number and application protocol; `None` for addresses without ports.
type PortId = Option<(Option<String>, Option<String>, i32, Option<String>)>;

fn address_id(address: &EndpointAddress) -> AddressId {
    let uid = address.target_ref.as_ref().and_then(|target| target.uid.clone());
    (address.ip.clone(), uid.unwrap_or_default())
}

fn port_id(port: &EndpointPort) -> PortId {
    Some((port.name.clone(), port.protocol.clone(), port.port, port.app_protocol.clone()))
}

/// Packs the subsets. An address that is ready in one subset and not ready in another one is not ready.
pub fn repack(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let mut addresses: BTreeMap<AddressId, &EndpointAddress> = BTreeMap::new();
    let mut ports: BTreeMap<PortId, BTreeMap<AddressId, bool>> = BTreeMap::new();
    for subset in subsets {
        let of_subset = subset.ports.as_deref().unwrap_or_default();
        let ids: Vec<PortId> =
            if of_subset.is_empty() { vec![None] } else { of_subset.iter().map(port_id).collect() };
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
        for (address, is_ready) in ready.chain(not_ready) {
            let id = address_id(address);
            addresses.entry(id.clone()).or_insert(address);
            for port in &ids {
                let known = ports.entry(port.clone()).or_default().entry(id.clone()).or_insert(is_ready);
                *known &= is_ready;
            }
        }
    }
    let mut groups: BTreeMap<Vec<(AddressId, bool)>, Vec<EndpointPort>> = BTreeMap::new();
    for (port, ready) in ports {
        let group = groups.entry(ready.into_iter().collect()).or_default();
        group.extend(port.map(|(name, protocol, port, app_protocol)| EndpointPort {
            name,
            protocol,
            port,
            app_protocol,
        }));
    }
    let mut packed: Vec<EndpointSubset> = groups
        .into_iter()
        .map(|(group, ports)| {
            let those = |wanted: bool| -> Vec<EndpointAddress> {
                let ids = group.iter().filter(|(_, is_ready)| *is_ready == wanted).map(|(id, _)| id);
                ids.filter_map(|id| addresses.get(id)).map(|address| (*address).clone()).collect()
            };
            subset(those(true), those(false), ports)
        })
        .collect();
    packed.sort_by_cached_key(|subset| subset.ports.iter().flatten().map(port_id).collect::<Vec<_>>());
    packed
}

/// A subset; empty lists are absent.
pub fn subset(
    ready: Vec<EndpointAddress>,
    not_ready: Vec<EndpointAddress>,
    ports: Vec<EndpointPort>,
) -> EndpointSubset {
    EndpointSubset {
        addresses: Some(ready).filter(|list| !list.is_empty()),
        not_ready_addresses: Some(not_ready).filter(|list| !list.is_empty()),
        ports: Some(ports).filter(|list| !list.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn address(text: &str) -> Value {
        match text.split_once('@') {
            Some((ip, uid)) => json!({"ip": ip, "targetRef": {"uid": uid}}),
            None => json!({"ip": text}),
        }
    }

    /// `READY-NOT_READY:PORTS`, for example `10.0.0.1,10.0.0.2@uid-10.0.0.3:80,http=8080`.
    fn parse(text: &str) -> EndpointSubset {
        let (addresses, ports) = text.split_once(':').unwrap_or((text, ""));
        let (ready, not_ready) = addresses.split_once('-').unwrap_or((addresses, ""));
        let items = |text: &str, item: fn(&str) -> Value| -> Value {
            text.split(',').filter(|text| !text.is_empty()).map(item).collect()
        };
        let port = |text: &str| match text.split_once('=') {
            Some((name, port)) => json!({"name": name, "port": port.parse::<i32>().ok()}),
            None => json!({"port": text.parse::<i32>().ok()}),
        };
        let value = json!({"addresses": items(ready, address), "notReadyAddresses": items(not_ready, address),
            "ports": items(ports, port)});
        serde_json::from_value(value).unwrap_or_default()
    }

    fn shown(subset: &EndpointSubset) -> String {
        let addresses = |list: &Option<Vec<EndpointAddress>>| {
            let all = list.iter().flatten().map(|address| match address_id(address) {
                (ip, uid) if uid.is_empty() => ip,
                (ip, uid) => format!("{ip}@{uid}"),
            });
            all.collect::<Vec<_>>().join(",")
        };
        let ports = subset.ports.iter().flatten().map(|port| match &port.name {
            Some(name) => format!("{name}={}", port.port),
            None => port.port.to_string(),
        });
        let (ready, not_ready) = (addresses(&subset.addresses), addresses(&subset.not_ready_addresses));
        format!("{ready}-{not_ready}:{}", ports.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn addresses_with_the_same_ports_are_in_one_subset() {
        let table: [(&str, &[&str], &[&str]); 8] = [
            ("1 nothing", &[], &[]),
            ("2 sorted", &["10.0.0.2,10.0.0.1:81,80"], &["10.0.0.1,10.0.0.2-:80,81"]),
            (
                "3 two pods",
                &["10.0.0.1:80", "10.0.0.2:80", "-10.0.0.3:80"],
                &["10.0.0.1,10.0.0.2-10.0.0.3:80"],
            ),
            ("4 two ports", &["10.0.0.1:80", "10.0.0.1:81"], &["10.0.0.1-:80,81"]),
            (
                "5 ctl-ep-named-ports",
                &["10.0.0.1:dns=53", "10.0.0.1:web=80", "10.0.0.2:dns=53", "10.0.0.2:web=90"],
                &["10.0.0.1,10.0.0.2-:dns=53", "10.0.0.1-:web=80", "10.0.0.2-:web=90"],
            ),
            ("6 not ready wins", &["10.0.0.1:80", "-10.0.0.1:80"], &["-10.0.0.1:80"]),
            (
                "7 two pods with one address",
                &["10.0.0.1@b:80", "10.0.0.1@a:80"],
                &["10.0.0.1@a,10.0.0.1@b-:80"],
            ),
            ("8 no ports", &["10.0.0.2", "10.0.0.1"], &["10.0.0.1,10.0.0.2-:"]),
        ];
        for (name, given, wanted) in table {
            let given: Vec<EndpointSubset> = given.iter().map(|text| parse(text)).collect();
            let packed = repack(&given);
            assert_eq!(packed.iter().map(shown).collect::<Vec<_>>(), wanted, "{name}");
            assert_eq!(repack(&packed), packed, "{name}, packed again");
        }
    }
}
