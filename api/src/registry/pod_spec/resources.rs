//! Validation of the resource requests and limits of containers and pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use orlop_apimachinery::names;
use orlop_apimachinery::quantity::Quantity;

use super::items;
use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

type List = BTreeMap<String, Text>;

/// Standard resources of containers.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Resources that need no prefix, for example in quotas.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Standard resources with integer quantities.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// The resources of a container.
pub(in crate::registry) fn validate(
    requirements: &api::ResourceRequirements,
    claims: &BTreeSet<&str>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    lists(requirements, container_name, path, errors);
    let mut used = BTreeSet::new();
    for (i, claim) in items(&requirements.claims).iter().enumerate() {
        let path = path.child("claims").index(i).child("name");
        if !checks::required(errors, &path, &claim.name) {
            continue;
        }
        if !claims.contains(claim.name.as_str()) {
            errors.not_found(&path, claim.name.as_str());
        }
        if !used.insert((&claim.name, &claim.request)) {
            errors.duplicate(&path, claim.name.as_str());
        }
    }
}

/// The pod-level resources.
pub(super) fn validate_pod(
    whole: &api::ResourceRequirements,
    spec: &api::PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if whole.claims.is_some() {
        errors.forbidden(&path.child("claims"), "claims cannot be set for Resources at pod-level");
    }
    lists(whole, pod_name, path, errors);
    for (i, container) in spec.containers.iter().enumerate() {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        for (name, limit) in limits.into_iter().flatten() {
            let Some(total) = whole.limits.as_ref().and_then(|limits| limits.get(name)) else { continue };
            if parsed(limit) > parsed(total) {
                let path = path.child("containers").index(i).key(name).child("limits");
                let text = format!("must be less than or equal to pod limits of {}", total.0);
                errors.invalid(&path, limit.0.as_str(), &text);
            }
        }
    }
}

/// The overhead of running the pod, in addition to its containers.
pub(super) fn validate_overhead(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    for (name, quantity) in spec.overhead.iter().flatten() {
        let path = path.key(name);
        container_name(name, &path, errors);
        amount(name, &quantity.0, &path, errors);
    }
}

/// The resize policy of a container.
pub(super) fn resize_policy(
    container: &api::Container,
    restart_policy: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (i, policy) in items(&container.resize_policy).iter().enumerate() {
        if !seen.insert(&policy.resource_name) {
            errors.duplicate(&path.index(i), policy.resource_name.as_str());
        }
        if checks::required(errors, path, &policy.resource_name) {
            checks::one_of(errors, path, Some(&policy.resource_name), &["cpu", "memory"]);
        }
        if checks::required(errors, path, &policy.restart_policy) {
            let known = ["NotRequired", "RestartContainer"];
            checks::one_of(errors, path, Some(&policy.restart_policy), &known);
        }
        if restart_policy == "Never" && policy.restart_policy != "NotRequired" {
            let text = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.invalid(path, policy.restart_policy.as_str(), text);
        }
    }
}

/// Limits and requests, and their relation.
fn lists(
    requirements: &api::ResourceRequirements,
    name_rule: fn(&str, &Path, &mut FieldErrors),
    path: &Path,
    errors: &mut FieldErrors,
) {
    let none = List::new();
    let limits = requirements.limits.as_ref().unwrap_or(&none);
    let requests = requirements.requests.as_ref().unwrap_or(&none);
    let (at_limits, at_requests) = (path.child("limits"), path.child("requests"));
    for (name, limit) in limits {
        let path = at_limits.key(name);
        name_rule(name, &path, errors);
        amount(name, &limit.0, &path, errors);
        huge_pages(name, limit, &path, errors);
    }
    for (name, request) in requests {
        let path = at_requests.key(name);
        name_rule(name, &path, errors);
        amount(name, &request.0, &path, errors);
        match limits.get(name) {
            Some(limit) if !may_overcommit(name) && parsed(request) != parsed(limit) => {
                let text = format!("must be equal to {name} limit of {}", limit.0);
                errors.invalid(&at_requests, request.0.as_str(), &text);
            }
            Some(limit) if parsed(request) > parsed(limit) => {
                let text = format!("must be less than or equal to {name} limit of {}", limit.0);
                errors.invalid(&at_requests, request.0.as_str(), &text);
            }
            Some(_) => {}
            None if !may_overcommit(name) => {
                errors.required(&at_limits, "Limit must be set for non overcommitable resources");
            }
            None => {}
        }
        huge_pages(name, request, &path, errors);
    }
    let mut names = limits.keys().chain(requests.keys());
    let computes = names.clone().any(|name| matches!(name.as_str(), "cpu" | "memory"));
    if !computes && names.any(|name| is_huge(name)) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn parsed(text: &Text) -> Option<Quantity> {
    Quantity::parse(&text.0).ok()
}

/// A quantity of a resource: not negative, and an integer where required.
pub(in crate::registry) fn amount(name: &str, text: &str, path: &Path, errors: &mut FieldErrors) {
    checks::non_negative_quantity(errors, path, text);
    let whole = COUNTED.contains(&name) || is_extended(name);
    if whole && Quantity::parse(text).is_ok_and(|quantity| !quantity.is_integer()) {
        errors.invalid(path, text, "must be an integer");
    }
}

/// Huge pages must be a multiple of the page size.
fn huge_pages(name: &str, text: &Text, path: &Path, errors: &mut FieldErrors) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let (Ok(page), Some(quantity)) = (Quantity::parse(size), parsed(text)) else { return };
    if page.value() > 0 && (!quantity.is_integer() || quantity.value() % page.value() != 0) {
        let problem = format!("{} is not positive integer multiple of {size}", text.0);
        errors.invalid(path, text.0.as_str(), &problem);
    }
}

/// The name of a resource: a standard one, or one with a prefix.
pub(in crate::registry) fn resource_name(name: &str, path: &Path, errors: &mut FieldErrors) {
    let problems = names::qualified_name(name);
    if !problems.is_empty() {
        checks::each(errors, path, name, problems);
    } else if !name.contains('/') && !STANDARD.contains(&name) && !is_huge(name) && !is_requested_huge(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

/// The name of a resource that a quota can limit.
pub(in crate::registry) fn quota_name(name: &str, path: &Path, errors: &mut FieldErrors) {
    resource_name(name, path, errors);
    if !name.contains('/') && !is_standard_in_quotas(name) {
        errors.invalid(path, name, "must be a standard resource for quota");
    }
}

/// Whether the resource is standard in quotas.
pub(in crate::registry) fn is_standard_in_quotas(name: &str) -> bool {
    let known = STANDARD.contains(&name) && name != "storage";
    known || is_huge(name) || is_requested_huge(name)
}

fn is_requested_huge(name: &str) -> bool {
    name.strip_prefix("requests.").is_some_and(is_huge)
}

/// The name of a resource of a container.
pub(in crate::registry) fn container_name(name: &str, path: &Path, errors: &mut FieldErrors) {
    resource_name(name, path, errors);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge(name) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// The name of a pod-level resource.
fn pod_name(name: &str, path: &Path, errors: &mut FieldErrors) {
    if !matches!(name, "cpu" | "memory") && !is_huge(name) {
        errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
    }
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether the resource is a native Kubernetes resource.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the limit may exceed the request.
pub(in crate::registry) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge(name)
}

/// Whether the resource is an extended one, such as `example.com/gpu`.
pub(in crate::registry) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}
