//! Validation of a pod's DNS settings and host aliases.

use std::net::IpAddr;

use k8s_openapi::api::core::v1 as api;
use orlop_apimachinery::names;
use serde_json::json;

use super::{items, text};
use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// An IP address.
pub(in crate::registry) fn ip(value: &str, path: &Path, errors: &mut FieldErrors) {
    if value.parse::<IpAddr>().is_err() {
        errors.invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

/// The pod's resolver settings; the limits are those of the C library.
pub(super) fn dns_config(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    let own = text(&spec.dns_policy) == "None";
    let Some(config) = &spec.dns_config else {
        if own {
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        return;
    };
    let (at_servers, at_searches) = (path.child("nameservers"), path.child("searches"));
    let (servers, searches) = (items(&config.nameservers), items(&config.searches));
    if own && servers.is_empty() {
        let text = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.required(&at_servers, text);
        return;
    }
    if servers.len() > 3 {
        errors.invalid(&at_servers, json!(servers), "must not have more than 3 nameservers");
    }
    for (i, server) in servers.iter().enumerate() {
        ip(server, &at_servers.index(i), errors);
    }
    if searches.len() > 32 {
        errors.invalid(&at_searches, json!(searches), "must not have more than 32 search paths");
    }
    if searches.join(" ").len() > 2048 {
        let text = "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(&at_searches, json!(searches), text);
    }
    for (i, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
        // Underscores are valid here wherever letters are.
        let name = search.strip_suffix('.').unwrap_or(search);
        let problems = names::dns_subdomain(&name.replace('_', "x"));
        checks::each(errors, &at_searches.index(i), name, problems);
    }
    for (i, option) in items(&config.options).iter().enumerate() {
        if text(&option.name).is_empty() {
            errors.required(&path.child("options").index(i), "must not be empty");
        }
    }
}

/// The entries of the pod's hosts file.
pub(super) fn host_aliases(aliases: &[api::HostAlias], path: &Path, errors: &mut FieldErrors) {
    for (i, alias) in aliases.iter().enumerate() {
        let path = path.index(i);
        ip(&alias.ip, &path.child("ip"), errors);
        for (j, name) in items(&alias.hostnames).iter().enumerate() {
            checks::subdomain(errors, &path.child("hostnames").index(j), name);
        }
    }
}
