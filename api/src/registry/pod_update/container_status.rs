//! Validation of the parts of a container status that a node reports: its user, and the health of its devices.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as api;

use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// The health of a resource.
const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];

/// The users of running containers.
pub(super) fn users(
    statuses: &[api::ContainerStatus],
    is_windows: bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (i, status) in statuses.iter().enumerate() {
        let Some(linux) = status.user.as_ref().and_then(|user| user.linux.as_ref()) else { continue };
        let path = path.index(i).child("user").child("linux");
        if is_windows {
            errors.forbidden(&path, "cannot be set for a windows pod");
            continue;
        }
        id(linux.uid, &path.child("uid"), errors);
        id(linux.gid, &path.child("gid"), errors);
        for (n, group) in linux.supplemental_groups.iter().flatten().enumerate() {
            id(*group, &path.child("supplementalGroups").index(n), errors);
        }
    }
}

fn id(number: i64, path: &Path, errors: &mut FieldErrors) {
    if !(0..=i64::from(i32::MAX)).contains(&number) {
        errors.invalid(path, number, "must be between 0 and 2147483647, inclusive");
    }
}

/// The health of allocated resources. `containers` is `None` for ephemeral containers, which have no resources.
/// Statuses of containers that are missing in the spec are permitted.
pub(super) fn allocated_resources(
    statuses: &[api::ContainerStatus],
    containers: Option<&[api::Container]>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (i, status) in statuses.iter().enumerate() {
        let path = path.index(i).child("allocatedResourcesStatus");
        let resources = status.allocated_resources_status.as_deref().unwrap_or_default();
        let Some(containers) = containers else {
            if !resources.is_empty() {
                errors.forbidden(&path, "must not be specified in container status");
            }
            continue;
        };
        let container = containers.iter().find(|container| container.name == status.name);
        for (j, resource) in resources.iter().enumerate() {
            if errors.is_full() {
                return;
            }
            let path = path.index(j);
            if let Some(container) = container {
                requested(container, &resource.name, &path.child("name"), errors);
            }
            health(resource.resources.as_deref().unwrap_or_default(), &path.child("resources"), errors);
        }
    }
}

/// Whether the container requests the resource, or uses the claim `claim:NAME` or `claim:NAME/REQUEST`.
fn requested(container: &api::Container, name: &str, path: &Path, errors: &mut FieldErrors) {
    let resources = container.resources.as_ref();
    if let Some(wanted) = name.strip_prefix("claim:") {
        let is_wanted = |claim: &api::ResourceClaim| match claim.request.as_deref() {
            Some(request) if !request.is_empty() => {
                wanted.split_once('/') == Some((claim.name.as_str(), request))
            }
            Some(_) | None => wanted == claim.name,
        };
        if !resources.and_then(|list| list.claims.as_ref()).into_iter().flatten().any(is_wanted) {
            let text = "must match one of the container's resource claims in a format \
                        'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            errors.invalid(path, name, text);
        }
    } else if !resources
        .and_then(|list| list.requests.as_ref())
        .is_some_and(|requests| requests.contains_key(name))
    {
        errors.invalid(path, name, "must match one of the container's resource requests");
    }
}

fn health(resources: &[api::ResourceHealth], path: &Path, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (k, resource) in resources.iter().enumerate() {
        let path = path.index(k);
        let health = resource.health.as_deref().unwrap_or_default();
        checks::one_of(errors, &path.child("health"), Some(health), &HEALTH);
        if !seen.insert(resource.resource_id.as_str()) {
            errors.duplicate(&path.child("resourceID"), resource.resource_id.as_str());
        }
    }
}
