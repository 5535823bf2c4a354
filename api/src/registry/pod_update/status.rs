//! Validation of status updates of a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1 as api;
use serde_json::{Value, json};

use super::validate_annotation_changes;
use crate::object::Object;
use crate::registry::checks;
use crate::registry::pod_spec::network;
use crate::validate::{FieldErrors, Path};

/// Validates a change through `/status`.
pub(in crate::registry) fn validate_status(pod: &Object, old_pod: &Object, errors: &mut FieldErrors) {
    validate_annotation_changes(pod, old_pod, errors);
    super::validate_annotations(pod, errors);
    let (Some(new), Some(old)) = (pod.typed::<api::Pod>(), old_pod.typed::<api::Pod>()) else {
        return;
    };
    let (spec, old_spec) = (new.spec.unwrap_or_default(), old.spec.unwrap_or_default());
    let (status, old_status) = (new.status.unwrap_or_default(), old.status.unwrap_or_default());
    conditions(&status, errors);
    let path = Path::new("status");
    let nominated = status.nominated_node_name.as_deref().unwrap_or_default();
    if status.nominated_node_name != old_status.nominated_node_name && !nominated.is_empty() {
        let path = path.child("nominatedNodeName");
        checks::subdomain(errors, &path, nominated);
        if spec.node_name.as_ref().is_some_and(|name| !name.is_empty()) {
            errors.forbidden(&path, "may not be set on pods that are already bound to a node");
        }
    }
    if let Some(generation) = status.observed_generation {
        checks::non_negative(errors, &path.child("observedGeneration"), generation);
    }
    let class = |pod: &Object| pod.at(&["status", "qosClass"]).cloned();
    checks::immutable(errors, &path.child("qosClass"), class(pod).as_ref(), class(old_pod).as_ref());

    let policy = old_spec.restart_policy.as_deref().unwrap_or("Always");
    let restarting: BTreeSet<&str> = (old_spec.init_containers.iter().flatten())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let restarts = |name: &str| restarting.contains(name);
    for (field, new, old, policy, may_restart) in [
        ("containerStatuses", &status.container_statuses, &old_status.container_statuses, policy, false),
        (
            "initContainerStatuses",
            &status.init_container_statuses,
            &old_status.init_container_statuses,
            policy,
            true,
        ),
        // Ephemeral containers are never restarted.
        (
            "ephemeralContainerStatuses",
            &status.ephemeral_container_statuses,
            &old_status.ephemeral_container_statuses,
            "Never",
            false,
        ),
    ] {
        let may_restart = |name: &str| may_restart && restarts(name);
        let (new, old) = (new.as_deref().unwrap_or_default(), old.as_deref().unwrap_or_default());
        transitions(new, old, policy, may_restart, &path.child(field), errors);
    }
    addresses(pod, "podIPs", errors);
    host_addresses(pod, errors);
    claim_statuses(&status, &spec, &path.child("resourceClaimStatuses"), errors);
}

/// The claims that were created for the pod: each belongs to one of the pod's claims, and has a valid name.
fn claim_statuses(status: &api::PodStatus, spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    let known: BTreeSet<&str> =
        spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str()).collect();
    let mut seen = BTreeSet::new();
    for (i, claim) in status.resource_claim_statuses.iter().flatten().enumerate() {
        // As in upstream, an invalid name of the claim has this path, too.
        let path = path.index(i).child("name");
        let name = claim.name.as_str();
        if !known.contains(name) {
            errors.invalid(&path, name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if !seen.insert(name) {
            errors.duplicate(&path, name);
        }
        if let Some(created) = &claim.resource_claim_name {
            checks::subdomain(errors, &path, created);
        }
    }
}

/// Types of conditions are qualified names. Upstream validates them as if in the metadata.
fn conditions(status: &api::PodStatus, errors: &mut FieldErrors) {
    let path = Path::new("metadata.conditions");
    for (i, condition) in status.conditions.iter().flatten().enumerate() {
        checks::qualified_name(errors, &path.index(i).child("Type"), &condition.type_);
    }
}

/// A container that has terminated and must not restart cannot run again.
fn transitions(
    new: &[api::ContainerStatus],
    old: &[api::ContainerStatus],
    policy: &str,
    may_restart: impl Fn(&str) -> bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    fn ended(status: &api::ContainerStatus) -> Option<&api::ContainerStateTerminated> {
        status.state.as_ref().and_then(|state| state.terminated.as_ref())
    }
    // By name, the number of statuses of containers that have not terminated.
    let mut running: BTreeMap<&str, usize> = BTreeMap::new();
    for after in new.iter().filter(|after| ended(after).is_none()) {
        *running.entry(after.name.as_str()).or_default() += 1;
    }
    for (i, before) in old.iter().enumerate() {
        let Some(end) = ended(before) else { continue };
        let restarted = policy == "Always" || (policy == "OnFailure" && end.exit_code != 0);
        if restarted || may_restart(&before.name) {
            continue;
        }
        for _ in 0..running.get(before.name.as_str()).copied().unwrap_or_default() {
            if errors.is_full() {
                return;
            }
            let text = "may not be transitioned to non-terminated state";
            errors.forbidden(&path.index(i).child("state"), text);
        }
    }
}

fn list<'a>(pod: &'a Object, field: &str) -> Vec<&'a str> {
    let entries = pod.at(&["status", field]).and_then(Value::as_array);
    entries.into_iter().flatten().map(|entry| entry["ip"].as_str().unwrap_or_default()).collect()
}

/// At most one address per family, without duplicates.
fn addresses(pod: &Object, field: &str, errors: &mut FieldErrors) {
    let path = Path::new("status").child(field);
    let addresses = list(pod, field);
    for (i, address) in addresses.iter().enumerate() {
        network::ip(address, &path.index(i), errors);
    }
    if addresses.len() < 2 {
        return;
    }
    let families: BTreeSet<bool> = addresses
        .iter()
        .filter_map(|address| address.parse::<IpAddr>().ok())
        .map(|ip| ip.is_ipv6())
        .collect();
    if families.len() != 2 || addresses.len() > 2 {
        let shown = Value::Array(addresses.iter().map(|ip| json!({ "IP": ip })).collect());
        errors.invalid(&path, shown, "may specify no more than one IP for each IP family");
    }
    let mut seen = BTreeSet::new();
    for (i, address) in addresses.iter().enumerate() {
        if !seen.insert(address) {
            errors.duplicate(&path.index(i), json!({ "IP": address }));
        }
    }
}

/// `hostIP` must be the first item of `hostIPs`.
fn host_addresses(pod: &Object, errors: &mut FieldErrors) {
    if let Some(first) = list(pod, "hostIPs").first()
        && *first != pod.str_at(&["status", "hostIP"])
    {
        let path = Path::new("status.hostIPs").index(0).child("ip");
        errors.invalid(&path, *first, "must be equal to `hostIP`");
    }
    addresses(pod, "hostIPs", errors);
}
