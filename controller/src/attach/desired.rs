//! The desired state: managed node -> volume -> the pods there that need it. Only this module depends on how the state is
//! indexed; the cost of a change of one pod depends only on the volumes of that pod. Nodes are retained while they exist or have wanted volumes.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use super::volume::{Key, Spec};
use orlop_client::small_set::Few;

/// A pod, as far as events need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodRef {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
}

/// A volume that pods of a node need.
#[derive(Debug)]
pub(super) struct DesiredVolume {
    /// The volume as the first of the pods names it.
    pub(super) spec: Arc<Spec>,
    /// The pods that need it.
    pods: Few<UsingPod>,
    /// The pods have an event that another node has the volume.
    pub(super) refusal_told: bool,
}

impl DesiredVolume {
    /// The pods that need it, in the order in which they were added.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<PodRef>> {
        self.pods.iter().map(|using| &using.pod)
    }
}

/// A pod, ordered and identified by its number.
#[derive(Clone, Debug)]
struct UsingPod {
    number: u64,
    pod: Arc<PodRef>,
}

impl PartialEq for UsingPod {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for UsingPod {}

impl PartialOrd for UsingPod {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UsingPod {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

/// A resolved pod, and the volumes that it needs.
#[derive(Debug)]
struct Taken {
    using: UsingPod,
    node: Arc<str>,
    volumes: Few<Arc<str>>,
}

/// The desired state.
#[derive(Debug, Default)]
pub(super) struct Desired {
    /// Managed nodes that exist.
    managed: HashSet<Arc<str>>,
    /// Nodes with wanted volumes; some may be deleted.
    nodes: HashMap<Arc<str>, HashMap<Arc<str>, DesiredVolume>>,
    by_volume: HashMap<Arc<str>, Few<Arc<str>>>,
    pods: HashMap<Arc<str>, Taken>,
    /// The number of pods that were added so far.
    numbers: u64,
}

impl Desired {
    /// Marks the node as managed. Returns false if it was managed before.
    // Tests: AD-003, AD-004, AD-005
    pub(super) fn manage(&mut self, node: &Arc<str>) -> bool {
        let was = self.is_managed(node);
        self.managed.insert(Arc::clone(node));
        !was
    }

    /// The node was deleted. A node with wanted volumes stays managed until its pods are deleted.
    // Tests: AD-081, AD-082
    pub(super) fn drop_node(&mut self, node: &str) {
        self.managed.remove(node);
    }

    /// Whether volumes of pods on this node are attached here.
    pub(super) fn is_managed(&self, node: &str) -> bool {
        self.managed.contains(node) || self.nodes.contains_key(node)
    }

    /// The UID of the pod with this key, and its volumes.
    pub(super) fn taken(&self, pod: &str) -> Option<(&str, &Few<Arc<str>>)> {
        self.pods.get(pod).map(|taken| (&*taken.using.pod.uid, &taken.volumes))
    }

    /// Adds a volume that a pod needs on its managed node. Returns the key if no other pod of that node needed the volume.
    // Tests: AD-018, AD-021
    pub(super) fn want(
        &mut self,
        key: &Arc<str>,
        pod: &Arc<PodRef>,
        node: &str,
        spec: Arc<Spec>,
    ) -> Option<Key> {
        let known = self.nodes.get_key_value(node).map(|(name, _)| name);
        let node = Arc::clone(known.or_else(|| self.managed.get(node))?);
        let known = self.by_volume.get_key_value(&spec.unique).map(|(name, _)| Arc::clone(name));
        let volume = known.unwrap_or_else(|| Arc::clone(&spec.unique));
        let volumes = self.nodes.entry(Arc::clone(&node)).or_default();
        let is_new = !volumes.contains_key(&volume);
        let wanted = volumes.entry(Arc::clone(&volume)).or_insert_with(|| DesiredVolume {
            spec,
            pods: Few::None,
            refusal_told: false,
        });
        let taken = self.pods.entry(Arc::clone(key)).or_insert_with(|| {
            self.numbers += 1;
            Taken {
                using: UsingPod { number: self.numbers, pod: Arc::clone(pod) },
                node: Arc::clone(&node),
                volumes: Few::None,
            }
        });
        wanted.pods.insert(taken.using.clone());
        taken.volumes.insert(Arc::clone(&volume));
        if !is_new {
            return None;
        }
        self.by_volume.entry(Arc::clone(&volume)).or_default().insert(Arc::clone(&node));
        Some(Key { volume, node })
    }

    /// Removes a pod that needs no volume any more. Returns the volumes that no other pod of its node needs.
    pub(super) fn release_pod(&mut self, pod: &str) -> Vec<Key> {
        let Some(taken) = self.pods.remove(pod) else { return Vec::new() };
        let Taken { using, node, volumes } = taken;
        let keys = volumes.iter().map(|volume| Key { volume: Arc::clone(volume), node: Arc::clone(&node) });
        keys.filter_map(|key| self.unwant(&using, key)).collect()
    }

    /// Removes a volume from the needs of a pod. Returns the key if no other pod of its node needs it.
    pub(super) fn release(&mut self, pod: &str, volume: &str) -> Option<Key> {
        let taken = self.pods.get_mut(pod)?;
        let name = Arc::clone(
            taken.volumes.range(Bound::Included(volume)).next().filter(|name| ***name == *volume)?,
        );
        taken.volumes.remove(volume);
        let key = Key { volume: name, node: Arc::clone(&taken.node) };
        let using = taken.using.clone();
        self.unwant(&using, key)
    }

    fn unwant(&mut self, using: &UsingPod, key: Key) -> Option<Key> {
        let volumes = self.nodes.get_mut(&key.node)?;
        let wanted = volumes.get_mut(&key.volume)?;
        wanted.pods.remove(using);
        if !wanted.pods.is_empty() {
            return None;
        }
        volumes.remove(&key.volume);
        if volumes.is_empty() {
            self.nodes.remove(&key.node);
        }
        if let Some(nodes) = self.by_volume.get_mut(&key.volume) {
            nodes.remove(&key.node);
            if nodes.is_empty() {
                self.by_volume.remove(&key.volume);
            }
        }
        Some(key)
    }

    /// The volume on the node, if it is wanted there.
    pub(super) fn get(&self, key: &Key) -> Option<&DesiredVolume> {
        self.nodes.get(&key.node)?.get(&key.volume)
    }

    /// Like `get`, to record that the pods have an event.
    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut DesiredVolume> {
        self.nodes.get_mut(&key.node)?.get_mut(&key.volume)
    }

    /// The nodes where the volume is wanted.
    pub(super) fn nodes_of(&self, volume: &str) -> impl Iterator<Item = &Arc<str>> {
        self.by_volume.get(volume).into_iter().flatten()
    }

    /// The properties of a volume that is wanted somewhere.
    pub(super) fn spec(&self, volume: &str) -> Option<&Arc<Spec>> {
        let node = self.nodes_of(volume).next()?;
        Some(&self.nodes.get(node)?.get(volume)?.spec)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn node_is_retained_while_it_exists_or_has_wanted_volumes() {
        let volume = serde_json::json!({"metadata": {"name": "pv"},
            "spec": {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}}});
        let spec = Arc::new(Spec::of_volume(&serde_json::from_value(volume).unwrap()).unwrap());
        let pod = Arc::new(PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() });
        let (node, name): (Arc<str>, Arc<str>) = ("n".into(), "ns/p".into());
        let mut desired = Desired::default();
        assert_eq!(desired.want(&name, &pod, "n", Arc::clone(&spec)), None, "not managed");
        assert!(desired.manage(&node) && !desired.manage(&node));
        let key = desired.want(&name, &pod, "n", Arc::clone(&spec)).unwrap();
        assert_eq!(desired.release_pod("ns/p"), std::slice::from_ref(&key));
        assert!(desired.nodes.is_empty() && desired.is_managed("n"), "nothing is wanted, and it is there");

        assert!(desired.want(&name, &pod, "n", Arc::clone(&spec)).is_some());
        desired.drop_node("n");
        assert!(desired.is_managed("n") && desired.get(&key).is_some(), "its pods have to go first");
        assert!(!desired.manage(&node), "it is there again");
        desired.drop_node("n");
        assert_eq!(desired.release("ns/p", &spec.unique), Some(key));
        assert!(!desired.is_managed("n") && desired.nodes.is_empty() && desired.managed.is_empty());
        assert!(desired.by_volume.is_empty());
        assert!(desired.manage(&node), "as any new one");
    }

    #[test]
    fn many_pods_and_volumes_cost_linear_time() {
        let spec = |n: usize| {
            let volume = serde_json::json!({"metadata": {"name": format!("pv{n}")},
                "spec": {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": format!("h{n}")}}});
            Arc::new(Spec::of_volume(&serde_json::from_value(volume).unwrap()).unwrap())
        };
        let pod = |n: usize| {
            let (name, uid) = (format!("p{n}"), format!("u{n}"));
            Arc::new(PodRef { namespace: "ns".into(), name: name.into(), uid: uid.into() })
        };
        let node: Arc<str> = "n".into();
        orlop_apimachinery::thread_time::assert_linear(
            "one volume of many pods, and one pod with many volumes",
            500,
            |count| ((0..count).map(spec).collect::<Vec<_>>(), (0..count).map(pod).collect::<Vec<_>>()),
            |(specs, pods)| {
                let mut desired = Desired::default();
                desired.manage(&node);
                let keys: Vec<Arc<str>> = pods.iter().map(|pod| pod.uid.as_ref().into()).collect();
                for (key, pod) in keys.iter().zip(pods) {
                    desired.want(key, pod, "n", Arc::clone(&specs[0]));
                }
                for spec in specs {
                    desired.want(&keys[0], &pods[0], "n", Arc::clone(spec));
                }
                let uses =
                    desired.get(&Key { volume: Arc::clone(&specs[0].unique), node: Arc::clone(&node) });
                assert!(uses.unwrap().pods().map(|pod| &pod.uid).eq(pods.iter().map(|pod| &pod.uid)));
                for spec in specs.iter().skip(1) {
                    assert!(desired.release(&keys[0], &spec.unique).is_some());
                }
                keys.iter().map(|key| desired.release_pod(key).len()).sum::<usize>()
            },
        );
    }
}
