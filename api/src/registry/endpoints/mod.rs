//! `Endpoints`: the endpoints of a service, in the legacy API.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;

use super::volume_rules::{items, text};
use super::{addresses, cells, checks};
use crate::kind::{Column, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `Endpoints` kind.
pub(super) struct Endpoints;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Endpoints",
    plural: "endpoints",
    singular: "endpoints",
    short: &["ep"],
    categories: &[],
    schema: "io.k8s.api.core.v1.Endpoints",
};

/// The number of addresses that a cell shows; the rest is only counted.
const SHOWN: usize = 3;

impl Kind for Endpoints {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    /// Differs from upstream, which stores endpoints below the prefix of services: here each kind has its own topic.
    fn storage_prefix(&self) -> &'static str {
        "/registry/endpoints/"
    }

    fn policy(&self) -> Policy {
        Policy { create_on_update: true, ..Policy::DEFAULT }
    }

    fn deprecated(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn defaults(&self, endpoints: &mut Object) {
        let subsets = endpoints.0.get_mut("subsets").and_then(Value::as_array_mut);
        for subset in subsets.into_iter().flatten() {
            let ports = subset.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                if text(port, "protocol").is_empty() {
                    port["protocol"] = "TCP".into();
                }
            }
        }
    }

    fn validate(&self, endpoints: &Object, errors: &mut FieldErrors) {
        for (i, one) in subsets(endpoints).iter().enumerate() {
            subset(one, &Path::new("subsets").index(i), errors);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Endpoints", "Addresses that are ready, with their ports."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, endpoints: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(endpoints), shown(subsets(endpoints)).into(), cells::age(endpoints, now)]
    }
}

fn subsets(endpoints: &Object) -> &[Value] {
    endpoints.at(&["subsets"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn subset(subset: &Value, path: &Path, errors: &mut FieldErrors) {
    let (ready, waiting) = (items(subset, "addresses"), items(subset, "notReadyAddresses"));
    if ready.is_empty() && waiting.is_empty() {
        errors.required(path, "must specify `addresses` or `notReadyAddresses`");
    }
    for (name, list) in [("addresses", ready), ("notReadyAddresses", waiting)] {
        for (i, one) in list.iter().enumerate() {
            address(one, &path.child(name).index(i), errors);
        }
    }
    let ports = items(subset, "ports");
    for (i, one) in ports.iter().enumerate() {
        port(one, ports.len() > 1, &path.child("ports").index(i), errors);
    }
}

fn address(address: &Value, path: &Path, errors: &mut FieldErrors) {
    let ip = text(address, "ip");
    if addresses::ip(ip, &path.child("ip"), errors).is_some() {
        addresses::not_special(ip, &path.child("ip"), errors);
    }
    let host = text(address, "hostname");
    if !host.is_empty() {
        checks::label(errors, &path.child("hostname"), host);
    }
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        checks::subdomain(errors, &path.child("nodeName"), node);
    }
}

fn port(port: &Value, must_have_name: bool, path: &Path, errors: &mut FieldErrors) {
    match text(port, "name") {
        "" if must_have_name => errors.required(&path.child("name"), ""),
        "" => {}
        name => checks::label(errors, &path.child("name"), name),
    }
    let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
    addresses::port(number, &path.child("port"), errors);
    addresses::protocol(text(port, "protocol"), &path.child("protocol"), errors);
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        checks::qualified_name(errors, &path.child("appProtocol"), protocol);
    }
}

/// The first addresses with their ports, and the number of the others.
fn shown(subsets: &[Value]) -> String {
    let (mut first, mut count): (Vec<String>, usize) = (Vec::new(), 0);
    for subset in subsets {
        let addresses = items(subset, "addresses");
        let ports = items(subset, "ports");
        // Only the shown ones are formatted: the number of the others is the product of two lists.
        count = count.saturating_add(addresses.len().saturating_mul(ports.len().max(1)));
        let addresses = addresses.iter().map(|address| text(address, "ip"));
        let room = SHOWN - first.len();
        if ports.is_empty() {
            first.extend(addresses.take(room).map(str::to_owned));
            continue;
        }
        let all = ports.iter().flat_map(|port| {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            addresses.clone().map(move |ip| {
                if ip.contains(':') { format!("[{ip}]:{number}") } else { format!("{ip}:{number}") }
            })
        });
        first.extend(all.take(room));
    }
    match count {
        0 if subsets.is_empty() => "<none>".to_owned(),
        count if count > SHOWN => format!("{} + {} more...", first.join(","), count - SHOWN),
        _ => first.join(","),
    }
}
