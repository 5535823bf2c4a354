//! Dependencies between the fields of a service: restores server-assigned values that a client omitted, removes
//! values that a new type does not use, and determines the IP families.
//!
//! Upstream: pkg/registry/core/service (strategy, storage/alloc). Pure; runs before addresses are allocated.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Value, json};

use super::{
    HEADLESS, has_address, has_health_port, has_node_ports, is_headless, is_outside, number, ports, texts,
    type_of,
};
use crate::object::Object;
use crate::registry::volume_rules::text;
use crate::validate::{FieldErrors, Path};

/// The name of an address's family in services.
pub fn family_of(ip: IpAddr) -> &'static str {
    match ip {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    }
}

/// Restores server-assigned values that the client omitted, if they still apply.
pub fn keep_given(service: &mut Object, old: &Object) {
    if has_address(old) && has_address(service) {
        let is_new = service.str_at(&["spec", "clusterIP"]).is_empty();
        if is_new && !old.str_at(&["spec", "clusterIP"]).is_empty() {
            service.set(&["spec", "clusterIP"], old.str_at(&["spec", "clusterIP"]));
        }
        let same = service.str_at(&["spec", "clusterIP"]) == old.str_at(&["spec", "clusterIP"]);
        if same && texts(service, "clusterIPs").next().is_none() {
            copy(service, old, "clusterIPs");
        }
    }
    if has_node_ports(old) && has_node_ports(service) {
        keep_node_ports(service, old);
    }
    let path = ["spec", "healthCheckNodePort"];
    let unset = service.at(&path).and_then(Value::as_i64).unwrap_or_default() == 0;
    if has_health_port(old) && has_health_port(service) && unset {
        copy(service, old, "healthCheckNodePort");
    }
}

fn copy(service: &mut Object, old: &Object, name: &str) {
    if let Some(value) = old.at(&["spec", name]) {
        service.set(&["spec", name], value.clone());
    }
}

/// Matches ports by name; one number is never assigned to two ports.
fn keep_node_ports(service: &mut Object, old: &Object) {
    let used = |service: &Object| -> BTreeSet<i64> {
        ports(service).iter().map(|port| number(port, "nodePort")).filter(|port| *port != 0).collect()
    };
    let mut taken: BTreeSet<i64> = used(service).intersection(&used(old)).copied().collect();
    let known: BTreeMap<&str, i64> =
        ports(old).iter().map(|port| (text(port, "name"), number(port, "nodePort"))).collect();
    let list = service.object_at(&["spec"]).get_mut("ports").and_then(Value::as_array_mut);
    for port in list.into_iter().flatten() {
        if number(port, "nodePort") != 0 {
            continue;
        }
        let before = known.get(text(port, "name")).copied().unwrap_or_default();
        if before != 0 && taken.insert(before) {
            port["nodePort"] = before.into();
        }
    }
}

/// Removes values that the new type does not use and the client did not change.
pub fn drop_with_type(service: &mut Object, old: &Object) {
    let same = |service: &Object, name: &str| service.at(&["spec", name]) == old.at(&["spec", name]);
    if has_address(old) && !has_address(service) {
        if same(service, "clusterIPs") && same(service, "clusterIP") {
            service.remove(&["spec", "clusterIP"]);
            service.remove(&["spec", "clusterIPs"]);
        }
        for name in ["ipFamilies", "ipFamilyPolicy"] {
            if same(service, name) {
                service.remove(&["spec", name]);
            }
        }
    }
    if has_node_ports(old) && !has_node_ports(service) {
        let of = |service: &Object| -> Vec<i64> {
            ports(service).iter().map(|port| number(port, "nodePort")).collect()
        };
        if of(service) == of(old) {
            let list = service.object_at(&["spec"]).get_mut("ports").and_then(Value::as_array_mut);
            for port in list.into_iter().flatten().filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        }
    }
    let was_balanced = type_of(old) == "LoadBalancer" && type_of(service) != "LoadBalancer";
    for (name, falls) in [
        ("healthCheckNodePort", has_health_port(old) && !has_health_port(service)),
        ("allocateLoadBalancerNodePorts", was_balanced),
        ("loadBalancerClass", was_balanced),
        ("externalTrafficPolicy", is_outside(old) && !is_outside(service)),
    ] {
        if falls && same(service, name) {
            service.remove(&["spec", name]);
        }
    }
}

/// Synchronizes `clusterIP` and `clusterIPs`: older clients change only the former.
pub fn join_addresses(service: &mut Object, old: Option<&Object>) {
    let ip = service.str_at(&["spec", "clusterIP"]).to_owned();
    let untouched = old.is_some_and(|old| texts(old, "clusterIPs").eq(texts(service, "clusterIPs")));
    let changed = old.is_some_and(|old| old.str_at(&["spec", "clusterIP"]) != ip);
    let none = texts(service, "clusterIPs").next().is_none();
    if ip.is_empty() {
        if changed && untouched {
            service.remove(&["spec", "clusterIPs"]);
        }
    } else if (old.is_none() || changed) && none || changed && untouched {
        service.set(&["spec", "clusterIPs"], json!([ip]));
    }
}

/// Determines the IP families of a service in a single-stack cluster.
///
/// `service` has an address or is headless. The errors are those of fields that this cluster does not support.
pub fn settle_families(service: &mut Object, old: Option<&Object>, cluster: &str, errors: &mut FieldErrors) {
    let selectorless =
        service.at(&["spec", "selector"]).and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
    let headless = service.str_at(&["spec", "clusterIP"]) == HEADLESS;
    let free = headless && selectorless;
    if service.str_at(&["spec", "ipFamilyPolicy"]).is_empty() {
        let before = old.map(|old| old.str_at(&["spec", "ipFamilyPolicy"])).unwrap_or_default();
        let policy = match before {
            "" if free => "RequireDualStack",
            "" => "SingleStack",
            before => before,
        };
        service.set(&["spec", "ipFamilyPolicy"], policy);
    }
    let path = Path::new("spec");
    let policy = service.str_at(&["spec", "ipFamilyPolicy"]).to_owned();
    let families: Vec<String> = texts(service, "ipFamilies").map(str::to_owned).collect();
    if policy == "SingleStack" {
        for (name, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if texts(service, name).count() == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                errors.invalid(&path.child("ipFamilyPolicy"), policy.as_str(), &why);
            }
        }
    }
    for (i, ip) in texts(service, "clusterIPs").enumerate().skip(families.len()) {
        if let Ok(ip) = ip.parse::<IpAddr>()
            && family_of(ip) != cluster
        {
            let all: Vec<&str> = texts(service, "clusterIPs").collect();
            let why = format!("{} is not configured on this cluster", family_of(ip));
            errors.invalid(&path.child("clusterIPs").index(i), all, &why);
        }
    }
    if !errors.is_empty() {
        return;
    }
    if free {
        let mut families = if families.is_empty() { vec![cluster.to_owned()] } else { families };
        if families.len() == 1 && policy != "SingleStack" {
            families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.to_owned());
        }
        service.set(&["spec", "ipFamilies"], families);
        return;
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.invalid(&path.child("ipFamilyPolicy"), policy.as_str(), why);
    }
    for (i, family) in families.iter().enumerate().filter(|(_, family)| family.as_str() != cluster) {
        let why = "not configured on this cluster";
        errors.invalid(&path.child("ipFamilies").index(i), family.as_str(), why);
    }
    if errors.is_empty() && families.is_empty() {
        service.set(&["spec", "ipFamilies"], json!([cluster]));
    }
}

/// Whether an address must be allocated for the service.
pub fn wants_address(service: &Object) -> bool {
    has_address(service) && !is_headless(service) && texts(service, "clusterIPs").all(str::is_empty)
}
