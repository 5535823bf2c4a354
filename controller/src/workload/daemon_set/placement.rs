//! Where the pods of a DaemonSet run, and the pod for a node. Pure functions.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};

use crate::scheduler::cluster::NodeFacts;
use crate::scheduler::filter::node_terms::NodeTerms;
use crate::scheduler::filter::taints::Tolerations;
use crate::workload::owned::controller_reference;
use crate::workload::replica::replica;
use crate::workload::stateful_set::identity::LABEL_REVISION;
use crate::workload::template::pod_from;
use orlop_client::names::{ANN_TEMPLATE_GENERATION, taint};
use orlop_client::pods::node_name;
use orlop_volume::affinity::required_node_terms;

/// Label of a pod: the number of changes of the template that preceded it.
pub const LABEL_TEMPLATE_GENERATION: &str = "pod-template-generation";
/// The field of a node that a pod's affinity requires.
const FIELD_NAME: &str = "metadata.name";

/// The taints that every pod of a DaemonSet tolerates: those of node conditions, and of cordoned nodes.
const TOLERATED: [(&str, &str); 6] = [
    (taint::NOT_READY, "NoExecute"),
    (taint::UNREACHABLE, "NoExecute"),
    (taint::DISK_PRESSURE, "NoSchedule"),
    (taint::MEMORY_PRESSURE, "NoSchedule"),
    (taint::PID_PRESSURE, "NoSchedule"),
    (taint::UNSCHEDULABLE, "NoSchedule"),
];

/// Whether a DaemonSet runs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It does.
    Runs,
    /// A pod that is there stays, because it tolerates the NoExecute taints of the node. No pod is created.
    Stays,
    /// It does not.
    Never,
}

/// The requirements of a DaemonSet's pods, read once for all nodes.
#[derive(Debug)]
pub struct Placement<'a> {
    node: Option<&'a str>,
    terms: NodeTerms<'a>,
    tolerations: Tolerations<'a>,
}

impl<'a> Placement<'a> {
    /// Reads the requirements of a pod from [`new_pod`].
    pub fn of(pod: &'a Pod) -> Self {
        Self { node: node_name(pod), terms: NodeTerms::of(pod), tolerations: Tolerations::of(pod) }
    }

    /// Whether the DaemonSet runs on this node. The resources of the node do not matter: the scheduler checks them.
    pub fn on(&self, node: &NodeFacts) -> Fit {
        if self.node.is_some_and(|name| name != node.name) || !self.terms.accept(node) {
            return Fit::Never;
        }
        let has_untolerated = |effect: &str| {
            node.taints.iter().any(|taint| taint.effect == effect && !self.tolerations.cover(taint))
        };
        match (has_untolerated("NoExecute"), has_untolerated("NoSchedule")) {
            (true, _) => Fit::Never,
            (false, true) => Fit::Stays,
            (false, false) => Fit::Runs,
        }
    }
}

/// The pod of a DaemonSet, without a node. `hash` is the hash of the current revision.
pub fn new_pod(set: &DaemonSet, hash: &str) -> Pod {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let mut pod = pod_from(&template, namespace, controller_reference(set));
    let labels = pod.metadata.labels.get_or_insert_default();
    if let Some(generation) = template_generation(set) {
        labels.insert(LABEL_TEMPLATE_GENERATION.to_owned(), generation.to_string());
    }
    labels.insert(LABEL_REVISION.to_owned(), hash.to_owned());
    add_tolerations(pod.spec.get_or_insert_default());
    pod
}

/// The part of a pod from [`new_pod`] that [`Placement`] reads.
pub fn placement_pod(set: &DaemonSet) -> Pod {
    let template = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let mut part = template.map(required_part).unwrap_or_default();
    add_tolerations(&mut part);
    Pod { spec: Some(part), ..Pod::default() }
}

fn required_part(spec: &PodSpec) -> PodSpec {
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.clone());
    let node_affinity = required.map(|required| NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(required),
        ..NodeAffinity::default()
    });
    PodSpec {
        affinity: node_affinity
            .map(|affinity| Affinity { node_affinity: Some(affinity), ..Affinity::default() }),
        host_network: spec.host_network,
        node_name: spec.node_name.clone(),
        node_selector: spec.node_selector.clone(),
        tolerations: spec.tolerations.clone(),
        ..PodSpec::default()
    }
}

/// The number of changes of the template; `None` without the annotation.
fn template_generation(set: &DaemonSet) -> Option<i64> {
    set.metadata.annotations.as_ref()?.get(ANN_TEMPLATE_GENERATION)?.parse().ok()
}

fn add_tolerations(spec: &mut PodSpec) {
    let has_host_network = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED {
        add_toleration(tolerations, key, effect);
    }
    if has_host_network {
        add_toleration(tolerations, taint::NETWORK_UNAVAILABLE, "NoSchedule");
    }
}

/// Adds a toleration without a time limit. A toleration of the template for the same taint loses its time limit.
fn add_toleration(tolerations: &mut Vec<Toleration>, key: &str, effect: &str) {
    let added = Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    };
    let is_same = |known: &Toleration| {
        let has_value = known.value.as_ref().is_some_and(|value| !value.is_empty());
        known.key == added.key
            && known.operator == added.operator
            && known.effect == added.effect
            && !has_value
    };
    let mut is_known = false;
    for known in tolerations.iter_mut().filter(|known| is_same(known)) {
        *known = added.clone();
        is_known = true;
    }
    if !is_known {
        tolerations.push(added);
    }
}

/// Requires a node by its name, so that the scheduler assigns the pod to this node only. Replaces the required node
/// affinity of the template, which the node matches.
pub fn require_node(pod: &mut Pod, node: &str) {
    let field = NodeSelectorRequirement {
        key: FIELD_NAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![field]) };
    let affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
    affinity.node_affinity.get_or_insert_default().required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
}

/// The node of a pod: the assigned one, or the one that its affinity requires.
pub fn target_node(pod: &Pod) -> Option<&str> {
    if let Some(assigned) = node_name(pod) {
        return Some(assigned);
    }
    let fields = required_node_terms(pod)?.iter().flat_map(|term| term.match_fields.iter().flatten());
    let mut named = fields.filter(|field| field.key == FIELD_NAME && field.operator == "In");
    match named.next()?.values.as_deref() {
        Some([name]) => Some(name),
        Some(_) | None => None,
    }
}

/// The part of a pod from which a DaemonSet decides: that of [`replica`], and the node that the affinity requires.
pub fn daemon_part(pod: &Pod) -> Pod {
    let mut part = replica(pod);
    if let Some(node) = target_node(pod).filter(|_| node_name(pod).is_none()) {
        require_node(&mut part, node);
    }
    part
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn set(template: Value) -> DaemonSet {
        let mut set = json!({"metadata": {"namespace": "ns", "name": "d", "uid": "u",
                "annotations": {ANN_TEMPLATE_GENERATION: "3"}},
            "spec": {"selector": {}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}}});
        crate::testing::merge_into(&mut set["spec"]["template"]["spec"], &template);
        serde_json::from_value(set).unwrap()
    }

    fn node(taints: Value) -> NodeFacts {
        NodeFacts {
            name: "n".to_owned(),
            labels: [("disk".to_owned(), "ssd".to_owned())].into(),
            taints: serde_json::from_value(taints).unwrap(),
            ..NodeFacts::default()
        }
    }

    #[test]
    fn labels_names_and_taints_of_a_node_decide() {
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        let affinity = |operator: &str| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": operator}]}]}}}})
        };
        let tolerates = json!({"tolerations": [{"key": "golden", "operator": "Exists"}]});
        let not_ready = "node.kubernetes.io/not-ready";
        let no_network = "node.kubernetes.io/network-unavailable";
        let table = [
            ("1 ctl-ds-nodes: no requirement", json!({}), json!([]), Fit::Runs),
            (
                "2 ctl-ds-node-selector: the label",
                json!({"nodeSelector": {"disk": "ssd"}}),
                json!([]),
                Fit::Runs,
            ),
            (
                "3 ctl-ds-node-selector: another label",
                json!({"nodeSelector": {"disk": "hdd"}}),
                json!([]),
                Fit::Never,
            ),
            ("4 affinity matches", affinity("Exists"), json!([]), Fit::Runs),
            ("5 affinity does not match", affinity("DoesNotExist"), json!([]), Fit::Never),
            ("6 the named node", json!({"nodeName": "n"}), json!([]), Fit::Runs),
            ("7 another named node", json!({"nodeName": "m"}), json!([]), Fit::Never),
            (
                "8 ctl-ds-unschedulable: cordoned",
                json!({}),
                taint("node.kubernetes.io/unschedulable", "NoSchedule"),
                Fit::Runs,
            ),
            ("9 ctl-ds-unschedulable: NoExecute", json!({}), taint("golden", "NoExecute"), Fit::Never),
            ("10 NoSchedule", json!({}), taint("golden", "NoSchedule"), Fit::Stays),
            ("11 PreferNoSchedule", json!({}), taint("golden", "PreferNoSchedule"), Fit::Runs),
            ("12 tolerated", tolerates, taint("golden", "NoExecute"), Fit::Runs),
            ("13 node not ready yet", json!({}), taint(not_ready, "NoSchedule"), Fit::Stays),
            ("14 node lost", json!({}), taint(not_ready, "NoExecute"), Fit::Runs),
            ("15 no network", json!({}), taint(no_network, "NoSchedule"), Fit::Stays),
            (
                "16 no network, not needed",
                json!({"hostNetwork": true}),
                taint(no_network, "NoSchedule"),
                Fit::Runs,
            ),
        ];
        for (name, template, taints, wanted) in table {
            let node = node(taints);
            for pod in [new_pod(&set(template.clone()), "h"), placement_pod(&set(template))] {
                assert_eq!(Placement::of(&pod).on(&node), wanted, "{name}");
            }
        }
    }

    #[test]
    fn new_pod_has_labels_tolerations_and_the_node() {
        let limited = json!([{"key": "a", "operator": "Exists"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
        let preferred =
            json!([{"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]);
        let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred,
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]}}});
        let mut pod = new_pod(&set(json!({"tolerations": limited, "affinity": affinity})), "h");
        require_node(&mut pod, "n");
        assert_eq!(target_node(&pod), Some("n"));
        assert_eq!(target_node(&daemon_part(&pod)), Some("n"));
        let tolerated = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
        assert_eq!(
            serde_json::to_value(&pod).unwrap(),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"generateName": "d-", "namespace": "ns",
                    "labels": {"app": "x", "controller-revision-hash": "h", "pod-template-generation": "3"},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u",
                        "controller": true, "blockOwnerDeletion": true}]},
                "spec": {"containers": [],
                    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred,
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}}},
                    "tolerations": [{"key": "a", "operator": "Exists"}, tolerated("unreachable", "NoExecute"),
                        tolerated("not-ready", "NoExecute"), tolerated("disk-pressure", "NoSchedule"),
                        tolerated("memory-pressure", "NoSchedule"), tolerated("pid-pressure", "NoSchedule"),
                        tolerated("unschedulable", "NoSchedule")]}})
        );
        pod.spec.as_mut().unwrap().node_name = Some("m".to_owned());
        assert_eq!((target_node(&pod), target_node(&daemon_part(&pod))), (Some("m"), Some("m")));
        assert_eq!(target_node(&Pod::default()), None);
    }
}
