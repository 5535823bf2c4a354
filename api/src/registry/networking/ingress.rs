//! The `Ingress` kind.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ingress_class::CLASS_ANNOTATION;
use super::ingress_rules::validate_spec;
use super::{GROUP, items};
use crate::kind::{Column, Generation, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::registry::workload::{given, spec, text};
use crate::registry::{addresses, cells, checks};
use crate::validate::{FieldErrors, Path};

/// The `Ingress` kind.
pub(in crate::registry) struct Ingress;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "Ingress",
    plural: "ingresses",
    singular: "ingress",
    short: &["ing"],
    categories: &[],
    schema: "io.k8s.api.networking.v1.Ingress",
};

/// Hosts that a table shows.
const SHOWN_HOSTS: usize = 3;

impl Kind for Ingress {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/ingress/"
    }

    fn policy(&self) -> Policy {
        Policy { status: StatusSubresource::WithMetadata, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn prepare_create(&self, ingress: &mut Object, _now: Timestamp) {
        ingress.set(&["status"], json!({"loadBalancer": {}}));
    }

    fn validate(&self, ingress: &Object, errors: &mut FieldErrors) {
        validate_spec(spec(ingress), &Path::new("spec"), errors);
    }

    fn validate_create(&self, ingress: &Object, errors: &mut FieldErrors) {
        let class = given(spec(ingress), "ingressClassName").and_then(Value::as_str);
        if let (Some(annotation), Some(class)) = (ingress.annotation(CLASS_ANNOTATION), class)
            && annotation != class
        {
            let path = Path::new("annotations").child(CLASS_ANNOTATION);
            let why = "must match `ingressClassName` when both are specified";
            errors.invalid(&path, annotation, why);
        }
    }

    fn validate_status(&self, ingress: &Object, _old: &Object, errors: &mut FieldErrors) {
        let path = Path::new("status.loadBalancer.ingress");
        for (at, point) in points(ingress).iter().enumerate() {
            let (ip, host) = (text(point, "ip"), text(point, "hostname"));
            if !ip.is_empty() {
                addresses::ip(ip, &path.index(at).child("ip"), errors);
            }
            if !host.is_empty() {
                let path = path.index(at).child("hostname");
                checks::subdomain(errors, &path, host);
                if host.parse::<IpAddr>().is_ok() {
                    errors.invalid(&path, host, "must be a DNS name, not an IP address");
                }
            }
        }
    }

    fn warnings(&self, ingress: &Object, old: Option<&Object>) -> Vec<String> {
        let is_annotated = ingress.annotation(CLASS_ANNOTATION).is_some();
        if old.is_some() || !is_annotated || given(spec(ingress), "ingressClassName").is_some() {
            return Vec::new();
        }
        vec![format!(
            "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
        )]
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Class", "The class of the controller that serves the Ingress."),
            cells::text("Hosts", "The hosts of the rules."),
            cells::text("Address", "Addresses of the load balancer."),
            cells::text("Ports", "Ports of the load balancer."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, ingress: &Object, now: Timestamp) -> Vec<Value> {
        let spec = spec(ingress);
        let ports = if items(spec, "tls").is_empty() { "80" } else { "80, 443" };
        vec![
            cells::name(ingress),
            cells::or(text(spec, "ingressClassName"), "<none>").into(),
            hosts(spec).into(),
            load_balancer(ingress).into(),
            ports.into(),
            cells::age(ingress, now),
        ]
    }
}

fn points(ingress: &Object) -> &[Value] {
    ingress.at(&["status", "loadBalancer"]).map_or(&[], |balancer| items(balancer, "ingress"))
}

fn load_balancer(ingress: &Object) -> String {
    let address = |point| match text(point, "ip") {
        "" => text(point, "hostname"),
        ip => ip,
    };
    let addresses: BTreeSet<&str> =
        points(ingress).iter().map(address).filter(|address| !address.is_empty()).collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn hosts(spec: &Value) -> String {
    let rules = items(spec, "rules");
    let all = rules.iter().map(|rule| text(rule, "host")).filter(|host| !host.is_empty());
    let shown: Vec<&str> = all.take(SHOWN_HOSTS).collect();
    // Upstream counts the rules after the last shown host, with and without a host.
    let named = rules.iter().enumerate().filter(|(_, rule)| !text(rule, "host").is_empty());
    let has_more = named.map(|(at, _)| at + 1).nth(SHOWN_HOSTS - 1).is_some_and(|seen| seen < rules.len());
    match shown.join(",").as_str() {
        "" => "*".to_owned(),
        list if has_more => format!("{list} + {} more...", rules.len() - SHOWN_HOSTS),
        list => list.to_owned(),
    }
}
