//! Validation of status updates of a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1 as api;
use serde_json::{Value, json};

use super::{container_status, restart_policy, validate_annotation_changes};
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
    let path = Path::new("status");
    conditions(&status, &path.child("conditions"), errors);
    let nominated = status.nominated_node_name.as_deref().unwrap_or_default();
    if status.nominated_node_name != old_status.nominated_node_name && !nominated.is_empty() {
        let path = path.child("nominatedNodeName");
        checks::subdomain(errors, &path, nominated);
        if spec.node_name.as_ref().is_some_and(|name| !name.is_empty()) {
            errors.forbidden(&path, "may not be set on pods that are already bound to a node");
        }
    }
    observed_generation(status.observed_generation, &path, errors);
    let class = |pod: &Object| pod.at(&["status", "qosClass"]).cloned();
    checks::immutable(errors, &path.child("qosClass"), class(pod).as_ref(), class(old_pod).as_ref());

    let lists = status_lists(&status, &spec);
    for (list, old) in lists.iter().zip(status_lists(&old_status, &old_spec)) {
        restarts(list.statuses, &old, &old_spec, &path.child(list.field), errors);
    }
    claim_statuses(&status, &spec, &path.child("resourceClaimStatuses"), errors);
    addresses(pod, "podIPs", errors);
    host_addresses(pod, errors);
    let is_windows = spec.os.as_ref().is_some_and(|os| os.name == "windows");
    for list in &lists {
        container_status::users(list.statuses, is_windows, &path.child(list.field), errors);
    }
    for list in &lists {
        container_status::allocated_resources(
            list.statuses,
            list.containers,
            &path.child(list.field),
            errors,
        );
    }
}

/// The statuses of one kind of containers.
struct StatusList<'a> {
    field: &'static str,
    statuses: &'a [api::ContainerStatus],
    /// The containers in the spec; `None` for ephemeral containers, which are never restarted.
    containers: Option<&'a [api::Container]>,
}

fn status_lists<'a>(status: &'a api::PodStatus, spec: &'a api::PodSpec) -> [StatusList<'a>; 3] {
    let list = |field, statuses: &'a Option<Vec<_>>, containers| {
        let statuses = statuses.as_deref().unwrap_or_default();
        StatusList { field, statuses, containers }
    };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    [
        list("containerStatuses", &status.container_statuses, Some(spec.containers.as_slice())),
        list("initContainerStatuses", &status.init_container_statuses, Some(init)),
        list("ephemeralContainerStatuses", &status.ephemeral_container_statuses, None),
    ]
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

/// Types of conditions are qualified names. Upstream spells the field in this way.
fn conditions(status: &api::PodStatus, path: &Path, errors: &mut FieldErrors) {
    for (i, condition) in status.conditions.iter().flatten().enumerate() {
        let path = path.index(i);
        observed_generation(condition.observed_generation, &path, errors);
        checks::qualified_name(errors, &path.child("Type"), &condition.type_);
    }
}

fn observed_generation(generation: Option<i64>, path: &Path, errors: &mut FieldErrors) {
    if let Some(generation) = generation.filter(|generation| *generation < 0) {
        errors.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
    }
}

/// A container that has terminated runs again only if its restart policy says so. A container that is missing in the
/// spec has none.
fn restarts(
    new: &[api::ContainerStatus],
    old: &StatusList<'_>,
    spec: &api::PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    fn ended(status: &api::ContainerStatus) -> Option<&api::ContainerStateTerminated> {
        status.state.as_ref().and_then(|state| state.terminated.as_ref())
    }
    if old.containers.is_some() && restart_policy::restarts_all(spec) {
        return;
    }
    let running: BTreeSet<&str> =
        new.iter().filter(|after| ended(after).is_none()).map(|after| after.name.as_str()).collect();
    let containers: BTreeMap<&str, &api::Container> =
        old.containers.into_iter().flatten().map(|container| (container.name.as_str(), container)).collect();
    for (i, before) in old.statuses.iter().enumerate() {
        let Some(end) = ended(before).filter(|_| running.contains(before.name.as_str())) else { continue };
        let container = containers.get(before.name.as_str());
        if !container.is_some_and(|container| restart_policy::restarts(container, spec, end.exit_code)) {
            let text = "may not be transitioned to non-terminated state";
            errors.forbidden(&path.index(i).child("state"), text);
        }
    }
}

fn list<'a>(pod: &'a Object, field: &str) -> Vec<&'a str> {
    let entries = pod.at(&["status", field]).and_then(Value::as_array);
    entries.into_iter().flatten().map(|entry| entry["ip"].as_str().unwrap_or_default()).collect()
}

/// At most one address per family.
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
