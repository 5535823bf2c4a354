//! The `Node` kind.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as api;
use orlop_apimachinery::names;
use serde_json::{Map, Value, json};

use super::go_format::{NODE_ADDRESS, TAINT};
use super::pod::{PROXY_VERBS, stream};
use super::pod_spec::defaults::resource_list;
use super::pod_spec::resources::amount;
use super::{cells, checks};
use crate::kind::{Column, Kind, Names, Policy, Scope, StatusSubresource, Subresource, UnknownField};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `Node` kind.
pub(super) struct Node;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short: &["no"],
    categories: &[],
    schema: "io.k8s.api.core.v1.Node",
};

const COLUMNS: &[Column] = &[
    cells::NAME,
    cells::text("Status", "Whether the node is ready, and whether it accepts new pods."),
    cells::text("Roles", "The node's roles, from its labels."),
    cells::AGE,
    cells::text("Version", "Version of the node's kubelet."),
    cells::wide("Internal-IP", "First internal address."),
    cells::wide("External-IP", "First external address."),
    cells::wide("OS-Image", "Operating system."),
    cells::wide("Kernel-Version", "Version of the kernel."),
    cells::wide("Container-Runtime", "Container runtime and its version."),
];

impl Kind for Node {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        // Upstream's former name for nodes was minions.
        "/registry/minions/"
    }

    fn policy(&self) -> Policy {
        Policy { status: StatusSubresource::WithMetadata, ..Policy::DEFAULT }
    }

    fn subresources(&self) -> &'static [Subresource] {
        const SUBRESOURCES: &[Subresource] = &[stream("proxy", "NodeProxyOptions", PROXY_VERBS)];
        SUBRESOURCES
    }

    fn defaults(&self, object: &mut Object) {
        pod_cidrs(object);
        for list in ["capacity", "allocatable"] {
            let status = object.0.get_mut("status").and_then(|status| status.get_mut(list));
            resource_list(status);
        }
        if let Some(capacity) = object.at(&["status", "capacity"]).cloned() {
            object.set_default(&["status", "allocatable"], capacity);
        }
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let Some(node) = object.typed::<api::Node>() else {
            return;
        };
        let spec = node.spec.unwrap_or_default();
        taints(spec.taints.as_deref().unwrap_or_default(), errors);
        resources(object, errors);
        cidrs(spec.pod_cidrs.as_deref().unwrap_or_default(), errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate_status(object, old, errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        resources(object, errors);
        let (Some(new), Some(old)) = (object.typed::<api::Node>(), old.typed::<api::Node>()) else {
            return;
        };
        let mut seen = BTreeSet::new();
        let addresses = new.status.and_then(|status| status.addresses).unwrap_or_default();
        for (i, address) in addresses.iter().enumerate() {
            if !seen.insert((&address.type_, &address.address)) {
                let shown = NODE_ADDRESS.show(Some(&json!(address)));
                errors.duplicate_shown(&Path::new("status.addresses").index(i), &shown);
            }
        }
        let (new, old) = (new.spec.unwrap_or_default(), old.spec.unwrap_or_default());
        let spec = Path::new("spec");
        let once = |name: &str| format!("node updates may not change {name} except from \"\" to valid");
        if let Some(before) = old.pod_cidrs.filter(|cidrs| !cidrs.is_empty()) {
            let after = new.pod_cidrs.unwrap_or_default();
            let changes = if before.len() == after.len() {
                before.iter().zip(&after).filter(|(before, after)| before != after).count()
            } else {
                1
            };
            for _ in 0..changes {
                errors.forbidden(&spec.child("podCIDRs"), &once("podCIDR"));
            }
        }
        if old.provider_id.as_ref().is_some_and(|id| !id.is_empty()) && old.provider_id != new.provider_id {
            errors.forbidden(&spec.child("providerID"), &once("providerID"));
        }
        // Upstream validates the taints again here, and reports the same causes twice.
        taints(new.taints.as_deref().unwrap_or_default(), errors);
        if new.external_id != old.external_id {
            errors.forbidden(&spec.child("externalID"), "may not be updated");
        }
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn field(&self, object: &Object, name: &str) -> String {
        let path: Vec<&str> = name.split('.').collect();
        object.at(&path).and_then(Value::as_bool).unwrap_or_default().to_string()
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupported
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let info = |name| object.str_at(&["status", "nodeInfo", name]);
        let mut kernel = cells::or(info("kernelVersion"), "<unknown>").to_owned();
        if !info("architecture").is_empty() {
            kernel = format!("{kernel} ({})", info("architecture"));
        }
        vec![
            cells::name(object),
            status_cell(object).into(),
            roles_cell(object).into(),
            cells::age(object, now),
            info("kubeletVersion").into(),
            address_cell(object, "InternalIP").into(),
            address_cell(object, "ExternalIP").into(),
            cells::or(info("osImage"), "<unknown>").into(),
            kernel.into(),
            cells::or(info("containerRuntimeVersion"), "<unknown>").into(),
        ]
    }
}

/// `podCIDR` equals the first item of `podCIDRs`; the former takes precedence.
fn pod_cidrs(object: &mut Object) {
    let one = object.str_at(&["spec", "podCIDR"]).to_owned();
    let first = object
        .at(&["spec", "podCIDRs"])
        .and_then(|cidrs| cidrs.get(0))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if one == first {
        return;
    }
    if one.is_empty() {
        object.set(&["spec", "podCIDR"], first);
    } else {
        object.set(&["spec", "podCIDRs"], json!([one]));
    }
}

fn taints(taints: &[api::Taint], errors: &mut FieldErrors) {
    // Upstream uses `metadata` in the path of taints.
    let root = Path::new("metadata.taints");
    let mut seen = BTreeSet::new();
    for (i, taint) in taints.iter().enumerate() {
        let path = root.index(i);
        checks::qualified_name(errors, &path.child("key"), &taint.key);
        let value = taint.value.as_deref().unwrap_or_default();
        let problems = names::label_value(value);
        if !problems.is_empty() {
            errors.invalid(&path.child("value"), value, &problems.join(";"));
        }
        if checks::required(errors, &path.child("effect"), &taint.effect) {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            checks::one_of(errors, &path.child("effect"), Some(&taint.effect), &effects);
        }
        if !seen.insert((&taint.key, &taint.effect)) {
            errors.duplicate_shown(&path, &TAINT.show(Some(&json!(taint))));
        }
    }
}

fn resources(object: &Object, errors: &mut FieldErrors) {
    let empty = Map::new();
    for list in ["capacity", "allocatable"] {
        let path = Path::new("status").child(list);
        let quantities = object.at(&["status", list]).and_then(Value::as_object).unwrap_or(&empty);
        for (name, quantity) in quantities {
            amount(name, quantity.as_str().unwrap_or_default(), &path.child(name), errors);
        }
    }
}

fn cidrs(cidrs: &[String], errors: &mut FieldErrors) {
    let path = Path::new("spec.podCIDRs");
    for (i, cidr) in cidrs.iter().enumerate() {
        if parse_cidr(cidr).is_none() {
            let text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.invalid(&path.index(i), cidr.as_str(), text);
        }
    }
    if cidrs.len() < 2 {
        return;
    }
    let families: BTreeSet<bool> =
        cidrs.iter().filter_map(|cidr| parse_cidr(cidr)).map(|ip| ip.is_ipv6()).collect();
    if families.len() != 2 || cidrs.len() > 2 {
        errors.invalid(&path, json!(cidrs), "may specify no more than one CIDR for each IP family");
    }
    let mut seen = BTreeSet::new();
    for (i, cidr) in cidrs.iter().enumerate() {
        if !seen.insert(cidr) {
            errors.duplicate(&path.index(i), cidr.as_str());
        }
    }
}

/// Parses the address of a range such as `10.0.0.0/8`.
fn parse_cidr(cidr: &str) -> Option<IpAddr> {
    let (address, bits) = cidr.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u8 = bits.parse().ok()?;
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some(address)
}

fn status_cell(object: &Object) -> String {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let status = match ready {
        None => "Unknown",
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
    };
    if object.at(&["spec", "unschedulable"]).and_then(Value::as_bool) == Some(true) {
        format!("{status},SchedulingDisabled")
    } else {
        status.to_owned()
    }
}

fn roles_cell(object: &Object) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in object.labels().into_iter().flatten() {
        let role = match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if key == "kubernetes.io/role" => value.as_str().unwrap_or_default(),
            None => "",
        };
        if !role.is_empty() {
            roles.insert(role);
        }
    }
    if roles.is_empty() { "<none>".to_owned() } else { Vec::from_iter(roles).join(",") }
}

fn address_cell(object: &Object, kind: &str) -> String {
    let addresses = object.at(&["status", "addresses"]).and_then(Value::as_array);
    let found = addresses.into_iter().flatten().find(|address| address["type"] == kind);
    found.and_then(|address| address["address"].as_str()).unwrap_or("<none>").to_owned()
}

#[cfg(test)]
mod tests;
