//! Computes the desired Node. Pure (upstream: initialNode, updateDefaultLabels, nodeStatusHasChanged).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::ObjectMeta;
use orlop_client::names::ANN_CONTROLLER_MANAGED_ATTACH;
use serde_json::{Value, json};

use super::machine::Machine;
use crate::config::NodeConfig;
use crate::eviction::ThresholdValue;

/// The Kubernetes release whose kubelet this agent emulates, with the name of this agent. `kubectl get nodes`
/// shows it as VERSION.
pub fn version() -> String {
    format!("v1.36.2+orlop-{}", env!("CARGO_PKG_VERSION"))
}

/// Labels that are updated on an existing Node. Other labels of `--node-labels` are only set when the Node is
/// created.
const RECONCILED: [&str; 12] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
];

/// The name of the processor architecture in container images.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// The facts to publish about a node.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// The machine.
    pub machine: Machine,
    /// The node's address; none if it has none.
    pub address: Option<IpAddr>,
    /// The port of the log server.
    pub port: Option<u16>,
    /// All conditions.
    pub conditions: Vec<NodeCondition>,
    /// Attachable volumes in use.
    pub in_use: BTreeSet<String>,
}

/// A new Node.
pub fn initial(config: &NodeConfig, facts: &NodeInfo) -> Node {
    let given = [
        ("kubernetes.io/hostname", config.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", architecture()),
    ];
    let mut labels: BTreeMap<String, String> =
        given.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    labels.extend(config.labels.clone());
    let annotations = BTreeMap::from([(ANN_CONTROLLER_MANAGED_ATTACH.to_owned(), "true".to_owned())]);
    Node {
        metadata: ObjectMeta {
            name: Some(config.name.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: Some(config.taints.clone()).filter(|taints| !taints.is_empty()),
            ..NodeSpec::default()
        }),
        status: Some(status(&NodeStatus::default(), config, facts)),
    }
}

/// The patch that an existing Node needs; none if it needs no change.
pub fn reconciled(existing: &Node, initial: &Node) -> Option<Value> {
    let empty = BTreeMap::new();
    let (old, new) = (existing.metadata.labels.as_ref(), initial.metadata.labels.as_ref());
    let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
    let differs = |key: &&&str| new.get(**key).is_some_and(|value| old.get(**key) != Some(value));
    let labels: BTreeMap<&str, &String> =
        RECONCILED.iter().filter(differs).filter_map(|key| Some((*key, new.get(*key)?))).collect();
    let annotations = existing.metadata.annotations.as_ref().unwrap_or(&empty);
    let managed = annotations.get(ANN_CONTROLLER_MANAGED_ATTACH).is_some_and(|value| value == "true");
    if labels.is_empty() && managed {
        return None;
    }
    let mut patch = json!({"metadata": {
        "uid": existing.metadata.uid, "resourceVersion": existing.metadata.resource_version, "labels": labels}});
    if !managed {
        patch["metadata"]["annotations"] = json!({ANN_CONTROLLER_MANAGED_ATTACH: "true"});
    }
    Some(patch)
}

/// The status with all values that the agent owns; values of other writers are unchanged.
pub fn status(old: &NodeStatus, config: &NodeConfig, facts: &NodeInfo) -> NodeStatus {
    let mut status = old.clone();
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let internal = facts.address.map(|ip| address("InternalIP", ip.to_string()));
    status.addresses = Some(internal.into_iter().chain([address("Hostname", config.name.clone())]).collect());
    let (capacity, allocatable) = amounts(config, &facts.machine);
    status.capacity.get_or_insert_default().extend(capacity);
    status.allocatable.get_or_insert_default().extend(allocatable);
    status.conditions = Some(facts.conditions.clone());
    let endpoint = DaemonEndpoint { port: i32::from(facts.port.unwrap_or(0)) };
    status.daemon_endpoints.get_or_insert_default().kubelet_endpoint = Some(endpoint);
    let info = status.node_info.get_or_insert_default();
    info.machine_id.clone_from(&facts.machine.machine_id);
    info.system_uuid.clone_from(&facts.machine.system_uuid);
    info.boot_id.clone_from(&facts.machine.boot_id);
    info.kernel_version.clone_from(&facts.machine.kernel);
    info.os_image.clone_from(&facts.machine.os_image);
    info.container_runtime_version = format!("orlop://{}", env!("CARGO_PKG_VERSION"));
    info.kubelet_version = version();
    info.operating_system = "linux".to_owned();
    info.architecture = architecture().to_owned();
    status.volumes_in_use =
        Some(facts.in_use.iter().cloned().collect()).filter(|all: &Vec<_>| !all.is_empty());
    status
}

type Amounts = BTreeMap<String, Quantity>;

/// Capacity and allocatable: allocatable excludes huge pages and the eviction thresholds.
fn amounts(config: &NodeConfig, machine: &Machine) -> (Amounts, Amounts) {
    let one = |key: &str, amount: String| (key.to_owned(), Quantity(amount));
    let huge: Vec<(String, u64)> = machine
        .huge_pages
        .iter()
        .map(|(size, count)| (format!("hugepages-{}", binary(*size)), size * count))
        .collect();
    let in_pages: u64 = huge.iter().map(|(_, bytes)| bytes).sum();
    let disk = machine.root.map(|room| room.bytes);
    let both = || {
        let rest = [one("cpu", machine.cpus.to_string()), one("pods", config.max_pods.to_string())];
        rest.into_iter().chain(huge.iter().map(|(key, bytes)| one(key, binary(*bytes))))
    };
    let mut capacity: Amounts = both().collect();
    let mut allocatable: Amounts = both().collect();
    capacity.extend([one("memory", binary(machine.memory))]);
    let memory = machine.memory.saturating_sub(in_pages);
    let kept = |least: Option<ThresholdValue>, whole| least.map_or(0, |least| least.of(whole));
    let memory = memory.saturating_sub(kept(config.thresholds.memory, machine.memory));
    allocatable.extend([one("memory", binary(memory))]);
    if let Some(bytes) = disk {
        capacity.extend([one("ephemeral-storage", binary(bytes))]);
        allocatable.extend([one(
            "ephemeral-storage",
            binary(bytes.saturating_sub(kept(config.thresholds.disk, bytes))),
        )]);
    }
    (capacity, allocatable)
}

/// Formats bytes in canonical form.
fn binary(bytes: u64) -> String {
    orlop_apimachinery::quantity::Quantity::from_bytes(i64::try_from(bytes).unwrap_or(i64::MAX)).to_string()
}

/// Whether a status differs from the old one, apart from heartbeat times.
pub fn has_changed(old: &NodeStatus, new: &NodeStatus) -> bool {
    let plain = |status: &NodeStatus| {
        let mut status = status.clone();
        let conditions = status.conditions.get_or_insert_default();
        conditions.iter_mut().for_each(|condition| condition.last_heartbeat_time = None);
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        status
    };
    plain(old) != plain(new)
}

/// The status as a patch that is conditional on the version that was read: lists are replaced as a whole.
pub fn status_patch(node: &Node, status: &NodeStatus) -> Value {
    json!({
        "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
        "status": {
            "addresses": status.addresses,
            "capacity": status.capacity,
            "allocatable": status.allocatable,
            "conditions": status.conditions,
            "daemonEndpoints": status.daemon_endpoints,
            "nodeInfo": status.node_info,
            "volumesInUse": status.volumes_in_use,
        },
    })
}

/// The volumes that a Node lists as in use.
pub fn reported(node: &Node) -> BTreeSet<String> {
    let status = node.status.iter();
    status.flat_map(|status| status.volumes_in_use.iter().flatten()).cloned().collect()
}

#[cfg(test)]
mod tests;
