//! Validation of container ports.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as api;
use orlop_apimachinery::names;

use super::{Owner, items, text};
use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// The message for numbers that are not valid ports.
pub(super) const PORT: &str = "must be between 1 and 65535, inclusive";

/// A port's number.
pub(super) fn number(value: i32, path: &Path, errors: &mut FieldErrors) {
    if !(1..=65535).contains(&value) {
        errors.invalid(path, value, PORT);
    }
}

/// The ports of one container.
pub(super) fn validate(ports: &[api::ContainerPort], path: &Path, errors: &mut FieldErrors) {
    let mut known = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = text(&port.name);
        if !name.is_empty() {
            let problems = names::port_name(name);
            if problems.is_empty() && !known.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
            checks::each(errors, &path.child("name"), name, problems);
        }
        if port.container_port == 0 {
            errors.required(&path.child("containerPort"), "");
        } else {
            number(port.container_port, &path.child("containerPort"), errors);
        }
        if let Some(host) = port.host_port
            && host != 0
        {
            number(host, &path.child("hostPort"), errors);
        }
        checks::one_of(errors, &path.child("protocol"), port.protocol.as_deref(), &["SCTP", "TCP", "UDP"]);
    }
}

/// Containers that run at the same time may not use the same host port.
pub(super) fn unique_host_ports<'a>(
    containers: impl Iterator<Item = (usize, &'a api::Container)>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut known = BTreeSet::new();
    for (i, container) in containers {
        for (j, port) in items(&container.ports).iter().enumerate() {
            let host = port.host_port.unwrap_or_default();
            let key = format!("{}/{}/{host}", text(&port.protocol), text(&port.host_ip));
            if host != 0 && known.contains(&key) {
                errors.duplicate(&path.index(i).child("ports").index(j).child("hostPort"), key.as_str());
            }
            known.insert(key);
        }
    }
}

/// With host networking, the host port must equal the container port. Templates may omit it.
pub(super) fn validate_host_network(
    spec: &api::PodSpec,
    owner: Owner<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if spec.host_network != Some(true) {
        return;
    }
    for (i, container) in spec.containers.iter().enumerate() {
        for (j, port) in items(&container.ports).iter().enumerate() {
            let host = port.host_port.unwrap_or_default();
            if (owner.is_pod() || host != 0) && host != port.container_port {
                let path = path.child("containers").index(i).child("ports").index(j).child("hostPort");
                errors.invalid(&path, host, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}
