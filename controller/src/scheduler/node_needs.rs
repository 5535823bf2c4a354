//! The requirements of a pod on the node itself: tolerations, node selector and node affinity. Pods with equal requirements share
//! them, so that a changed node is compared once for all of them, without reading the pods.

use std::cmp::Ordering;
use std::io;

use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, Pod, PodSpec};

use super::cluster::NodeFacts;
use super::filter::node_terms::NodeTerms;
use super::filter::taints::{self, Tolerations};
use super::filter::{node_affinity, unschedulable};

/// Maximum length of stored needs. A pod with longer ones may fit any node, and its next decision checks this.
const LONGEST: usize = 2048;

/// The requirements of a pod on the node itself. Compared by content.
#[derive(Debug, Default)]
pub struct NodeNeeds {
    /// Identifies the needs. Empty if anything may fit.
    text: Vec<u8>,
    /// A pod with only these fields.
    pod: Pod,
}

impl NodeNeeds {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let node_affinity = spec.and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
        let required = node_affinity
            .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
        let selector = spec.and_then(|spec| spec.node_selector.as_ref());
        let tolerations = spec.and_then(|spec| spec.tolerations.as_ref());
        let mut text = Bounded(Vec::new());
        if serde_json::to_writer(&mut text, &(selector, tolerations, required)).is_err() {
            return Self::default();
        }
        let affinity = required.map(|required| Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(required.clone()),
                ..NodeAffinity::default()
            }),
            ..Affinity::default()
        });
        let spec = PodSpec {
            node_selector: selector.cloned(),
            tolerations: tolerations.cloned(),
            affinity,
            ..PodSpec::default()
        };
        Self { text: text.0, pod: Pod { spec: Some(spec), ..Pod::default() } }
    }

    /// Whether a new or changed node may be feasible: applies the rules that read only the node.
    pub fn may_suit(&self, node: &NodeFacts) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let tolerations = Tolerations::of(&self.pod);
        unschedulable::check(&tolerations, node).is_ok()
            && taints::check(&tolerations, node).is_ok()
            && node_affinity::check(&NodeTerms::of(&self.pod), node).is_ok()
    }
}

impl PartialEq for NodeNeeds {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for NodeNeeds {}

impl PartialOrd for NodeNeeds {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NodeNeeds {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// Fails when more than [`LONGEST`] bytes are written.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn needs(spec: Value) -> NodeNeeds {
        let mut pod = json!({"metadata": {}, "spec": {"containers": []}});
        crate::testing::merge_into(&mut pod["spec"], &spec);
        NodeNeeds::of(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn only_the_needs_count() {
        let table = [
            ("nothing", json!({}), true),
            ("selector", json!({"nodeSelector": {"zone": "a"}}), true),
            ("another zone", json!({"nodeSelector": {"zone": "b"}}), false),
            (
                "affinity",
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}}}),
                true,
            ),
        ];
        let labels = serde_json::from_value(json!({"zone": "a"})).unwrap();
        let mut node = NodeFacts { labels, ..NodeFacts::default() };
        for (name, spec, wanted) in table {
            assert_eq!(needs(spec).may_suit(&node), wanted, "{name}");
        }
        node.unschedulable = true;
        assert!(!needs(json!({})).may_suit(&node));
        assert!(needs(json!({"tolerations": [{"operator": "Exists"}]})).may_suit(&node));
        assert_eq!(needs(json!({"priority": 1})), needs(json!({"priority": 2})));
        assert_ne!(needs(json!({})), needs(json!({"nodeSelector": {"zone": "b"}})));
    }

    #[test]
    fn long_needs_are_not_kept() {
        let tolerations: Vec<Value> = (0..1000).map(|n| json!({"key": format!("k{n}")})).collect();
        let long = needs(json!({"tolerations": tolerations}));
        assert!(long.text.is_empty() && long.pod == Pod::default());
        assert!(long.may_suit(&NodeFacts { unschedulable: true, ..NodeFacts::default() }));
    }
}
