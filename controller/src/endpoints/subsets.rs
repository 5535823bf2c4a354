//! The canonical form of the subsets of Endpoints: addresses with the same ports are in one subset, sorted. Pure
//! functions.
//!
//! Upstream sorts ports and subsets by hashes of Go structures; orlop sorts them by their content. No client can rely on
//! the order. Upstream: pkg/api/v1/endpoints/util.go.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};
use orlop_apimachinery::steps::{OutOfSteps, Steps};

/// IP address, and UID of the target.
pub type AddressId<'a> = (&'a str, &'a str);
/// Name, protocol, number and application protocol.
pub type PortId<'a> = (Option<&'a str>, Option<&'a str>, i32, Option<&'a str>);
/// Addresses, as their positions in a sorted list, and whether they are ready. Sorted.
pub type Addresses = Vec<(usize, bool)>;
/// The positions of the lists of addresses that have a port. `None` is the absence of ports.
pub type Ports<'a> = BTreeMap<Option<PortId<'a>>, Vec<usize>>;

/// A subset whose addresses are positions in a sorted list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PackedSubset {
    /// The ready addresses.
    pub ready: Vec<usize>,
    /// The other addresses.
    pub not_ready: Vec<usize>,
    /// The ports, sorted.
    pub ports: Vec<EndpointPort>,
}

/// The identity of an address.
pub fn address_id(address: &EndpointAddress) -> AddressId<'_> {
    let uid = address.target_ref.as_ref().and_then(|target| target.uid.as_deref());
    (&address.ip, uid.unwrap_or_default())
}

/// The identity of a port.
fn port_id(port: &EndpointPort) -> PortId<'_> {
    (port.name.as_deref(), port.protocol.as_deref(), port.port, port.app_protocol.as_deref())
}

/// Groups ports by their addresses. Ports with the same lists are grouped first, so that the work does not grow with the
/// product of addresses and ports. An address that is ready in one list of a port and not ready in another one is not
/// ready. Each address in the result takes a step, before addresses with several ports are merged.
///
/// # Errors
/// The result has too many addresses.
pub fn pack(lists: &[Addresses], ports: Ports<'_>, steps: &Steps) -> Result<Vec<PackedSubset>, OutOfSteps> {
    let mut by_lists: BTreeMap<Vec<usize>, Vec<PortId<'_>>> = BTreeMap::new();
    for (port, lists) in ports {
        by_lists.entry(lists).or_default().extend(port);
    }
    let mut groups: BTreeMap<Addresses, Vec<PortId<'_>>> = BTreeMap::new();
    for (positions, ports) in by_lists {
        let of_group = || positions.iter().filter_map(|position| lists.get(*position));
        steps.take(of_group().map(Vec::len).sum())?;
        groups.entry(union(of_group())).or_default().extend(ports);
    }
    // A subset without addresses is none.
    groups.remove(&Addresses::new());
    let mut groups: Vec<(Vec<PortId<'_>>, Addresses)> = groups
        .into_iter()
        .map(|(addresses, mut ports)| {
            ports.sort_unstable();
            (ports, addresses)
        })
        .collect();
    groups.sort();
    let packed = groups.into_iter().map(|(ports, addresses)| {
        let those = |wanted: bool| {
            let those = addresses.iter().filter(|(_, is_ready)| *is_ready == wanted);
            those.map(|(position, _)| *position).collect()
        };
        PackedSubset {
            ready: those(true),
            not_ready: those(false),
            ports: ports.into_iter().map(port).collect(),
        }
    });
    Ok(packed.collect())
}

fn union<'l>(lists: impl Iterator<Item = &'l Addresses>) -> Addresses {
    let mut all: Addresses = lists.flatten().copied().collect();
    // The entry that is not ready comes first.
    all.sort_unstable();
    all.dedup_by_key(|(position, _)| *position);
    all
}

fn port((name, protocol, port, app_protocol): PortId<'_>) -> EndpointPort {
    let text = |text: Option<&str>| text.map(str::to_owned);
    EndpointPort { name: text(name), protocol: text(protocol), port, app_protocol: text(app_protocol) }
}

/// The packed subsets, and the addresses to which their positions refer. Each address in the result takes a step.
///
/// # Errors
/// The result has too many addresses.
pub fn repack<'a>(
    subsets: &'a [EndpointSubset],
    steps: &Steps,
) -> Result<(Vec<&'a EndpointAddress>, Vec<PackedSubset>), OutOfSteps> {
    let all = |subset: &'a EndpointSubset| {
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        ready.chain(subset.not_ready_addresses.iter().flatten().map(|address| (address, false)))
    };
    let mut addresses: BTreeMap<AddressId<'a>, (usize, &'a EndpointAddress)> = BTreeMap::new();
    for (address, _) in subsets.iter().flat_map(all) {
        addresses.entry(address_id(address)).or_insert((0, address));
    }
    for (position, (stored, _)) in addresses.values_mut().enumerate() {
        *stored = position;
    }
    let (mut lists, mut ports) = (Vec::new(), Ports::new());
    for subset in subsets {
        let of_subset = subset.ports.as_deref().unwrap_or_default();
        let ids = of_subset.iter().map(|port| Some(port_id(port)));
        for id in ids.chain(of_subset.is_empty().then_some(None)) {
            let known: &mut Vec<usize> = ports.entry(id).or_default();
            if known.last() != Some(&lists.len()) {
                known.push(lists.len());
            }
        }
        let positions = all(subset).filter_map(|(address, is_ready)| {
            addresses.get(&address_id(address)).map(|(position, _)| (*position, is_ready))
        });
        lists.push(positions.collect());
    }
    Ok((addresses.into_values().map(|(_, address)| address).collect(), pack(&lists, ports, steps)?))
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
    #![allow(clippy::unwrap_used)]

    use orlop_apimachinery::thread_time::assert_linear;
    use serde_json::{Value, json};

    use super::*;
    use crate::endpoints::testing::ip;

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

    /// The packed subsets.
    fn repacked(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
        let (addresses, packed) = repack(subsets, &Steps::new(1_000)).unwrap();
        let those = |all: &[usize]| all.iter().map(|position| addresses[*position].clone()).collect();
        packed
            .iter()
            .map(|packed| subset(those(&packed.ready), those(&packed.not_ready), packed.ports.clone()))
            .collect()
    }

    fn shown(subset: &EndpointSubset) -> String {
        let addresses = |list: &Option<Vec<EndpointAddress>>| {
            let all = list.iter().flatten().map(|address| match address_id(address) {
                (ip, "") => ip.to_owned(),
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
        let table: [(&str, &[&str], &[&str]); 11] = [
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
            ("9 no addresses", &["-:80", "10.0.0.1:81"], &["10.0.0.1-:81"]),
            (
                "10 partly the same ports",
                &["10.0.0.1:80,81", "10.0.0.2:81,82"],
                &["10.0.0.1-:80", "10.0.0.1,10.0.0.2-:81", "10.0.0.2-:82"],
            ),
            ("11 with and without ports", &["10.0.0.1", "10.0.0.1:80"], &["10.0.0.1-:80"]),
        ];
        for (name, given, wanted) in table {
            let given: Vec<EndpointSubset> = given.iter().map(|text| parse(text)).collect();
            let packed = repacked(&given);
            assert_eq!(packed.iter().map(shown).collect::<Vec<_>>(), wanted, "{name}");
            assert_eq!(repacked(&packed), packed, "{name}, packed again");
        }
    }

    /// One subset with n addresses and n ports.
    fn square(n: usize) -> EndpointSubset {
        let addresses = (0..n).map(|n| EndpointAddress { ip: ip(n), ..EndpointAddress::default() });
        let ports = (0..n).map(|n| EndpointPort { port: n as i32, ..EndpointPort::default() });
        subset(addresses.collect(), Vec::new(), ports.collect())
    }

    #[test]
    fn work_does_not_grow_with_the_product_of_addresses_and_ports() {
        for n in [10, 1_000] {
            // One step for each address, none for a port.
            assert!(repack(&[square(n)], &Steps::new(n as u64)).is_ok(), "{n}");
        }
        assert_linear("addresses and ports", 1_000, square, |subset| {
            repack(std::slice::from_ref(subset), &Steps::new(u64::MAX)).is_ok()
        });
    }

    #[test]
    fn subsets_with_overlapping_ports_take_a_step_for_each_address_of_the_result() {
        // Port 0 is in both subsets.
        let other = subset(vec![EndpointAddress::default()], Vec::new(), vec![EndpointPort::default()]);
        let both = [square(100), other];
        assert!(repack(&both, &Steps::new(201)).is_ok());
        assert!(repack(&both, &Steps::new(200)).is_err());
    }
}
