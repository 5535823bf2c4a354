//! Publishes the addresses of Services: the ServiceCIDR `kubernetes`, and an IPAddress for each cluster IP.
//!
//! An IPAddress is written in the commit that writes the Service. A background task creates missing ones, for example for Services of
//! a replayed capture, and deletes those of former Services.
//!
//! Upstream: pkg/registry/core/service/ipallocator, pkg/controlplane/controller/defaultservicecidr.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use orlop_store::{Record, Snapshot, Write};

use super::repair::{Checked, repair};
use super::{creation, readable, removal};
use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{Kind, by_resource, ip_address, service, service_cidr};
use crate::state::Inner;
use orlop_api::object::Object;

fn is_service(kind: &dyn Kind) -> bool {
    kind.names().group.is_empty() && kind.names().plural == "services"
}

fn kind(plural: &str) -> Option<&'static dyn Kind> {
    by_resource("networking.k8s.io", "v1", plural)
}

/// The key of the IPAddress of an address.
pub(crate) fn key(ip: IpAddr) -> Option<String> {
    kind("ipaddresses").map(|kind| dispatch::key(kind, "", &ip.to_string()))
}

fn assigned(service: Option<&Object>) -> BTreeSet<IpAddr> {
    let ips = service.into_iter().flat_map(service::assigned_addresses);
    ips.filter_map(|ip| ip.parse().ok()).collect()
}

/// The writes that accompany the write of a Service, which changes from `old` to `new`; none for other kinds.
pub(crate) fn writes(
    server: &Inner,
    of: &dyn Kind,
    old: Option<&Object>,
    new: Option<&Object>,
    head: &Snapshot<Projection>,
) -> Vec<Write<Projection>> {
    if !is_service(of) {
        return Vec::new();
    }
    let Some(kind) = kind("ipaddresses") else { return Vec::new() };
    let (before, after) = (assigned(old), assigned(new));
    let mut writes = Vec::new();
    for ip in after.difference(&before) {
        let is_free = head.get(&dispatch::key(kind, "", &ip.to_string())).is_none();
        if let Some(service) = new.filter(|_| is_free) {
            writes.push(creation(server, kind, ip_address::of_service(*ip, service)));
        }
    }
    for ip in before.difference(&after) {
        let Some(record) = head.get(&dispatch::key(kind, "", &ip.to_string())) else { continue };
        let Some(service) = old else { continue };
        let own = Some((service.namespace(), service.name()));
        if stored::decode(record).is_ok_and(|address| ip_address::owner(&address) == own) {
            writes.push(removal(record));
        }
    }
    writes
}

/// Deletes the IPAddresses of a Service that cannot be read; no writes for other kinds.
pub(crate) fn release_all(
    of: &dyn Kind,
    (namespace, name): (&str, &str),
    head: &Snapshot<Projection>,
) -> Vec<Write<Projection>> {
    if !is_service(of) {
        return Vec::new();
    }
    let Some(kind) = kind("ipaddresses") else { return Vec::new() };
    let is_own = |record: &Record<Projection>| {
        stored::decode(record).is_ok_and(|address| ip_address::owner(&address) == Some((namespace, name)))
    };
    let records = head.range(kind.storage_prefix(), None);
    records.filter(|record| is_own(record)).map(|record| removal(record)).collect()
}

/// The differences between the addresses of Services and the published ones.
#[derive(Debug, Default, PartialEq)]
struct AddressRepair {
    /// The addresses without an object, with the Service that owns them.
    missing: BTreeMap<IpAddr, (String, String)>,
    /// The objects whose Service no longer owns the address.
    orphaned: BTreeSet<IpAddr>,
}

fn compare(services: impl Iterator<Item = Object>, addresses: impl Iterator<Item = Object>) -> AddressRepair {
    let mut repair = AddressRepair::default();
    for service in services {
        let owner = (service.namespace().to_owned(), service.name().to_owned());
        repair.missing.extend(assigned(Some(&service)).into_iter().map(|ip| (ip, owner.clone())));
    }
    for address in addresses {
        let Ok(ip) = address.name().parse::<IpAddr>() else { continue };
        let owner = repair.missing.remove(&ip);
        let published = ip_address::owner(&address);
        let is_owned =
            owner.as_ref().map(|(namespace, name)| (namespace.as_str(), name.as_str())) == published;
        if published.is_some() && !is_owned {
            repair.orphaned.insert(ip);
        }
    }
    repair
}

/// Creates the ServiceCIDR of the server, creates missing IPAddresses and deletes those of former Services.
///
/// # Errors
/// A message for the log if the objects cannot be written.
pub(super) async fn keep(server: &Arc<Inner>, checked: &mut Checked) -> Result<(), String> {
    let Some(((ranges, addresses), services)) =
        kind("servicecidrs").zip(kind("ipaddresses")).zip(by_resource("", "v1", "services"))
    else {
        return Ok(());
    };
    let prefixes = [ranges, addresses, services].map(|kind| kind.storage_prefix());
    let of = server.clone();
    let compute = move |head: &Snapshot<Projection>| {
        let mut writes = Vec::new();
        let range = service_cidr::default_object(&of.config.services.addresses.to_string(), of.now());
        if head.get(&dispatch::key(ranges, "", range.name())).is_none() {
            writes.push(creation(&of, ranges, range));
        }
        writes.extend(differences(&of, head, addresses, services));
        writes
    };
    repair(&server.store, checked, &prefixes, Arc::new(compute)).await
}

/// The writes that create missing IPAddresses and delete those of former Services.
fn differences(
    server: &Inner,
    head: &Snapshot<Projection>,
    addresses: &'static dyn Kind,
    services: &dyn Kind,
) -> Vec<Write<Projection>> {
    let objects = |kind| readable(head, kind).map(|(_, object)| object);
    let AddressRepair { missing, orphaned } = compare(objects(services), objects(addresses));
    let record = |ip: &IpAddr| head.get(&dispatch::key(addresses, "", &ip.to_string()));
    let service = |(namespace, name): (&str, &str)| head.get(&dispatch::key(services, namespace, name));
    // An IPAddress that cannot be read exists.
    let missing =
        missing.iter().filter(|(ip, _)| record(ip).is_none()).filter_map(|(ip, (namespace, name))| {
            let service = stored::decode(service((namespace, name))?).ok()?;
            Some(creation(server, addresses, ip_address::of_service(*ip, &service)))
        });
    // A Service that cannot be read keeps its addresses.
    let is_unreadable = |address: &Object| {
        ip_address::owner(address).and_then(service).is_some_and(|service| stored::readable(service).is_err())
    };
    let orphaned = orphaned
        .iter()
        .filter_map(record)
        .filter(|record| stored::decode(record).is_ok_and(|address| !is_unreadable(&address)));
    missing.chain(orphaned.map(|record| removal(record))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(name: &str, ips: Value) -> Object {
        Object::from_value(json!({
            "metadata": {"namespace": "default", "name": name},
            "spec": {"type": "ClusterIP", "clusterIPs": ips},
        }))
    }

    fn published(ip: &str, service: &Object) -> Object {
        ip_address::of_service(ip.parse().expect("an address"), service)
    }

    #[test]
    fn published_addresses_follow_the_services() {
        let (a, b) = (service("a", json!(["10.0.0.5"])), service("b", json!(["None"])));
        let manual = Object::from_value(json!({
            "metadata": {"name": "10.0.0.9"},
            "spec": {"parentRef": {"resource": "things", "name": "t"}},
        }));
        let owner = ("default".to_owned(), "a".to_owned());
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (case, services, addresses, missing, orphaned) in [
            ("1 published", vec![a.clone(), b.clone()], vec![published("10.0.0.5", &a)], None, None),
            ("2 missing", vec![a.clone()], vec![], Some(ip("10.0.0.5")), None),
            ("3 of a former Service", vec![], vec![published("10.0.0.5", &a)], None, Some(ip("10.0.0.5"))),
            (
                "4 of another Service",
                vec![a.clone()],
                vec![published("10.0.0.5", &b)],
                None,
                Some(ip("10.0.0.5")),
            ),
            ("5 of a user", vec![b.clone()], vec![manual.clone()], None, None),
        ] {
            let want = AddressRepair {
                missing: missing.into_iter().map(|ip| (ip, owner.clone())).collect(),
                orphaned: orphaned.into_iter().collect(),
            };
            assert_eq!(compare(services.into_iter(), addresses.into_iter()), want, "{case}");
        }
    }
}
