//! The relations between objects and the nodes that need them.
//!
//! Upstream: plugin/pkg/auth/authorizer/node/graph.go. Instead of general edges, the graph has one map for each relation, so that
//! a decision is a few lookups.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::references::{PodReferences, VolumeReferences, pod_references, volume_references};
use super::related_kind::RelatedKind;

/// The kinds of the objects from which the relations follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationSource {
    /// Relates the objects that a pod uses to its node.
    Pod,
    /// Names a node.
    ResourceSlice,
    /// Relates a volume and its secrets to the nodes of its claim.
    Volume,
    /// Names a node.
    VolumeAttachment,
}

/// An object. The namespace of a cluster-scoped one is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ObjectKey {
    kind: RelatedKind,
    namespace: Box<str>,
    name: Box<str>,
}

impl ObjectKey {
    fn new(kind: RelatedKind, namespace: &str, name: &str) -> Self {
        ObjectKey { kind, namespace: namespace.into(), name: name.into() }
    }
}

/// The node of a pod, and the objects that the pod uses.
#[derive(Debug)]
struct Pod {
    node: Arc<str>,
    uses: Vec<Arc<ObjectKey>>,
}

/// The claim and the secrets of a volume.
#[derive(Debug)]
struct Volume {
    claim: ObjectKey,
    secrets: Vec<Arc<ObjectKey>>,
}

/// The relations of all objects of a server. Its size is that of the references in pods and volumes.
#[derive(Debug, Default)]
pub struct NodeGraph {
    pods: HashMap<ObjectKey, Pod>,
    /// The number of pods that use an object, by node.
    users: HashMap<Arc<ObjectKey>, HashMap<Arc<str>, usize>>,
    volumes: HashMap<Box<str>, Volume>,
    /// The names of the volumes that use a secret.
    volumes_of_secret: HashMap<Arc<ObjectKey>, BTreeSet<Box<str>>>,
    /// The node that an object names.
    named_nodes: HashMap<ObjectKey, Box<str>>,
}

impl NodeGraph {
    /// Adds or replaces an object; `None` removes it.
    pub fn set(&mut self, source: RelationSource, namespace: &str, name: &str, object: Option<&Value>) {
        let node = || object.and_then(|object| object["spec"]["nodeName"].as_str());
        match source {
            RelationSource::Pod => self.set_pod(namespace, name, object.and_then(pod_references).as_ref()),
            RelationSource::Volume => self.set_volume(name, object.and_then(volume_references).as_ref()),
            RelationSource::ResourceSlice => self.set_named_node(RelatedKind::ResourceSlice, name, node()),
            RelationSource::VolumeAttachment => {
                self.set_named_node(RelatedKind::VolumeAttachment, name, node());
            }
        }
    }

    fn set_pod(&mut self, namespace: &str, name: &str, references: Option<&PodReferences>) {
        let key = ObjectKey::new(RelatedKind::Pod, namespace, name);
        if let Some(Pod { node, uses }) = self.pods.remove(&key) {
            for used in uses {
                self.remove_user(&used, &node);
            }
        }
        let Some(references) = references else { return };
        let node: Arc<str> = references.node.as_str().into();
        let uses = references.objects.iter();
        let uses = uses.map(|(kind, name)| {
            let namespace = if *kind == RelatedKind::Volume { "" } else { namespace };
            self.add_user(ObjectKey::new(*kind, namespace, name), &node)
        });
        let uses = uses.collect();
        self.pods.insert(key, Pod { node, uses });
    }

    fn add_user(&mut self, used: ObjectKey, node: &Arc<str>) -> Arc<ObjectKey> {
        let key = match self.users.get_key_value(&used) {
            Some((key, _)) => key.clone(),
            None => Arc::new(used),
        };
        *self.users.entry(key.clone()).or_default().entry(node.clone()).or_default() += 1;
        key
    }

    fn remove_user(&mut self, used: &ObjectKey, node: &str) {
        let Some(nodes) = self.users.get_mut(used) else { return };
        if let Some(count) = nodes.get_mut(node) {
            *count -= 1;
            if *count == 0 {
                nodes.remove(node);
            }
        }
        if nodes.is_empty() {
            self.users.remove(used);
        }
    }

    fn set_volume(&mut self, name: &str, references: Option<&VolumeReferences>) {
        if let Some(old) = self.volumes.remove(name) {
            for secret in old.secrets {
                if let Some(volumes) = self.volumes_of_secret.get_mut(&secret) {
                    volumes.remove(name);
                    if volumes.is_empty() {
                        self.volumes_of_secret.remove(&secret);
                    }
                }
            }
        }
        let Some(references) = references else { return };
        let mut secrets = Vec::new();
        for (namespace, secret) in &references.secrets {
            let secret = Arc::new(ObjectKey::new(RelatedKind::Secret, namespace, secret));
            self.volumes_of_secret.entry(secret.clone()).or_default().insert(name.into());
            secrets.push(secret);
        }
        let (namespace, claim) = &references.claim;
        let claim = ObjectKey::new(RelatedKind::Claim, namespace, claim);
        self.volumes.insert(name.into(), Volume { claim, secrets });
    }

    /// Sets the node that an object names; `None` or an empty name removes the object.
    fn set_named_node(&mut self, kind: RelatedKind, name: &str, node: Option<&str>) {
        let key = ObjectKey::new(kind, "", name);
        match node {
            Some(node) if !node.is_empty() => drop(self.named_nodes.insert(key, node.into())),
            Some(_) | None => drop(self.named_nodes.remove(&key)),
        }
    }

    /// Whether a node needs an object. For a secret, this looks at each volume that uses it.
    pub fn is_related(&self, node: &str, kind: RelatedKind, namespace: &str, name: &str) -> bool {
        let key = ObjectKey::new(kind, namespace, name);
        match kind {
            RelatedKind::Pod => self.pods.get(&key).is_some_and(|pod| &*pod.node == node),
            RelatedKind::ResourceSlice | RelatedKind::VolumeAttachment => {
                self.named_nodes.get(&key).is_some_and(|named| &**named == node)
            }
            RelatedKind::Claim
            | RelatedKind::ConfigMap
            | RelatedKind::ResourceClaim
            | RelatedKind::ServiceAccount => self.has_user(&key, node),
            RelatedKind::Volume => {
                namespace.is_empty() && (self.mounts(name, node) || self.has_user(&key, node))
            }
            RelatedKind::Secret => {
                let volumes = self.volumes_of_secret.get(&key).into_iter().flatten();
                self.has_user(&key, node) || volumes.into_iter().any(|volume| self.mounts(volume, node))
            }
        }
    }

    fn has_user(&self, used: &ObjectKey, node: &str) -> bool {
        self.users.get(used).is_some_and(|nodes| nodes.contains_key(node))
    }

    /// Whether a pod on the node uses the claim of a volume.
    fn mounts(&self, volume: &str, node: &str) -> bool {
        self.volumes.get(volume).is_some_and(|volume| self.has_user(&volume.claim, node))
    }

    /// Whether the graph has no relations.
    pub fn is_empty(&self) -> bool {
        let NodeGraph { pods, users, volumes, volumes_of_secret, named_nodes } = self;
        pods.is_empty()
            && users.is_empty()
            && volumes.is_empty()
            && volumes_of_secret.is_empty()
            && named_nodes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set_pod(graph: &mut NodeGraph, name: &str, node: &str, volumes: Value) {
        let spec = json!({"nodeName": node, "serviceAccountName": "a", "volumes": volumes});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        graph.set(RelationSource::Pod, "ns", name, Some(&pod));
    }

    fn set_volume(graph: &mut NodeGraph, name: &str, claim: &str, secret: &str) {
        let volume = json!({"spec": {
            "claimRef": {"namespace": "ns", "name": claim},
            "csi": {"nodeStageSecretRef": {"namespace": "storage", "name": secret}},
        }});
        graph.set(RelationSource::Volume, "", name, Some(&volume));
    }

    fn claim(name: &str) -> Value {
        json!([{"persistentVolumeClaim": {"claimName": name}}])
    }

    /// The nodes that are related to an object.
    fn nodes(graph: &NodeGraph, kind: RelatedKind, namespace: &str, name: &str) -> String {
        let related = ["n1", "n2"].into_iter().filter(|node| graph.is_related(node, kind, namespace, name));
        related.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn node_reads_the_volume_that_its_recycler_pod_empties() {
        let mut graph = NodeGraph::default();
        let mut set = |namespace: &str, name: &str, node: &str, annotations: Value| {
            let pod = json!({"metadata": {"namespace": namespace, "name": name, "annotations": annotations},
                "spec": {"nodeName": node}});
            graph.set(RelationSource::Pod, namespace, name, Some(&pod));
        };
        set("default", "recycler-for-a", "n1", json!({}));
        set("other", "recycler-for-b", "n1", json!({}));
        set("default", "recycler-for-", "n1", json!({}));
        // A node creates mirror pods itself.
        set("default", "recycler-for-c", "n1", json!({"kubernetes.io/config.mirror": "x"}));
        for (name, want) in [("a", "n1"), ("b", ""), ("", ""), ("c", "")] {
            assert_eq!(nodes(&graph, RelatedKind::Volume, "", name), want, "{name}");
        }
        graph.set(RelationSource::Pod, "default", "recycler-for-a", None);
        assert_eq!(nodes(&graph, RelatedKind::Volume, "", "a"), "", "the pod is deleted");
    }

    #[test]
    fn objects_are_related_to_the_nodes_of_their_pods() {
        let mut graph = NodeGraph::default();
        set_pod(&mut graph, "p1", "n1", json!([{"secret": {"secretName": "s"}}]));
        set_pod(&mut graph, "p2", "n2", json!([{"configMap": {"name": "c"}}]));
        for (kind, namespace, name, want) in [
            (RelatedKind::Pod, "ns", "p1", "n1"),
            (RelatedKind::Pod, "ns", "p2", "n2"),
            (RelatedKind::Pod, "other", "p1", ""),
            (RelatedKind::Secret, "ns", "s", "n1"),
            (RelatedKind::Secret, "other", "s", ""),
            (RelatedKind::Secret, "ns", "c", ""),
            (RelatedKind::ConfigMap, "ns", "c", "n2"),
            (RelatedKind::ServiceAccount, "ns", "a", "n1 n2"),
        ] {
            assert_eq!(nodes(&graph, kind, namespace, name), want, "{kind:?} {namespace}/{name}");
        }
    }

    #[test]
    fn volumes_and_their_secrets_are_related_through_the_claim() {
        let mut graph = NodeGraph::default();
        set_volume(&mut graph, "v1", "c1", "s");
        set_volume(&mut graph, "v2", "c2", "s");
        assert_eq!(nodes(&graph, RelatedKind::Volume, "", "v1"), "", "no pod");
        set_pod(&mut graph, "p1", "n1", claim("c1"));
        set_pod(&mut graph, "p2", "n2", claim("c2"));
        for (kind, namespace, name, want) in [
            (RelatedKind::Claim, "ns", "c1", "n1"),
            (RelatedKind::Volume, "", "v1", "n1"),
            (RelatedKind::Volume, "ns", "v1", ""),
            (RelatedKind::Volume, "", "v2", "n2"),
            (RelatedKind::Secret, "storage", "s", "n1 n2"),
            (RelatedKind::Secret, "ns", "s", ""),
        ] {
            assert_eq!(nodes(&graph, kind, namespace, name), want, "{kind:?} {namespace}/{name}");
        }
        set_volume(&mut graph, "v2", "c1", "t");
        assert_eq!(nodes(&graph, RelatedKind::Volume, "", "v2"), "n1", "another claim");
        assert_eq!(nodes(&graph, RelatedKind::Secret, "storage", "s"), "n1", "not through v2");
        assert_eq!(nodes(&graph, RelatedKind::Secret, "storage", "t"), "n1");
    }

    #[test]
    fn attachments_and_slices_name_their_node() {
        for (source, kind) in [
            (RelationSource::VolumeAttachment, RelatedKind::VolumeAttachment),
            (RelationSource::ResourceSlice, RelatedKind::ResourceSlice),
        ] {
            let mut graph = NodeGraph::default();
            for (node, want) in [("n1", "n1"), ("n2", "n2"), ("", "")] {
                graph.set(source, "", "o", Some(&json!({"spec": {"nodeName": node}})));
                assert_eq!(nodes(&graph, kind, "", "o"), want, "{node}");
            }
            assert!(graph.is_empty());
        }
    }

    #[test]
    fn relation_lasts_until_the_last_pod_is_removed() {
        let mut graph = NodeGraph::default();
        let secret = || json!([{"secret": {"secretName": "s"}}]);
        set_pod(&mut graph, "p1", "n1", secret());
        set_pod(&mut graph, "p2", "n1", secret());
        set_pod(&mut graph, "p3", "n2", secret());
        graph.set(RelationSource::Pod, "ns", "p1", None);
        assert_eq!(nodes(&graph, RelatedKind::Secret, "ns", "s"), "n1 n2");
        set_pod(&mut graph, "p2", "n2", secret());
        assert_eq!(nodes(&graph, RelatedKind::Secret, "ns", "s"), "n2", "the pod moved");
        set_pod(&mut graph, "p2", "n2", json!([]));
        set_pod(&mut graph, "p3", "n2", json!([]));
        assert_eq!(nodes(&graph, RelatedKind::Secret, "ns", "s"), "", "no longer used");
    }

    #[test]
    fn removed_objects_leave_nothing_behind() {
        let mut graph = NodeGraph::default();
        for number in 0..100 {
            set_pod(&mut graph, &format!("p{number}"), &format!("n{number}"), claim(&format!("c{number}")));
            set_volume(&mut graph, &format!("v{number}"), &format!("c{number}"), "s");
            let attachment = json!({"spec": {"nodeName": "n1"}});
            graph.set(RelationSource::VolumeAttachment, "", &format!("a{number}"), Some(&attachment));
        }
        for number in 0..100 {
            graph.set(RelationSource::Pod, "ns", &format!("p{number}"), None);
            graph.set(RelationSource::Volume, "", &format!("v{number}"), None);
            graph.set(RelationSource::VolumeAttachment, "", &format!("a{number}"), None);
        }
        assert!(graph.is_empty(), "{graph:?}");
    }
}
