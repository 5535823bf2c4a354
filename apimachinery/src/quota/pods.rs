//! Quota usage of pods: the requests and limits of their containers (upstream: component-helpers resource,
//! pkg/quota/v1/evaluator/core/pods.go).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::amounts::{self, Amounts};
use crate::names;
use crate::quantity::Quantity;

/// The resources counted for pods; a name without a prefix is the request.
const OF_PODS: [&str; 10] = [
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// Resources that are counted as request and as limit.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// A quota of these resources requires every container to specify them. Upstream calls this a mistake and
/// preserves it.
const MUST_BE_SAID: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";

/// Selects one of the two resource lists of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Requests,
    Limits,
}

/// Returns whether a quota name applies to the usage of pods.
pub fn is_about(name: &str) -> bool {
    let requested = name.strip_prefix(REQUESTS);
    OF_PODS.contains(&name)
        || name.starts_with(HUGE_PAGES)
        || requested.is_some_and(|name| name.starts_with(HUGE_PAGES))
        || requested.is_some() && !is_native(name)
}

/// Returns whether a resource is native to Kubernetes.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns whether a resource is an extended resource, such as `example.com/gpu`.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS)
        && names::qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

/// Returns the usage of a pod besides its count: nothing if it has terminated or is stuck in termination.
pub fn usage(pod: &Pod, now: Timestamp) -> Amounts {
    if !is_charged(pod, now) {
        return Amounts::new();
    }
    compute(&requests(pod), &limits(pod))
}

fn is_charged(pod: &Pod, now: Timestamp) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Failed" | "Succeeded")) {
        return false;
    }
    let meta = &pod.metadata;
    let (Some(at), Some(grace)) = (&meta.deletion_timestamp, meta.deletion_grace_period_seconds) else {
        return true;
    };
    at.0.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now <= end)
}

/// Returns requests and limits under their quota names.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Quantity::from_integer(1))]);
    for name in COMPUTE {
        if let Some(request) = requests.get(name) {
            usage.insert(name.to_owned(), request.clone());
            usage.insert(format!("{REQUESTS}{name}"), request.clone());
        }
        if let Some(limit) = limits.get(name) {
            usage.insert(format!("limits.{name}"), limit.clone());
        }
    }
    for (name, request) in requests {
        if name.starts_with(HUGE_PAGES) {
            usage.insert(name.clone(), request.clone());
        }
        if name.starts_with(HUGE_PAGES) || is_extended(name) {
            usage.insert(format!("{REQUESTS}{name}"), request.clone());
        }
    }
    usage
}

fn list(resources: Option<&ResourceRequirements>, side: Side) -> Amounts {
    let list = match side {
        Side::Requests => resources.and_then(|resources| resources.requests.as_ref()),
        Side::Limits => resources.and_then(|resources| resources.limits.as_ref()),
    };
    list.map(amounts::parse).unwrap_or_default()
}

/// Returns the resources of a container; during a resize, the maximum of the current and the desired values.
fn of_container(container: &Container, statuses: &BTreeMap<&str, &ContainerStatus>, side: Side) -> Amounts {
    let mut wanted = list(container.resources.as_ref(), side);
    if let Some(status) = statuses.get(container.name.as_str()) {
        amounts::max(&mut wanted, &list(status.resources.as_ref(), side));
        if let (Side::Requests, Some(allocated)) = (side, &status.allocated_resources) {
            amounts::max(&mut wanted, &amounts::parse(allocated));
        }
    }
    wanted
}

/// The first status of each container name.
fn by_name(statuses: Option<&Vec<ContainerStatus>>) -> BTreeMap<&str, &ContainerStatus> {
    // The last insertion wins, so the list is read backwards.
    statuses.into_iter().flatten().rev().map(|status| (status.name.as_str(), status)).collect()
}

/// Containers run together; init containers run one by one beside the sidecars.
fn of_containers(pod: &Pod, side: Side) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let status = pod.status.as_ref();
    let running = by_name(status.and_then(|status| status.container_statuses.as_ref()));
    let first = by_name(status.and_then(|status| status.init_container_statuses.as_ref()));
    let mut total = Amounts::new();
    for container in &spec.containers {
        amounts::add(&mut total, &of_container(container, &running, side));
    }
    let (mut staying, mut most) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let own = of_container(container, &first, side);
        if container.restart_policy.as_deref() == Some("Always") {
            amounts::add(&mut total, &own);
            amounts::add(&mut staying, &own);
        }
        // `most` already has the other resources of the sidecars, so only those of this container can raise it.
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        for (name, amount) in own {
            let beside = match (staying.get(&name), is_sidecar) {
                (Some(staying), true) => staying.clone(),
                (Some(staying), false) => amount.plus(staying),
                (None, _) => amount,
            };
            amounts::max(&mut most, &Amounts::from([(name, beside)]));
        }
    }
    amounts::max(&mut total, &most);
    // Pod-level resources take precedence.
    let whole = list(spec.resources.as_ref(), side);
    total.extend(whole.into_iter().filter(|(name, _)| is_of_whole_pods(name)));
    total
}

fn is_of_whole_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

fn overhead(pod: &Pod) -> Amounts {
    let overhead = pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref());
    overhead.map(amounts::parse).unwrap_or_default()
}

/// Returns the requests and the limits of all containers of a pod, without the pod overhead.
pub fn of_all_containers(pod: &Pod) -> (Amounts, Amounts) {
    (of_containers(pod, Side::Requests), of_containers(pod, Side::Limits))
}

/// Returns the requests of a pod.
pub fn requests(pod: &Pod) -> Amounts {
    let mut total = of_containers(pod, Side::Requests);
    amounts::add(&mut total, &overhead(pod));
    total
}

/// Returns the limits of a pod. A resource without a limit remains unlimited.
pub fn limits(pod: &Pod) -> Amounts {
    let mut total = of_containers(pod, Side::Limits);
    let overhead = amounts::mask(&overhead(pod), |name| total.contains_key(name));
    amounts::add(&mut total, &overhead);
    total
}

/// Returns whether the pod has pod-level resources.
fn has_whole(pod: &Pod) -> bool {
    let resources = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    [Side::Requests, Side::Limits]
        .into_iter()
        .any(|side| list(resources, side).keys().any(|name| is_of_whole_pods(name)))
}

fn all_containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    spec.map_or(&[][..], |spec| &spec.containers).iter().chain(init)
}

/// Returns the resources that a quota of these names requires and the containers that lack them; `None` if
/// nothing is missing.
pub fn unsaid<'a>(pod: &Pod, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let required: Vec<&str> = names.filter(|name| MUST_BE_SAID.contains(name)).collect();
    if required.is_empty() || has_whole(pod) {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in all_containers(pod) {
        let resources = container.resources.as_ref();
        let said = compute(&list(resources, Side::Requests), &list(resources, Side::Limits));
        for name in required.iter().filter(|name| !said.contains_key(**name)) {
            missing.entry(name).or_default().insert(&container.name);
        }
    }
    if missing.is_empty() {
        return None;
    }
    let show = |(name, containers): (&str, BTreeSet<&str>)| {
        format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
    };
    let shown: Vec<String> = missing.into_iter().map(show).collect();
    Some(format!("must specify {}", shown.join("; ")))
}

/// Returns whether the pod has neither requests nor limits.
pub fn is_best_effort(pod: &Pod) -> bool {
    if let Some(class) = pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        return class == "BestEffort";
    }
    let says = |resources: Option<&ResourceRequirements>| {
        [Side::Requests, Side::Limits].into_iter().any(|side| {
            let list = list(resources, side);
            ["cpu", "memory"]
                .into_iter()
                .any(|name| list.get(name).is_some_and(|amount| *amount > Quantity::ZERO))
        })
    };
    if has_whole(pod) {
        return !says(pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()));
    }
    !all_containers(pod).any(|container| says(container.resources.as_ref()))
}
