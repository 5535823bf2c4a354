//! The rules of an Ingress: hosts, paths and backends.

use std::net::IpAddr;

use orlop_apimachinery::names;
use serde_json::Value;

use super::items;
use crate::registry::workload::{given, number, text};
use crate::registry::{addresses, checks};
use crate::validate::{FieldErrors, Path};

const NO_WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                           consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric \
                           character (e.g. '*.example.com', regex used for validation is \
                           '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
/// Sequences that a path of the types `Exact` and `Prefix` must not contain.
const NOT_IN_PATHS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
/// Endings that such a path must not have.
const NOT_AT_END: [&str; 2] = ["/..", "/."];

/// Validates the spec of an Ingress.
pub(super) fn validate_spec(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let rules = items(spec, "rules");
    let default = given(spec, "defaultBackend");
    if rules.is_empty() && default.is_none() {
        errors.invalid(path, Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = default {
        validate_backend(backend, &path.child("defaultBackend"), errors);
    }
    for (at, rule) in rules.iter().enumerate() {
        validate_rule(rule, &path.child("rules").index(at), errors);
    }
    for (at, tls) in items(spec, "tls").iter().enumerate() {
        let path = path.child("tls").index(at);
        for (at, host) in items(tls, "hosts").iter().enumerate() {
            validate_host(host.as_str().unwrap_or_default(), &path.child("hosts").index(at), errors);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            checks::subdomain(errors, &path.child("secretName"), secret);
        }
    }
    if let Some(class) = given(spec, "ingressClassName").and_then(Value::as_str) {
        checks::subdomain(errors, &path.child("ingressClassName"), class);
    }
}

/// A DNS name, or a wildcard for its subdomains.
fn validate_host(host: &str, path: &Path, errors: &mut FieldErrors) {
    if !host.contains('*') {
        return checks::subdomain(errors, path, host);
    }
    let is_valid = host.strip_prefix("*.").is_some_and(|domain| names::dns_subdomain(domain).is_empty());
    if !is_valid {
        errors.invalid(path, host, NO_WILDCARD);
    }
}

fn validate_rule(rule: &Value, path: &Path, errors: &mut FieldErrors) {
    let host = text(rule, "host");
    if host.parse::<IpAddr>().is_ok() {
        errors.invalid(&path.child("host"), host, "must be a DNS name, not an IP address");
    }
    if !host.is_empty() {
        validate_host(host, &path.child("host"), errors);
    }
    let Some(http) = given(rule, "http") else { return };
    let path = path.child("http").child("paths");
    let paths = items(http, "paths");
    if paths.is_empty() {
        errors.required(&path, "");
    }
    for (at, one) in paths.iter().enumerate() {
        validate_path(one, &path.index(at), errors);
    }
}

fn validate_path(one: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(kind) = given(one, "pathType").and_then(Value::as_str) else {
        return errors.required(&path.child("pathType"), "pathType must be specified");
    };
    let (value, at) = (text(one, "path"), path.child("path"));
    let is_absolute = value.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            if !is_absolute {
                errors.invalid(&at, value, "must be an absolute path");
            }
            for part in NOT_IN_PATHS.iter().filter(|part| value.contains(**part)) {
                errors.invalid(&at, value, &format!("must not contain '{part}'"));
            }
            for end in NOT_AT_END.iter().filter(|end| value.ends_with(**end)) {
                errors.invalid(&at, value, &format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !is_absolute && !value.is_empty() {
                errors.invalid(&at, value, "must be an absolute path");
            }
        }
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(&path.child("pathType"), other, &supported);
        }
    }
    validate_backend(one.get("backend").unwrap_or(&Value::Null), &path.child("backend"), errors);
}

fn validate_backend(backend: &Value, path: &Path, errors: &mut FieldErrors) {
    let (service, resource) = match (given(backend, "service"), given(backend, "resource")) {
        (Some(_), Some(_)) => {
            return errors.invalid(path, "", "cannot set both resource and service backends");
        }
        (None, None) => return errors.invalid(path, "", "resource or service backend is required"),
        one => one,
    };
    if let Some(resource) = resource {
        validate_reference(resource, &path.child("resource"), errors);
    }
    let Some(service) = service else { return };
    let (name, at) = (text(service, "name"), path.child("service").child("name"));
    if checks::required(errors, &at, name) {
        checks::each(errors, &at, name, names::dns1035_label(name));
    }
    let port = service.get("port").unwrap_or(&Value::Null);
    let (name, number) = (text(port, "name"), number(port, "number"));
    let at = path.child("service").child("port");
    match (name.is_empty(), number == 0) {
        (false, false) => errors.invalid(path, "", "cannot set both port name & port number"),
        (false, true) => checks::each(errors, &at.child("name"), name, names::port_name(name)),
        (true, false) => addresses::port(number, &at.child("number"), errors),
        (true, true) => errors.required(path, "port name or number is required"),
    }
}

/// A reference to an object of any kind.
pub(super) fn validate_reference(reference: &Value, path: &Path, errors: &mut FieldErrors) {
    if let Some(group) = given(reference, "apiGroup").and_then(Value::as_str) {
        checks::subdomain(errors, &path.child("apiGroup"), group);
    }
    for field in ["kind", "name"] {
        let (value, path) = (text(reference, field), path.child(field));
        if checks::required(errors, &path, value) {
            checks::each(errors, &path, value, names::path_segment(value));
        }
    }
}
