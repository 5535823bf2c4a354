//! The `NetworkPolicy` kind.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::names;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{GROUP, items};
use crate::kind::{Column, Generation, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::registry::workload::{given, spec, table, text};
use crate::registry::{addresses, cells, checks, json_defaults};
use crate::validate::label_selector::validate_label_selector;
use crate::validate::{FieldErrors, Path};

/// The `NetworkPolicy` kind.
pub(in crate::registry) struct NetworkPolicy;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "NetworkPolicy",
    plural: "networkpolicies",
    singular: "networkpolicy",
    short: &["netpol"],
    categories: &[],
    schema: "io.k8s.api.networking.v1.NetworkPolicy",
};

const TYPES: [&str; 2] = ["Egress", "Ingress"];
/// The rules of a policy, and the field with the peers of a rule.
const RULES: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

impl Kind for NetworkPolicy {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/networkpolicies/"
    }

    fn policy(&self) -> Policy {
        Policy { generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn defaults(&self, policy: &mut Object) {
        let spec = policy.object_at(&["spec"]);
        for (rules, _) in RULES {
            for rule in json_defaults::objects(json_defaults::list(spec, rules)) {
                for port in json_defaults::objects(json_defaults::list(rule, "ports")) {
                    json_defaults::value(port, "protocol", "TCP");
                }
            }
        }
        let is_empty = |field: &str| spec.get(field).and_then(Value::as_array).is_none_or(Vec::is_empty);
        if is_empty("policyTypes") {
            let types = if is_empty("egress") { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
            spec.insert("policyTypes".to_owned(), types);
        }
        json_defaults::value(spec, "podSelector", json!({}));
    }

    fn validate(&self, policy: &Object, errors: &mut FieldErrors) {
        let (spec, path) = (spec(policy), Path::new("spec"));
        selector(spec, "podSelector", &path, errors);
        for (rules, peers) in RULES {
            for (at, rule) in items(spec, rules).iter().enumerate() {
                let path = path.child(rules).index(at);
                for (at, port) in items(rule, "ports").iter().enumerate() {
                    validate_port(port, &path.child("ports").index(at), errors);
                }
                for (at, peer) in items(rule, peers).iter().enumerate() {
                    validate_peer(peer, &path.child(peers).index(at), errors);
                }
            }
        }
        let (types, path) = (items(spec, "policyTypes"), path.child("policyTypes"));
        if types.len() > TYPES.len() {
            let why = "may not specify more than two policyTypes";
            return errors.invalid(&path, types.to_vec(), why);
        }
        for (at, one) in types.iter().enumerate() {
            checks::one_of(errors, &path.index(at), one.as_str(), &TYPES);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Pod-Selector", "Labels of the pods that the policy applies to."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, policy: &Object, now: Timestamp) -> Vec<Value> {
        let selector = Object::from_value(json!({"spec": {"selector": spec(policy).get("podSelector")}}));
        vec![cells::name(policy), table::selector(&selector), cells::age(policy, now)]
    }
}

/// Validates a selector, and returns whether there is one.
fn selector(of: &Value, field: &str, path: &Path, errors: &mut FieldErrors) -> bool {
    let Some(selector) = given(of, field) else { return false };
    let typed = LabelSelector::deserialize(selector).unwrap_or_default();
    validate_label_selector(&typed, &path.child(field), errors);
    true
}

fn validate_port(port: &Value, path: &Path, errors: &mut FieldErrors) {
    let protocol = given(port, "protocol").and_then(Value::as_str);
    checks::one_of(errors, &path.child("protocol"), protocol, &addresses::PROTOCOLS);
    let end = given(port, "endPort").and_then(Value::as_i64);
    let (at, at_end) = (path.child("port"), path.child("endPort"));
    let Some(first) = given(port, "port") else {
        if let Some(end) = end {
            errors.invalid(&at_end, end, "may not be specified when `port` is not specified");
        }
        return;
    };
    if let Some(name) = first.as_str() {
        if let Some(end) = end {
            errors.invalid(&at_end, end, "may not be specified when `port` is non-numeric");
        }
        return checks::each(errors, &at, name, names::port_name(name));
    }
    let first = first.as_i64().unwrap_or_default();
    addresses::port(first, &at, errors);
    if let Some(end) = end {
        if end < first {
            errors.invalid(&at_end, first, "must be greater than or equal to `port`");
        }
        addresses::port(end, &at_end, errors);
    }
}

fn validate_peer(peer: &Value, path: &Path, errors: &mut FieldErrors) {
    let selects_pods = selector(peer, "podSelector", path, errors);
    let selects_namespaces = selector(peer, "namespaceSelector", path, errors);
    let block = given(peer, "ipBlock");
    if let Some(block) = block {
        validate_block(block, &path.child("ipBlock"), errors);
    }
    match (selects_pods || selects_namespaces, block.is_some()) {
        (false, false) => errors.required(path, "must specify a peer"),
        (true, true) => errors.forbidden(path, "may not specify both ipBlock and another peer"),
        (true, false) | (false, true) => {}
    }
}

/// Validates an `ipBlock`: an address range, and the ranges in it that it excludes.
fn validate_block(block: &Value, path: &Path, errors: &mut FieldErrors) {
    let (whole, at) = (text(block, "cidr"), path.child("cidr"));
    if !checks::required(errors, &at, whole) {
        return;
    }
    addresses::cidr(whole, &at, errors);
    let Some(whole) = Range::parse(whole) else { return };
    for (at, part) in items(block, "except").iter().enumerate() {
        let (path, part) = (path.child("except").index(at), part.as_str().unwrap_or_default());
        addresses::cidr(part, &path, errors);
        if Range::parse(part).is_some_and(|part| !whole.strictly_contains(&part)) {
            errors.invalid(&path, part, "must be a strict subset of `cidr`");
        }
    }
}

/// A range of addresses: the address as a number, its length in bits, and the length of the prefix.
struct Range {
    address: u128,
    width: u32,
    prefix: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let prefix = prefix.parse().ok()?;
        let (address, width) = match address.parse().ok()? {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        };
        (prefix <= width).then_some(Range { address, width, prefix })
    }

    fn strictly_contains(&self, other: &Range) -> bool {
        let host_bits = self.width - self.prefix;
        let network = |address: u128| address.checked_shr(host_bits).unwrap_or_default();
        self.width == other.width
            && self.prefix < other.prefix
            && network(self.address) == network(other.address)
    }
}
