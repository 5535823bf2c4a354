//! Derives the desired state from pods. A pod is resolved again when it changes, and so are the pods of a changed claim or volume,
//! which an index finds. A pod needs its volumes until it has ended, even if its claim is deleted.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};

use super::controller::Controller;
use super::desired::PodRef;
use super::state::Caches;
use super::volume::{Key, Spec};
use orlop_client::informer::Change;
use orlop_client::pods;
use orlop_volume::csi::handle;

impl Controller {
    /// Adds a pod from the cache.
    pub(super) fn look_at_pod(&self, key: &Arc<str>) {
        let pod = self.caches.pods.get(key);
        // Resolved before the lock is acquired: this reads caches and decodes objects.
        let resolved = pod.as_deref().and_then(|pod| Resolved::of(pod, &self.caches));
        let mut state = self.state();
        let other = state.desired.taken(key).is_some_and(|(uid, _)| {
            pod.as_deref().and_then(|pod| pod.metadata.uid.as_deref()).unwrap_or_default() != uid
        });
        let mut changed = Vec::new();
        if pod.is_none() || other {
            changed.extend(state.desired.release_pod(key));
        }
        match resolved {
            None => {}
            Some(resolved) if !state.desired.is_managed(&resolved.node) => {}
            // Tests: AD-029, AD-030, AD-031, AD-035
            Some(resolved) if resolved.over => changed.extend(state.desired.release_pod(key)),
            // Tests: NEW-AD-CLAIM-GONE
            Some(resolved) => {
                let taken = state.desired.taken(key).map(|(_, volumes)| volumes.clone()).unwrap_or_default();
                // Tests: AD-100
                for volume in taken.iter().filter(|volume| !self.caches.is_attachable(volume)) {
                    changed.extend(state.desired.release(key, volume));
                }
                for spec in resolved.volumes {
                    let spec = Arc::new(spec);
                    state.actual.learn(&spec);
                    if let Some(key) = state.desired.want(key, &resolved.pod, &resolved.node, spec) {
                        state.track(&key);
                        changed.push(key);
                    }
                }
            }
        }
        let others: Vec<Key> = changed.iter().flat_map(|key| state.others(key)).collect();
        drop(state);
        // Keys that may release a volume precede keys that wait for it.
        changed.into_iter().chain(others).for_each(|key| self.keys.add(key));
    }

    /// The pods that a changed claim may concern.
    // Tests: NEW-AD-LATE-CLAIM
    pub(super) fn on_claim(&self, change: &Change<PersistentVolumeClaim>) {
        if self.state().started && change.new.as_deref().is_some_and(is_bound) {
            self.look_at_pods_of(change.key());
        }
    }

    /// The pods that a changed volume may concern, and its own annotation.
    pub(super) fn on_volume(&self, change: &Change<PersistentVolume>) {
        let Some(volume) = change.new.as_deref() else { return };
        if !self.state().started {
            return;
        }
        let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        if let Some((namespace, name)) = claim.and_then(|c| Some((c.namespace.as_ref()?, c.name.as_ref()?))) {
            self.look_at_pods_of(&format!("{namespace}/{name}"));
        }
        if let Some(spec) = Spec::of_volume(volume) {
            let state = self.state();
            let nodes = state.actual.nodes_of(&spec.unique).map(|(node, _)| node);
            let keys = nodes.map(|node| Key { volume: Arc::clone(&spec.unique), node: Arc::clone(node) });
            keys.filter(|key| state.desired.get(key).is_none()).for_each(|key| self.keys.add(key));
        }
    }

    fn look_at_pods_of(&self, claim: &str) {
        for pod in self.caches.pods.indexed_keys(pods::INDEX_CLAIM, claim, "") {
            self.pods.add(pod);
        }
    }

    /// Queues a changed pod if it has a node and volumes that could be attached.
    pub(super) fn on_pod(&self, change: &Change<Pod>) {
        let matters = match change.new.as_deref() {
            None => true,
            Some(pod) => {
                change.replaced() || pods::node_name(pod).is_some() && volumes(pod).iter().any(may_matter)
            }
        };
        if matters {
            self.pods.add(Arc::clone(change.key()));
        }
    }
}

impl Caches {
    /// Whether the volume of this unique name is still one that is attached.
    fn is_attachable(&self, unique: &str) -> bool {
        handle::of_unique_name(unique).is_none_or(|(driver, _)| self.attaches(driver))
    }
}

/// A pod on a node, and its attachable volumes.
struct Resolved {
    pod: Arc<PodRef>,
    node: Arc<str>,
    over: bool,
    volumes: Vec<Spec>,
}

impl Resolved {
    /// None for a pod without a node.
    // Tests: AD-002
    fn of(pod: &Pod, caches: &Caches) -> Option<Self> {
        let node = pods::node_name(pod)?.into();
        let meta = &pod.metadata;
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let over = pods::is_terminated(pod);
        let volumes = match over {
            true => Vec::new(),
            false => volumes(pod).iter().filter_map(|volume| resolve(pod, volume, caches)).collect(),
        };
        let pod = PodRef { namespace: text(&meta.namespace), name: text(&meta.name), uid: text(&meta.uid) };
        Some(Self { pod: Arc::new(pod), node, over, volumes })
    }
}

fn volumes(pod: &Pod) -> &[Volume] {
    pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default()
}

/// A volume that may be attachable.
fn may_matter(volume: &Volume) -> bool {
    volume.empty_dir.is_none()
        && volume.config_map.is_none()
        && volume.secret.is_none()
        && volume.projected.is_none()
        && volume.host_path.is_none()
        && volume.downward_api.is_none()
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// The attachable part of a pod's volume. `None` unless claim and volume both refer to each other.
// Tests: AD-010, AD-011, AD-012, AD-015
fn resolve(pod: &Pod, volume: &Volume, caches: &Caches) -> Option<Spec> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => source.claim_name.clone(),
        (None, Some(_)) => pods::ephemeral_claim_name(pod, &volume.name),
        (None, None) => return Spec::of_inline(volume, namespace).filter(|spec| attaches(spec, caches)),
    };
    let claim = caches.claims.get(&format!("{namespace}/{name}"))?;
    if volume.ephemeral.is_some() && !pods::owns_claim(pod, &claim) || !is_bound(&claim) {
        return None;
    }
    let volume = claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())?;
    let volume = caches.volumes.get(volume)?;
    let owner = volume.spec.as_ref()?.claim_ref.as_ref()?;
    if owner.uid != claim.metadata.uid || owner.uid.is_none() {
        return None;
    }
    Spec::of_volume(&volume).filter(|spec| attaches(spec, caches))
}

fn attaches(spec: &Spec, caches: &Caches) -> bool {
    spec.driver().is_none_or(|driver| caches.attaches(driver))
}
