//! Amounts of resources by name: a node's allocatable, a pod's requests. Exact, so that adding and subtracting an amount leaves
//! no residue. Pure.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use orlop_apimachinery::quantity::Quantity;

/// The resource that counts pods.
pub const PODS: &str = "pods";

/// Amounts by resource name. A missing name means zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amounts(BTreeMap<String, Quantity>);

impl Amounts {
    /// Reads a resource list. An unparsable quantity counts as zero; the server admits none.
    pub fn read(list: Option<&BTreeMap<String, Text>>) -> Self {
        let read = |(name, text): (&String, &Text)| Some((name.clone(), Quantity::parse(&text.0).ok()?));
        Self(list.into_iter().flatten().filter_map(read).collect())
    }

    /// The amount of one resource.
    pub fn of(&self, name: &str) -> Quantity {
        self.0.get(name).cloned().unwrap_or(Quantity::ZERO)
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, name: &str, amount: Quantity) {
        self.0.insert(name.to_owned(), amount);
    }

    /// Adds all amounts of `other`.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.set(name, self.of(name).plus(amount));
        }
    }

    /// Subtracts all amounts of `other`.
    pub fn take(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let left = self.of(name).minus(amount);
            if left.is_zero() {
                self.0.remove(name);
            } else {
                self.set(name, left);
            }
        }
    }

    /// Raises each resource to the larger of both amounts.
    pub fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.raise_one(name, amount.clone());
        }
    }

    fn raise_one(&mut self, name: &str, amount: Quantity) {
        if self.of(name) < amount {
            self.set(name, amount);
        }
    }

    /// Names and amounts, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount))
    }
}

/// A pod's requests on its node: the sum of its containers or the maximum during its initialization, whichever is larger, or
/// the pod-level requests, plus its overhead. A pod counts as one of [`PODS`]. While a container is being resized, the larger of
/// the current and the desired value counts.
///
/// Upstream: component-helpers/resource.PodRequests.
pub fn requests_of(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::default() };
    let mut total = Amounts::default();
    let known = statuses(pod, false);
    for container in &spec.containers {
        total.add(&request_of(container, &known));
    }
    // Only the resources of the container itself are raised: the others did not change since `start` included them.
    let (mut beside, mut start) = (Amounts::default(), Amounts::default());
    let known = statuses(pod, true);
    for container in spec.init_containers.iter().flatten() {
        let own = request_of(container, &known);
        if is_sidecar(container) {
            total.add(&own);
            beside.add(&own);
            own.iter().for_each(|(name, _)| start.raise_one(name, beside.of(name)));
        } else {
            own.iter().for_each(|(name, amount)| start.raise_one(name, beside.of(name).plus(amount)));
        }
    }
    total.raise(&start);
    let whole = Amounts::read(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    for (name, amount) in whole.iter().filter(|(name, _)| counts_for_the_pod(name)) {
        total.set(name, amount.clone());
    }
    total.add(&Amounts::read(spec.overhead.as_ref()));
    total.set(PODS, Quantity::from_integer(1));
    total
}

/// Whether an init container keeps running beside the containers.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether a resource can be requested at pod level.
fn counts_for_the_pod(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// By the container's name; of several the first.
type Statuses<'a> = HashMap<&'a str, &'a ContainerStatus>;

fn statuses(pod: &Pod, init: bool) -> Statuses<'_> {
    let Some(status) = &pod.status else { return Statuses::new() };
    let list = if init { &status.init_container_statuses } else { &status.container_statuses };
    let mut statuses = Statuses::new();
    for status in list.iter().flatten() {
        statuses.entry(&status.name).or_insert(status);
    }
    statuses
}

fn request_of(container: &Container, statuses: &Statuses<'_>) -> Amounts {
    let mut wanted = Amounts::read(container.resources.as_ref().and_then(|r| r.requests.as_ref()));
    if let Some(status) = statuses.get(container.name.as_str()) {
        wanted.raise(&Amounts::read(status.resources.as_ref().and_then(|r| r.requests.as_ref())));
        wanted.raise(&Amounts::read(status.allocated_resources.as_ref()));
    }
    wanted
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}})
    }

    fn sidecar(cpu: &str) -> Value {
        let mut sidecar = container(cpu);
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    }

    #[test]
    fn pod_requests_follow_upstream() {
        let resized = json!({"containers": [container("1")]});
        let status = json!({"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true,
            "restartCount": 0, "allocatedResources": {"cpu": "3"}}]});
        let table = [
            ("the sum", json!({"containers": [container("1"), container("500m")]}), "1500m", "2Gi"),
            (
                "an init container that asks for more",
                json!({"containers": [container("1")],
                "initContainers": [container("2")]}),
                "2",
                "1Gi",
            ),
            (
                "init containers run one by one",
                json!({"containers": [container("1")],
                "initContainers": [container("1"), container("1")]}),
                "1",
                "1Gi",
            ),
            (
                "a sidecar stays",
                json!({"containers": [container("1")], "initContainers": [sidecar("1")]}),
                "2",
                "2Gi",
            ),
            (
                "an init container beside a sidecar",
                json!({"containers": [container("1")],
                "initContainers": [sidecar("1"), container("3")]}),
                "4",
                "2Gi",
            ),
            (
                "one before a sidecar runs alone",
                json!({"containers": [container("1")],
                "initContainers": [container("1500m"), sidecar("1")]}),
                "2",
                "2Gi",
            ),
            (
                "overhead",
                json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}),
                "1250m",
                "1Gi",
            ),
            (
                "the pod as a whole",
                json!({"containers": [container("1")], "overhead": {"cpu": "1"},
                "resources": {"requests": {"cpu": "4"}}}),
                "5",
                "1Gi",
            ),
            ("nothing", json!({"containers": [{"name": "c"}]}), "0", "0"),
        ];
        for (name, spec, cpu, memory) in table {
            let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            let wanted = requests_of(&pod);
            let read = |text: &str| Quantity::parse(text).unwrap();
            assert_eq!((wanted.of("cpu"), wanted.of("memory")), (read(cpu), read(memory)), "{name}");
            assert_eq!(wanted.of(PODS), Quantity::from_integer(1), "{name}");
        }
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {}, "spec": resized, "status": status})).unwrap();
        assert_eq!(requests_of(&pod).of("cpu"), Quantity::from_integer(3), "while it is resized");
    }

    #[test]
    fn requests_of_many_containers_cost_linear_time() {
        let pod = |count: usize| -> Pod {
            let name = |n: usize| format!("c{n}");
            let sidecar = |n: usize| {
                json!({"name": name(n), "restartPolicy": "Always",
                    "resources": {"requests": {format!("a.b/{n}"): "1"}}})
            };
            let status = |n: usize| {
                json!({"name": name(n), "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "allocatedResources": {format!("a.b/{n}"): "2"}})
            };
            let init: Vec<Value> = (0..count).map(sidecar).collect();
            let statuses: Vec<Value> = (0..count).rev().map(status).collect();
            let pod = json!({"metadata": {}, "spec": {"containers": [], "initContainers": init},
                "status": {"initContainerStatuses": statuses}});
            serde_json::from_value(pod).unwrap()
        };
        assert_eq!(requests_of(&pod(3)).of("a.b/1"), Quantity::from_integer(2));
        orlop_apimachinery::thread_time::assert_linear("requests", 400, pod, requests_of);
    }

    #[test]
    fn adding_and_subtracting_leaves_no_residue() {
        let one = Amounts(BTreeMap::from([("cpu".to_owned(), Quantity::parse("333m").unwrap())]));
        let mut sum = Amounts::default();
        for _ in 0..3 {
            sum.add(&one);
        }
        assert_eq!(sum.of("cpu"), Quantity::parse("999m").unwrap());
        for _ in 0..3 {
            sum.take(&one);
        }
        assert_eq!(sum, Amounts::default());
    }
}
