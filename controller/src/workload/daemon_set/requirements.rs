//! The requirements of all DaemonSets for nodes. Each DaemonSet is read once per change and not once per changed node.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use orlop_client::informer::{Change, Informer};
use orlop_volume::affinity::required_node_terms;
use parking_lot::RwLock;

use super::placement::{Fit, Placement, placement_pod};
use crate::scheduler::cluster::NodeFacts;

/// DaemonSets with more requirements are read again for each node: decoded, long lists need many times the memory of the store.
const STORED: usize = 500;

/// The requirements of one DaemonSet.
#[derive(Debug)]
pub struct Requirements {
    pod: Pod,
    /// The number of pods on unsuitable nodes in its status.
    pub misscheduled: i32,
}

impl Requirements {
    fn of(set: &DaemonSet) -> Self {
        let misscheduled = set.status.as_ref().map_or(0, |status| status.number_misscheduled);
        Self { pod: placement_pod(set), misscheduled }
    }

    /// Whether the DaemonSet runs on this node.
    pub fn on(&self, node: &NodeFacts) -> Fit {
        Placement::of(&self.pod).on(node)
    }

    /// The number of requirements and of their values.
    fn count(&self) -> usize {
        let spec = self.pod.spec.as_ref();
        let tolerations = spec.and_then(|spec| spec.tolerations.as_ref()).map_or(0, Vec::len);
        let labels = spec.and_then(|spec| spec.node_selector.as_ref()).map_or(0, BTreeMap::len);
        let terms = required_node_terms(&self.pod).unwrap_or_default().iter().map(|term| {
            let wanted = term.match_expressions.iter().chain(&term.match_fields).flatten();
            1 + wanted.map(|wanted| 1 + wanted.values.as_ref().map_or(0, Vec::len)).sum::<usize>()
        });
        tolerations + labels + terms.sum::<usize>()
    }
}

/// The requirements by the key of the DaemonSet; `None` if they are too long to be stored.
#[derive(Debug, Default)]
pub struct RequirementTable(RwLock<BTreeMap<Arc<str>, Option<Arc<Requirements>>>>);

impl RequirementTable {
    /// Records a change of a DaemonSet.
    pub fn apply(&self, change: &Change<DaemonSet>) {
        self.put(change.key(), change.new.as_deref());
    }

    fn put(&self, key: &Arc<str>, set: Option<&DaemonSet>) {
        let Some(set) = set else {
            self.0.write().remove(key);
            return;
        };
        let found = Requirements::of(set);
        let stored = (found.count() <= STORED).then(|| Arc::new(found));
        self.0.write().insert(Arc::clone(key), stored);
    }

    /// The DaemonSets by key. Those with long requirements are decoded when the iterator reaches them.
    pub fn all(
        &self,
        sets: &Informer<DaemonSet>,
    ) -> impl Iterator<Item = (Arc<str>, Arc<Requirements>)> + use<> {
        let all: Vec<_> = self.0.read().iter().map(|(key, found)| (Arc::clone(key), found.clone())).collect();
        let sets = sets.clone();
        all.into_iter().filter_map(move |(key, stored)| {
            let found = stored.or_else(|| sets.get(&key).map(|set| Arc::new(Requirements::of(&set))))?;
            Some((key, found))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use orlop_apimachinery::thread_time::assert_linear;
    use serde_json::json;

    use super::*;

    fn set(name: &str, values: usize) -> DaemonSet {
        let values: Vec<String> = (0..values).map(|value| value.to_string()).collect();
        let terms = json!([{"matchExpressions": [{"key": "rack", "operator": "In", "values": values}]}]);
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}, "spec": {"selector": {},
            "template": {"spec": {"affinity": affinity, "containers": []}}}, "status": {"currentNumberScheduled": 0,
            "numberMisscheduled": 2, "desiredNumberScheduled": 0, "numberReady": 0}}))
        .unwrap()
    }

    #[test]
    fn cost_of_a_changed_node_is_linear_in_the_sets() {
        let input = |count: usize| {
            let (informer, table) = (Informer::new(), RequirementTable::default());
            for number in 0..count {
                let key = format!("ns/{number}").as_str().into();
                table.put(&key, Some(&set(&number.to_string(), 3)));
            }
            (informer, table)
        };
        let node = NodeFacts { labels: [("rack".to_owned(), "2".to_owned())].into(), ..NodeFacts::default() };
        let before = orlop_client::packed_object::GETS.get();
        assert_linear("DaemonSets", 200, input, |(informer, table)| {
            table.all(informer).filter(|(_, found)| found.on(&node) == Fit::Runs).count()
        });
        assert_eq!(orlop_client::packed_object::GETS.get(), before, "no DaemonSet is decoded");
    }

    #[test]
    fn only_short_requirements_are_stored_and_all_are_found() {
        let (informer, table) = (Informer::new(), RequirementTable::default());
        for set in [set("a", 3), set("b", 2 * STORED)] {
            let key = format!("ns/{}", set.metadata.name.as_deref().unwrap()).as_str().into();
            table.put(&key, Some(&set));
            informer.apply(set);
        }
        let before = orlop_client::packed_object::GETS.get();
        let node = |rack: &str| NodeFacts {
            labels: [("rack".to_owned(), rack.to_owned())].into(),
            ..NodeFacts::default()
        };
        let fits = |rack: &str| -> Vec<_> {
            let all = table.all(&informer);
            all.map(|(key, found)| (key.to_string(), found.on(&node(rack)), found.misscheduled)).collect()
        };
        assert_eq!(fits("2"), [("ns/a".to_owned(), Fit::Runs, 2), ("ns/b".to_owned(), Fit::Runs, 2)]);
        assert_eq!(fits("7"), [("ns/a".to_owned(), Fit::Never, 2), ("ns/b".to_owned(), Fit::Runs, 2)]);
        assert_eq!(orlop_client::packed_object::GETS.get() - before, 2, "only b is decoded");
        table.put(&"ns/a".into(), None);
        assert_eq!(fits("2").len(), 1);
    }
}
