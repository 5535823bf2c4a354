//! `EndpointSlice`: a subset of the endpoints of a service.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::net::IpAddr;

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::Value;

use super::volume_rules::{items, text};
use super::{addresses, cells, checks};
use crate::kind::{Column, Generation, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::label_selector::validate_labels;
use crate::validate::{FieldErrors, Path};

/// The `EndpointSlice` kind.
pub(super) struct EndpointSlice;

const NAMES: Names = Names {
    group: "discovery.k8s.io",
    version: "v1",
    kind: "EndpointSlice",
    plural: "endpointslices",
    singular: "endpointslice",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.discovery.v1.EndpointSlice",
};

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const MOST_ENDPOINTS: usize = 1000;
const MOST_PORTS: usize = 20_000;
const MOST_ADDRESSES: usize = 100;
const MOST_TOPOLOGY: usize = 16;
const MOST_HINTS: usize = 8;
/// The number of values that a cell shows; the rest is only counted.
const SHOWN: usize = 3;

impl Kind for EndpointSlice {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/endpointslices/"
    }

    fn policy(&self) -> Policy {
        Policy { generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn defaults(&self, slice: &mut Object) {
        let ports = slice.0.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            for (name, value) in [("name", ""), ("protocol", "TCP")] {
                let place = port.entry(name).or_insert(Value::Null);
                if place.is_null() {
                    *place = value.into();
                }
            }
        }
    }

    /// There is no spec: a change of the labels or of any field outside the metadata increments the generation.
    fn prepare_update(&self, slice: &mut Object, old: &Object, _now: Timestamp) {
        let differs = |name: &str| slice.0.get(name) != old.0.get(name);
        if ["addressType", "endpoints", "ports"].into_iter().any(differs) || slice.labels() != old.labels() {
            let generation = old.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
            slice.set(&["metadata", "generation"], generation + 1);
        }
    }

    fn validate(&self, slice: &Object, errors: &mut FieldErrors) {
        let kind = slice.str_at(&["addressType"]);
        let path = Path::new("addressType");
        if checks::required(errors, &path, kind) {
            checks::one_of(errors, &path, Some(kind), &ADDRESS_TYPES);
        }
        endpoints(list(slice, "endpoints"), kind, &Path::new("endpoints"), errors);
        ports(list(slice, "ports"), &Path::new("ports"), errors);
    }

    fn validate_update(&self, slice: &Object, old: &Object, errors: &mut FieldErrors) {
        let kind = |slice: &Object| slice.at(&["addressType"]).cloned();
        checks::immutable(errors, &Path::new("addressType"), kind(slice).as_ref(), kind(old).as_ref());
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("AddressType", "What the addresses are."),
            cells::text("Ports", "Ports of every address."),
            cells::text("Endpoints", "The addresses."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, slice: &Object, now: Timestamp) -> Vec<Value> {
        let port = |port: &Value| match port.get("port").and_then(Value::as_i64) {
            Some(number) => number.to_string(),
            None => cells::or(text(port, "name"), "*").to_owned(),
        };
        let ports = list(slice, "ports").iter().map(port).collect();
        let addresses = list(slice, "endpoints")
            .iter()
            .flat_map(|endpoint| items(endpoint, "addresses"))
            .filter_map(|address| address.as_str().map(str::to_owned))
            .collect();
        vec![
            cells::name(slice),
            slice.str_at(&["addressType"]).into(),
            shown(ports).into(),
            shown(addresses).into(),
            cells::age(slice, now),
        ]
    }
}

fn list<'a>(slice: &'a Object, name: &str) -> &'a [Value] {
    slice.at(&[name]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn shown(all: Vec<String>) -> String {
    match all.len() {
        0 => "<unset>".to_owned(),
        count if count > SHOWN => format!("{} + {} more...", all[..SHOWN].join(","), count - SHOWN),
        _ => all.join(","),
    }
}

fn endpoints(list: &[Value], kind: &str, path: &Path, errors: &mut FieldErrors) {
    if list.len() > MOST_ENDPOINTS {
        return errors.too_many(path, list.len(), MOST_ENDPOINTS);
    }
    for (i, one) in list.iter().enumerate() {
        endpoint(one, kind, &path.index(i), errors);
    }
}

fn endpoint(endpoint: &Value, kind: &str, path: &Path, errors: &mut FieldErrors) {
    let (at, list) = (path.child("addresses"), items(endpoint, "addresses"));
    if list.is_empty() {
        errors.required(&at, "must contain at least 1 address");
    } else if list.len() > MOST_ADDRESSES {
        errors.too_many(&at, list.len(), MOST_ADDRESSES);
    }
    for (i, one) in list.iter().enumerate() {
        address(one.as_str().unwrap_or_default(), kind, &at.index(i), errors);
    }
    if let Some(node) = endpoint.get("nodeName").and_then(Value::as_str) {
        checks::subdomain(errors, &path.child("nodeName"), node);
    }
    let topology = endpoint.get("deprecatedTopology").and_then(Value::as_object);
    let at = path.child("deprecatedTopology");
    if topology.is_some_and(|labels| labels.len() > MOST_TOPOLOGY) {
        errors.too_many(&at, topology.map_or(0, serde_json::Map::len), MOST_TOPOLOGY);
    }
    let labels =
        topology.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    validate_labels(labels, &at, errors);
    if let Some(host) = endpoint.get("hostname").and_then(Value::as_str) {
        checks::label(errors, &path.child("hostname"), host);
    }
    if let Some(zones) = endpoint.get("hints").map(|hints| items(hints, "forZones")) {
        hints(zones, &path.child("hints").child("forZones"), errors);
    }
}

fn hints(zones: &[Value], path: &Path, errors: &mut FieldErrors) {
    if zones.len() > MOST_HINTS {
        return errors.too_many(path, zones.len(), MOST_HINTS);
    }
    for (i, zone) in zones.iter().enumerate() {
        let (at, name) = (path.index(i).child("name"), text(zone, "name"));
        if zones[..i].iter().any(|earlier| text(earlier, "name") == name) {
            errors.duplicate(&at, name);
        }
        checks::each(errors, &at, name, names::label_value(name));
    }
}

fn address(address: &str, kind: &str, path: &Path, errors: &mut FieldErrors) {
    match kind {
        "IPv4" | "IPv6" => match address.parse::<IpAddr>() {
            Ok(ip) if ip.is_ipv4() == (kind == "IPv4") => addresses::not_special(address, path, errors),
            Ok(_) | Err(_) => errors.invalid(path, address, &format!("must be a valid {kind} address")),
        },
        "FQDN" => fully_qualified(address, path, errors),
        // The address type itself is invalid, which is reported elsewhere.
        _ => {}
    }
}

/// A host name of at least two labels.
fn fully_qualified(name: &str, path: &Path, errors: &mut FieldErrors) {
    let inner = name.strip_suffix('.').unwrap_or(name);
    if !checks::required(errors, path, inner) {
        return;
    }
    let messages = names::dns_subdomain(inner);
    if !messages.is_empty() {
        return checks::each(errors, path, name, messages);
    }
    if !inner.contains('.') {
        errors.invalid(path, name, "should be a domain with at least two segments separated by dots");
    }
}

fn ports(list: &[Value], path: &Path, errors: &mut FieldErrors) {
    if list.len() > MOST_PORTS {
        return errors.too_many(path, list.len(), MOST_PORTS);
    }
    let mut names = HashSet::new();
    for (i, port) in list.iter().enumerate() {
        let (at, name) = (path.index(i), text(port, "name"));
        if !name.is_empty() {
            checks::label(errors, &at.child("name"), name);
        }
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        match port.get("protocol").and_then(Value::as_str) {
            None => errors.required(&at.child("protocol"), ""),
            given => checks::one_of(errors, &at.child("protocol"), given, &addresses::PROTOCOLS),
        }
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            checks::qualified_name(errors, &at.child("appProtocol"), protocol);
        }
    }
}
