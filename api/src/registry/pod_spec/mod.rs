//! Defaults and validation of the pod spec, shared by pods and pod templates.
//!
//! Every function takes a spec and its path, so that kinds with templates can use them unchanged.
//! [`Owner`] selects the few rules where a bare pod differs from a template. The rules are in
//! upstream's order (pkg/apis/core/validation, `ValidatePodSpec`), one file per topic.

mod containers;
pub(super) mod defaults;
mod env;
mod mounts;
pub(super) mod network;
mod platform;
mod ports;
mod probes;
pub(super) mod qos;
pub(super) mod resources;
pub(super) mod scheduling;
mod security;
pub(super) mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as api;
use serde::Deserialize;
use serde_json::Value;

use super::go_format::RESOURCE_CLAIM;
use super::pod_owner::Owner;
use super::{checks, pod_volume};
use crate::validate::label_selector::validate_labels;
use crate::validate::{FieldErrors, Path};

/// The parts of a pod that the validation of its containers uses.
struct Surroundings<'a> {
    /// The valid volumes, by name.
    volumes: BTreeMap<&'a str, &'a api::Volume>,
    /// The names of the pod's resource claims.
    claims: BTreeSet<&'a str>,
    restart_policy: &'a str,
    host_users: bool,
    grace: Option<i64>,
}

/// The typed spec. `None` only if the JSON does not match the type, which decoding rules out.
pub(super) fn typed(spec: &Value) -> Option<api::PodSpec> {
    api::PodSpec::deserialize(spec).ok()
}

/// An optional string; `""` if absent.
fn text(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}

/// The items of an optional list.
fn items<T>(list: &Option<Vec<T>>) -> &[T] {
    list.as_deref().unwrap_or_default()
}

/// Validates a pod spec after defaulting.
pub(super) fn validate(json: &Value, owner: Owner<'_>, path: &Path, errors: &mut FieldErrors) {
    let Some(spec) = typed(json) else {
        return;
    };
    let volumes = pod_volume::validate(json, items(&spec.volumes), owner, &path.child("volumes"), errors);
    let claims = resource_claims(items(&spec.resource_claims), &path.child("resourceClaims"), errors);
    let around = Surroundings {
        volumes,
        claims,
        restart_policy: text(&spec.restart_policy),
        host_users: spec.host_users != Some(false),
        grace: spec.termination_grace_period_seconds,
    };
    containers::validate(&spec, &around, path, errors);
    if let Some(whole) = &spec.resources {
        resources::validate_pod(whole, &spec, &path.child("resources"), errors);
    }
    ports::validate_host_network(&spec, owner, path, errors);
    checks::one_of(
        errors,
        &path.child("restartPolicy"),
        spec.restart_policy.as_deref(),
        &["Always", "OnFailure", "Never"],
    );
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    checks::one_of(errors, &path.child("dnsPolicy"), spec.dns_policy.as_deref(), &policies);
    let labels = spec.node_selector.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    validate_labels(labels, &path.child("nodeSelector"), errors);
    security::validate_pod(&spec, &path.child("securityContext"), errors);
    if let Some(affinity) = &spec.affinity {
        scheduling::affinity(affinity, &path.child("affinity"), errors);
    }
    network::dns_config(&spec, &path.child("dnsConfig"), errors);
    for (i, gate) in items(&spec.readiness_gates).iter().enumerate() {
        let path = path.child("readinessGates").index(i).child("conditionType");
        checks::qualified_name(errors, &path, &gate.condition_type);
    }
    scheduling::gates(items(&spec.scheduling_gates), &path.child("schedulingGates"), errors);
    let spread = items(&spec.topology_spread_constraints);
    scheduling::spread(spread, &path.child("topologySpreadConstraints"), errors);
    platform::host_users(&spec, path, errors);
    names(&spec, path, errors);
    scheduling::tolerations(items(&spec.tolerations), &path.child("tolerations"), errors);
    network::host_aliases(items(&spec.host_aliases), &path.child("hostAliases"), errors);
    rest(&spec, path, errors);
}

/// Rules for bare pods only; upstream has always accepted templates that violate them.
pub(super) fn only_in_pods(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    if text(&spec.service_account_name).is_empty() {
        for (i, volume) in items(&spec.volumes).iter().enumerate() {
            let sources = volume.projected.as_ref().and_then(|projected| projected.sources.as_deref());
            let path = path.child("volumes").index(i).child("projected").child("sources");
            for (j, source) in sources.unwrap_or_default().iter().enumerate() {
                if source.service_account_token.is_some() {
                    let path = path.index(j).child("serviceAccountToken");
                    errors.forbidden(&path, "must not be specified when serviceAccountName is not set");
                }
            }
        }
    }
    containers::images_without_blanks(spec, path, errors);
}

/// Maximum length of the name of a host, bytes.
const HOSTNAME_MAX: usize = 64;

/// Names of other objects, and the pod's host names; upstream validates the deadline among them.
fn names(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    if let Some(name) = &spec.hostname_override {
        hostname_override(spec, name, &path.child("hostnameOverride"), errors);
    }
    for (field, name) in [("serviceAccountName", &spec.service_account_name), ("nodeName", &spec.node_name)] {
        if !text(name).is_empty() {
            checks::subdomain(errors, &path.child(field), text(name));
        }
    }
    if let Some(seconds) = spec.active_deadline_seconds
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let text = "must be between 1 and 2147483647, inclusive";
        errors.invalid(&path.child("activeDeadlineSeconds"), seconds, text);
    }
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if !text(name).is_empty() {
            checks::label(errors, &path.child(field), text(name));
        }
    }
}

/// The name that the kernel reports, which has at most 64 characters: the pod must have its own network namespace and no
/// other way to set that name.
fn hostname_override(spec: &api::PodSpec, name: &str, path: &Path, errors: &mut FieldErrors) {
    if spec.set_hostname_as_fqdn == Some(true) {
        errors.forbidden(path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.host_network == Some(true) {
        errors.forbidden(path, "may not be specified when hostNetwork is true");
    }
    if name.len() > HOSTNAME_MAX {
        errors.too_long(path, HOSTNAME_MAX);
    }
    checks::subdomain(errors, path, name);
}

/// The checks that upstream runs last.
fn rest(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    if !text(&spec.priority_class_name).is_empty() {
        checks::subdomain(errors, &path.child("priorityClassName"), text(&spec.priority_class_name));
    }
    if let Some(name) = &spec.runtime_class_name {
        checks::subdomain(errors, &path.child("runtimeClassName"), name);
    }
    checks::one_of(
        errors,
        &path.child("preemptionPolicy"),
        spec.preemption_policy.as_deref(),
        &["PreemptLowerPriority", "Never"],
    );
    resources::validate_overhead(spec, &path.child("overhead"), errors);
    platform::os(spec, path, errors);
}

/// The pod's claims for devices. Returns their names, for the containers that use them.
fn resource_claims<'a>(
    claims: &'a [api::PodResourceClaim],
    path: &Path,
    errors: &mut FieldErrors,
) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        if !checks::required(errors, &path.child("name"), &claim.name) {
            continue;
        }
        if names.insert(claim.name.as_str()) {
            checks::label(errors, &path.child("name"), &claim.name);
        } else {
            errors.duplicate(&path.child("name"), claim.name.as_str());
        }
        let shown = RESOURCE_CLAIM.show(serde_json::to_value(claim).ok().as_ref());
        match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(_), Some(_)) => {
                let text =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid_shown(&path, &shown, text);
            }
            (None, None) => {
                let text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid_shown(&path, &shown, text);
            }
            (Some(name), None) => checks::subdomain(errors, &path.child("resourceClaimName"), name),
            (None, Some(name)) => checks::subdomain(errors, &path.child("resourceClaimTemplateName"), name),
        }
    }
    names
}

#[cfg(test)]
mod tests;
