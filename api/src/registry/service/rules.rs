//! Validation of services (upstream: pkg/apis/core/validation, `ValidateService`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use orlop_apimachinery::names;
use serde_json::{Value, json};

use super::{HEADLESS, has_address, has_health_port, is_headless, is_outside, number, ports, texts, type_of};
use crate::object::Object;
use crate::registry::addresses;
use crate::registry::checks::{self, IMMUTABLE};
use crate::registry::volume_rules::{items, text};
use crate::validate::label_selector::validate_labels;
use crate::validate::{FieldErrors, Path};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const TRAFFIC: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameNode", "PreferSameZone"];
const AFFINITY_MAX: i64 = 86400;
const BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
const SET_ONCE: &str = "may not change once set";
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Validates any service.
pub(super) fn validate(service: &Object, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    topology(service, errors);
    if ports(service).is_empty() && !is_headless(service) && type_of(service) != "ExternalName" {
        errors.required(&path.child("ports"), "");
    }
    by_type(service, &path, errors);
    let mut names = BTreeSet::new();
    for (i, port) in ports(service).iter().enumerate() {
        let is_new = names.insert(text(port, "name"));
        service_port(service, port, is_new, &path.child("ports").index(i), errors);
    }
    let selector = service.at(&["spec", "selector"]).and_then(Value::as_object).into_iter().flatten();
    let selector = selector.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    validate_labels(selector, &path.child("selector"), errors);
    affinity(service, &path, errors);
    cluster_ips(service, errors);
    for (i, ip) in texts(service, "externalIPs").enumerate() {
        let path = path.child("externalIPs").index(i);
        if addresses::ip(ip, &path, errors).is_some() {
            addresses::not_special(ip, &path, errors);
        }
    }
    let kind = type_of(service);
    if checks::required(errors, &path.child("type"), kind) {
        checks::one_of(errors, &path.child("type"), Some(kind), &TYPES);
    }
    same_ports(service, &path.child("ports"), errors);
    balancer(service, &path, errors);
    traffic(service, &path, errors);
}

fn topology(service: &Object, errors: &mut FieldErrors) {
    if let (Some(hints), Some(mode)) = (service.annotation(HINTS), service.annotation(MODE))
        && hints != mode
    {
        let why = format!("must match annotations[{HINTS}] when both are specified");
        errors.invalid(&Path::new("metadata.annotations").key(MODE), mode, &why);
    }
}

fn by_type(service: &Object, path: &Path, errors: &mut FieldErrors) {
    match type_of(service) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&path.child("clusterIPs").index(0), HEADLESS, &why);
        }
        "ExternalName" => {
            let why = "may not be set for ExternalName services";
            for name in ["clusterIPs", "ipFamilies"] {
                if texts(service, name).next().is_some() {
                    errors.forbidden(&path.child(name), why);
                }
            }
            if !service.str_at(&["spec", "ipFamilyPolicy"]).is_empty() {
                errors.forbidden(&path.child("ipFamilyPolicy"), why);
            }
            let given = service.str_at(&["spec", "externalName"]);
            let name = given.strip_suffix('.').unwrap_or(given);
            if checks::required(errors, &path.child("externalName"), name) {
                checks::subdomain(errors, &path.child("externalName"), name);
            }
        }
        _ => {}
    }
}

/// `is_new` is true if no earlier port has the same name.
fn service_port(service: &Object, port: &Value, is_new: bool, path: &Path, errors: &mut FieldErrors) {
    let all = ports(service);
    match text(port, "name") {
        "" if all.len() > 1 => errors.required(&path.child("name"), ""),
        "" => {}
        name => {
            checks::label(errors, &path.child("name"), name);
            if !is_new {
                errors.duplicate(&path.child("name"), name);
            }
        }
    }
    addresses::port(number(port, "port"), &path.child("port"), errors);
    addresses::protocol(text(port, "protocol"), &path.child("protocol"), errors);
    addresses::port_or_name(port.get("targetPort"), &path.child("targetPort"), errors);
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        checks::qualified_name(errors, &path.child("appProtocol"), protocol);
    }
}

fn affinity(service: &Object, path: &Path, errors: &mut FieldErrors) {
    let affinity = service.str_at(&["spec", "sessionAffinity"]);
    if checks::required(errors, &path.child("sessionAffinity"), affinity) {
        checks::one_of(errors, &path.child("sessionAffinity"), Some(affinity), &AFFINITIES);
    }
    let path = path.child("sessionAffinityConfig");
    let config = service.at(&["spec", "sessionAffinityConfig"]).filter(|config| !config.is_null());
    match affinity {
        "None" if config.is_some() => {
            errors.forbidden(&path, "must not be set when session affinity is None");
        }
        "ClientIP" => {
            let path = path.child("clientIP").child("timeoutSeconds");
            let seconds = config.and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            match seconds.and_then(Value::as_i64) {
                // Defaulting sets all of it.
                None => errors.required(&path, "when session affinity type is ClientIP"),
                Some(seconds) if !(1..=AFFINITY_MAX).contains(&seconds) => {
                    let why = format!("must be greater than 0 and less than {AFFINITY_MAX}");
                    errors.invalid(&path, seconds, &why);
                }
                Some(_) => {}
            }
        }
        _ => {}
    }
}

/// The addresses and their families, as far as they can be validated without the cluster's configuration.
pub fn cluster_ips(service: &Object, errors: &mut FieldErrors) {
    if type_of(service) == "ExternalName" {
        return;
    }
    let before = errors.len();
    let spec = Path::new("spec");
    let path = spec.child("clusterIPs");
    let ips: Vec<&str> = texts(service, "clusterIPs").collect();
    match service.str_at(&["spec", "clusterIP"]) {
        "" if ips.is_empty() => {}
        "" => errors.invalid(&path, json!(ips), "must be empty when `clusterIP` is not specified"),
        _ if ips.is_empty() => errors.required(&path, ""),
        ip if ips[0] != ip => errors.invalid(&path, json!(ips), "first value must match `clusterIP`"),
        _ => {}
    }
    let families: Vec<&str> = texts(service, "ipFamilies").collect();
    let mut seen = BTreeSet::new();
    for (i, family) in families.iter().enumerate() {
        let path = spec.child("ipFamilies").index(i);
        checks::one_of(errors, &path, Some(family), &FAMILIES);
        if !seen.insert(family) {
            errors.duplicate(&path, *family);
        }
    }
    let policy = service.at(&["spec", "ipFamilyPolicy"]).and_then(Value::as_str);
    checks::one_of(errors, &spec.child("ipFamilyPolicy"), policy, &POLICIES);
    let mut parsed: Vec<IpAddr> = Vec::new();
    let mut bad = false;
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && *ip == HEADLESS {
            if ips.len() > 1 {
                bad = true;
                errors.invalid(&path, json!(ips), "'None' must be the first and only value");
            }
            continue;
        }
        match addresses::ip(ip, &path.index(i), errors) {
            Some(ip) => parsed.push(ip),
            None => bad = true,
        }
    }
    if ips.len() > 2 {
        errors.invalid(&path, json!(ips), "may only hold up to 2 values");
    }
    // With an invalid address, the rules below would report misleading errors.
    if bad {
        return;
    }
    let four = parsed.iter().filter(|ip| ip.is_ipv4()).count();
    if ips.len() > 1 && (four == 0 || four == parsed.len()) {
        errors.invalid(&path, json!(ips), "may specify no more than one IP for each IP family");
    }
    if errors.len() > before {
        return;
    }
    for (i, (ip, family)) in parsed.iter().zip(&families).enumerate() {
        if super::fields::family_of(*ip) != *family {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(&path.index(i), ips[i], &why);
        }
    }
}

fn same_ports(service: &Object, path: &Path, errors: &mut FieldErrors) {
    let (mut on_nodes, mut inside) = (BTreeSet::new(), BTreeSet::new());
    for (i, port) in ports(service).iter().enumerate() {
        let node = number(port, "nodePort");
        if type_of(service) == "ClusterIP" && node != 0 {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(&path.index(i).child("nodePort"), why);
        }
        if node != 0 && !on_nodes.insert((text(port, "protocol"), node)) {
            errors.duplicate(&path.index(i).child("nodePort"), node);
        }
    }
    for (i, port) in ports(service).iter().enumerate() {
        let (protocol, number) = (text(port, "protocol"), number(port, "port"));
        if !inside.insert((protocol, number)) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                Value::from(protocol)
            );
            errors.duplicate_shown(&path.index(i), &shown);
        }
    }
}

fn balancer(service: &Object, path: &Path, errors: &mut FieldErrors) {
    let is_balancer = type_of(service) == "LoadBalancer";
    let ranges: Vec<&str> = texts(service, "loadBalancerSourceRanges").collect();
    if let Some(text) = service.annotation(RANGES).filter(|_| ranges.is_empty()) {
        let path = Path::new("metadata.annotations").key(RANGES);
        if !is_balancer {
            errors.forbidden(&path, BALANCER_ONLY);
        }
        for range in text.split(',').filter(|_| !text.trim().is_empty()) {
            addresses::cidr(range.trim(), &path, errors);
        }
    }
    if !ranges.is_empty() {
        // The capital letter in the path is upstream's.
        let path = path.child("LoadBalancerSourceRanges");
        if !is_balancer {
            errors.forbidden(&path, BALANCER_ONLY);
        }
        for (i, range) in ranges.iter().enumerate() {
            addresses::cidr(range.trim(), &path.index(i), errors);
        }
    }
    let given = |name: &str| service.at(&["spec", name]).filter(|value| !value.is_null());
    if given("allocateLoadBalancerNodePorts").is_some() && !is_balancer {
        errors.forbidden(&path.child("allocateLoadBalancerNodePorts"), BALANCER_ONLY);
    }
    if let Some(class) = given("loadBalancerClass").and_then(Value::as_str) {
        let path = path.child("loadBalancerClass");
        if is_balancer {
            checks::qualified_name(errors, &path, class);
        } else {
            errors.forbidden(&path, BALANCER_ONLY);
        }
    }
}

fn traffic(service: &Object, path: &Path, errors: &mut FieldErrors) {
    let outside = service.str_at(&["spec", "externalTrafficPolicy"]);
    let at = path.child("externalTrafficPolicy");
    if is_outside(service) {
        if checks::required(errors, &at, outside) {
            checks::one_of(errors, &at, Some(outside), &TRAFFIC);
        }
    } else if !outside.is_empty() {
        errors.invalid(&at, outside, "may only be set for externally-accessible services");
    }
    let health = service.at(&["spec", "healthCheckNodePort"]).and_then(Value::as_i64).unwrap_or_default();
    let at = path.child("healthCheckNodePort");
    match (has_health_port(service), health) {
        (false, 0) => {}
        (false, port) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&at, port, why);
        }
        (true, 0) => errors.required(&at, ""),
        (true, port) => addresses::port(port, &at, errors),
    }
    let inside = service.at(&["spec", "internalTrafficPolicy"]).and_then(Value::as_str);
    let at = path.child("internalTrafficPolicy");
    if inside.is_none() && has_address(service) {
        errors.required(&at, "");
    }
    checks::one_of(errors, &at, inside, &TRAFFIC);
    let distribution = service.at(&["spec", "trafficDistribution"]).and_then(Value::as_str);
    checks::one_of(errors, &path.child("trafficDistribution"), distribution, &DISTRIBUTIONS);
}

/// Validates a change: the address is immutable as long as the service has one.
pub(super) fn validate_update(service: &Object, old: &Object, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    if has_address(service) && has_address(old) {
        let headless = (is_headless(service), is_headless(old));
        if headless != (true, true) {
            set_once(service, old, "clusterIPs", errors);
        }
        if headless == (false, false) {
            set_once(service, old, "ipFamilies", errors);
        }
    }
    let class = |service: &Object| service.at(&["spec", "loadBalancerClass"]).cloned().unwrap_or_default();
    let balancers = type_of(service) == "LoadBalancer" && type_of(old) == "LoadBalancer";
    if balancers && class(service) != class(old) {
        errors.invalid(&path.child("loadBalancerClass"), class(service), SET_ONCE);
    }
    let health = |service: &Object| service.at(&["spec", "healthCheckNodePort"]).and_then(Value::as_i64);
    if has_health_port(service) && has_health_port(old) && health(service) != health(old) {
        errors.forbidden(&path.child("healthCheckNodePort"), IMMUTABLE);
    }
}

fn set_once(service: &Object, old: &Object, name: &str, errors: &mut FieldErrors) {
    let path = Path::new("spec").child(name);
    let (new, old): (Vec<&str>, Vec<&str>) = (texts(service, name).collect(), texts(old, name).collect());
    if new.is_empty() && !old.is_empty() {
        let what = if name == "clusterIPs" { "clusterIP" } else { "ipFamily" };
        return errors.invalid(&path.index(0), json!(new), &format!("primary {what} can not be unset"));
    }
    for (i, _) in old.iter().zip(&new).enumerate().filter(|(_, (old, new))| old != new) {
        if errors.is_full() {
            return;
        }
        errors.invalid(&path.index(i), json!(new), SET_ONCE);
    }
    if new.len() < old.len() && service.str_at(&["spec", "ipFamilyPolicy"]) != "SingleStack" {
        let what = if name == "clusterIPs" { "clusterIP" } else { "ipFamily" };
        let policy = service.at(&["spec", "ipFamilyPolicy"]).cloned().unwrap_or_default();
        let why = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.invalid(&Path::new("spec.ipFamilyPolicy"), policy, &why);
    }
}

/// Validates the status: the addresses that a load balancer reports.
pub(super) fn validate_status(service: &Object, errors: &mut FieldErrors) {
    let path = Path::new("status.loadBalancer.ingress");
    let balancer = service.at(&["status", "loadBalancer"]);
    let ingress = balancer.map_or(&[][..], |balancer| items(balancer, "ingress"));
    if type_of(service) != "LoadBalancer" && !ingress.is_empty() {
        errors.forbidden(&path, BALANCER_ONLY);
    }
    for (i, one) in ingress.iter().enumerate() {
        let (path, ip, host) = (path.index(i), text(one, "ip"), text(one, "hostname"));
        if !ip.is_empty() {
            let _ = addresses::ip(ip, &path.child("ip"), errors);
        }
        let mode = one.get("ipMode").and_then(Value::as_str);
        if mode.is_some() && ip.is_empty() {
            errors.forbidden(&path.child("ipMode"), "may not be specified when `ip` is not set");
        }
        checks::one_of(errors, &path.child("ipMode"), mode, &["Proxy", "VIP"]);
        if host.is_empty() {
            continue;
        }
        checks::each(errors, &path.child("hostname"), host, names::dns_subdomain(host));
        if host.parse::<IpAddr>().is_ok() {
            errors.invalid(&path.child("hostname"), host, "must be a DNS name, not an IP address");
        }
    }
}
