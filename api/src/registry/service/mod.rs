//! `Service`: a name and an address for a set of pods.
//!
//! This module contains its names, defaults and table; [`rules`] validates, [`fields`] resolves the
//! dependencies of the address fields. The module with access to the store (`services`) selects the address of
//! a service; [`Kind::reserved`] returns the keys that a service allocates.

pub mod fields;
pub mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use super::pod::{PROXY_VERBS, stream};
use super::volume_rules::{items, text};
use crate::kind::{
    Column, DeleteAnswer, Kind, NameRule, Names, Policy, Scope, StatusSubresource, Subresource, UnknownField,
};
use crate::object::Object;
use crate::validate::FieldErrors;

/// The `Service` kind.
pub(super) struct Service;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Service",
    plural: "services",
    singular: "service",
    short: &["svc"],
    categories: &["all"],
    schema: "io.k8s.api.core.v1.Service",
};

/// The cluster IP of a headless service.
pub const HEADLESS: &str = "None";
/// The default timeout of session affinity, in seconds.
const AFFINITY_SECONDS: i64 = 10800;

/// The prefix of the keys that reserve cluster IPs.
pub const ADDRESSES: &str = "/registry/serviceips/";
/// The prefix of the keys that reserve node ports.
pub const NODE_PORTS: &str = "/registry/servicenodeports/";

/// The key that reserves this address. One address can be written in several ways (`fd00::1`,
/// `FD00::0:1`); all of them have the same key.
pub fn address_key(ip: &str) -> String {
    match ip.parse::<IpAddr>() {
        Ok(ip) => format!("{ADDRESSES}{ip}"),
        Err(_) => format!("{ADDRESSES}{ip}"),
    }
}

/// `spec.type`.
pub fn type_of(service: &Object) -> &str {
    service.str_at(&["spec", "type"])
}

/// Whether services of this type have a cluster IP (or are headless).
pub fn has_address(service: &Object) -> bool {
    matches!(type_of(service), "ClusterIP" | "NodePort" | "LoadBalancer")
}

/// Whether services of this type have node ports.
pub fn has_node_ports(service: &Object) -> bool {
    matches!(type_of(service), "NodePort" | "LoadBalancer")
}

/// Whether the service has a health check port on the nodes.
pub fn has_health_port(service: &Object) -> bool {
    type_of(service) == "LoadBalancer" && service.str_at(&["spec", "externalTrafficPolicy"]) == "Local"
}

/// Whether the service is headless.
pub fn is_headless(service: &Object) -> bool {
    let ips: Vec<&str> = texts(service, "clusterIPs").collect();
    ips == [HEADLESS]
}

/// The string items of a list in the spec.
pub fn texts<'a>(service: &'a Object, name: &str) -> impl Iterator<Item = &'a str> {
    let list = service.at(&["spec", name]).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// The cluster IPs, without those of headless services.
pub fn assigned_addresses(service: &Object) -> impl Iterator<Item = &str> {
    let ips = texts(service, "clusterIPs").filter(move |_| has_address(service));
    ips.filter(|ip| !ip.is_empty() && *ip != HEADLESS)
}

/// The ports.
pub fn ports(service: &Object) -> &[Value] {
    service.at(&["spec", "ports"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A numeric field of a port; 0 if absent.
pub fn number(port: &Value, name: &str) -> i64 {
    port.get(name).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether the service is reachable from outside the cluster.
pub(super) fn is_outside(service: &Object) -> bool {
    has_node_ports(service)
        || type_of(service) == "ClusterIP" && texts(service, "externalIPs").next().is_some()
}

impl Kind for Service {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    /// Differs from upstream, whose prefix is one level deeper: here each kind has its own topic.
    fn storage_prefix(&self) -> &'static str {
        "/registry/services/"
    }

    fn policy(&self) -> Policy {
        Policy {
            names: NameRule::Label1035,
            create_on_update: true,
            delete_answer: DeleteAnswer::Object,
            status: StatusSubresource::WithMetadata,
            ..Policy::DEFAULT
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        const SUBRESOURCES: &[Subresource] = &[stream("proxy", "ServiceProxyOptions", PROXY_VERBS)];
        SUBRESOURCES
    }

    fn defaults(&self, service: &mut Object) {
        service.object_at(&["spec"]);
        let unset = |service: &Object, name: &str| service.str_at(&["spec", name]).is_empty();
        if unset(service, "sessionAffinity") {
            service.set(&["spec", "sessionAffinity"], "None");
        }
        match service.str_at(&["spec", "sessionAffinity"]) {
            "None" => drop(service.remove(&["spec", "sessionAffinityConfig"])),
            "ClientIP" => {
                let path = ["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"];
                if service.at(&path).is_none_or(Value::is_null) {
                    let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
                    service.set(&["spec", "sessionAffinityConfig"], config);
                }
            }
            _ => {}
        }
        if unset(service, "type") {
            service.set(&["spec", "type"], "ClusterIP");
        }
        let ports = service.object_at(&["spec"]).get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            if text(port, "protocol").is_empty() {
                port["protocol"] = "TCP".into();
            }
            let target = port.get("targetPort");
            if target.is_none_or(|target| target.is_null() || *target == json!(0) || *target == json!("")) {
                port["targetPort"] = number(port, "port").into();
            }
        }
        if is_outside(service) && unset(service, "externalTrafficPolicy") {
            service.set(&["spec", "externalTrafficPolicy"], "Cluster");
        }
        if has_address(service) {
            service.set_default(&["spec", "internalTrafficPolicy"], "Cluster");
        }
        if type_of(service) == "LoadBalancer" {
            service.set_default(&["spec", "allocateLoadBalancerNodePorts"], true);
            let path = ["status", "loadBalancer"];
            let ingress = service.at(&path).is_some().then(|| service.object_at(&path).get_mut("ingress"));
            for one in ingress.flatten().and_then(Value::as_array_mut).into_iter().flatten() {
                if !text(one, "ip").is_empty() && one.get("ipMode").is_none_or(Value::is_null) {
                    one["ipMode"] = "VIP".into();
                }
            }
        }
    }

    fn prepare_create(&self, service: &mut Object, _now: Timestamp) {
        service.set(&["status"], json!({"loadBalancer": {}}));
    }

    fn validate(&self, service: &Object, errors: &mut FieldErrors) {
        rules::validate(service, errors);
    }

    fn validate_update(&self, service: &Object, old: &Object, errors: &mut FieldErrors) {
        rules::validate_update(service, old, errors);
    }

    fn validate_status(&self, service: &Object, _old: &Object, errors: &mut FieldErrors) {
        rules::validate_status(service, errors);
    }

    fn warnings(&self, service: &Object, _old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        if is_headless(service) {
            if !service.str_at(&["spec", "loadBalancerIP"]).is_empty() {
                warnings.push("spec.loadBalancerIP is ignored when spec.clusterIP is \"None\"".to_owned());
            }
            if texts(service, "externalIPs").next().is_some() {
                warnings.push("spec.externalIPs is ignored when spec.clusterIP is \"None\"".to_owned());
            }
            if service.str_at(&["spec", "sessionAffinity"]) != "None" {
                warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
            }
        }
        warnings
    }

    fn reserves(&self) -> bool {
        true
    }

    fn reserved(&self, service: &Object) -> Vec<String> {
        let mut keys = BTreeSet::new();
        keys.extend(assigned_addresses(service).map(address_key));
        if has_node_ports(service) {
            let health = service.at(&["spec", "healthCheckNodePort"]).and_then(Value::as_i64);
            let all = ports(service).iter().map(|port| number(port, "nodePort")).chain(health);
            keys.extend(all.filter(|port| *port != 0).map(|port| format!("{NODE_PORTS}{port}")));
        }
        keys.into_iter().collect()
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupported
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Type", "How the service is reached."),
            cells::text("Cluster-IP", "Its address inside the cluster."),
            cells::text("External-IP", "Its addresses outside the cluster."),
            cells::text("Port(s)", "Its ports, with those of the nodes."),
            cells::AGE,
            cells::wide("Selector", "Labels of the pods that serve it."),
        ];
        COLUMNS
    }

    fn cells(&self, service: &Object, now: Timestamp) -> Vec<Value> {
        let selector = service.at(&["spec", "selector"]).and_then(Value::as_object);
        let selector: Vec<String> = selector
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        vec![
            cells::name(service),
            type_of(service).into(),
            texts(service, "clusterIPs").next().unwrap_or("<none>").into(),
            outside(service).into(),
            cells::or(&shown_ports(service), "<none>").into(),
            cells::age(service, now),
            cells::or(&selector.join(","), "<none>").into(),
        ]
    }
}

fn shown_ports(service: &Object) -> String {
    let one = |port: &Value| {
        let (inside, node, protocol) =
            (number(port, "port"), number(port, "nodePort"), text(port, "protocol"));
        if node == 0 { format!("{inside}/{protocol}") } else { format!("{inside}:{node}/{protocol}") }
    };
    let shown: Vec<String> = ports(service).iter().map(one).collect();
    shown.join(",")
}

fn outside(service: &Object) -> String {
    let external: Vec<&str> = texts(service, "externalIPs").collect();
    match type_of(service) {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let balancer = service.at(&["status", "loadBalancer"]);
            let ingress = balancer.map_or(&[][..], |balancer| items(balancer, "ingress"));
            let given = ingress.iter().map(|one| match text(one, "ip") {
                "" => text(one, "hostname"),
                ip => ip,
            });
            let all: Vec<&str> =
                given.filter(|text| !text.is_empty()).chain(external.iter().copied()).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => service.str_at(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}
