//! The desired state: the pods, and what is known about each of their volumes. A volume that a pod has once
//! requested stays requested until the pod is released, even if its claim can no longer be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use tokio::time::Instant;

use super::Uid;
use super::actual_state::OperationFailure;
use super::populator::{ResolvedVolume, VolumeUses, claim_keys, used_volumes};
use crate::plugin::{Place, VolumeCapabilities};
use crate::volume::VolumeSpec;

/// A volume of a pod.
#[derive(Clone)]
pub(super) enum DesiredVolume {
    /// Not resolved yet.
    New,
    /// The lookup failed with this message.
    Failed(String),
    /// Resolved.
    Known(Arc<ResolvedVolume>),
}

/// A pod.
pub(super) struct DesiredPod {
    pub(super) pod: Arc<Pod>,
    /// The order of arrival; earlier pods have smaller numbers.
    pub(super) order: u64,
    /// Incremented when a part of the pod changes that volumes may show.
    pub(super) version: u64,
    /// The volumes that a container uses, by name in the pod.
    pub(super) volumes: BTreeMap<String, DesiredVolume>,
    /// The names of its resolved volumes in the pod, by unique name.
    by_unique: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// The keys of its watched claims.
    pub(super) claims: Vec<String>,
    /// A lookup of its volumes is in progress.
    pub(super) resolving: bool,
    /// Its volumes must be looked up, for the first time or again.
    pub(super) due: bool,
    /// The failure of the last lookup.
    pub(super) failure: Option<OperationFailure>,
}

impl DesiredPod {
    /// Whether all its volumes are resolved.
    pub(super) fn is_known(&self) -> bool {
        self.volumes.values().all(|wish| matches!(wish, DesiredVolume::Known(_)))
    }

    /// Its resolved volumes, with their names in the pod.
    pub(super) fn known(&self) -> impl Iterator<Item = (&String, &Arc<ResolvedVolume>)> {
        self.volumes.iter().filter_map(|(name, wish)| match wish {
            DesiredVolume::Known(wanted) => Some((name, wanted)),
            DesiredVolume::New | DesiredVolume::Failed(_) => None,
        })
    }

    /// A volume by its unique name. If the pod uses a claim under two names, the writable one wins.
    pub(super) fn volume(&self, unique: &str) -> Option<&Arc<ResolvedVolume>> {
        let wishes = self.by_unique.get(unique)?.iter().filter_map(|name| self.volumes.get(name));
        let all = wishes.filter_map(|wish| match wish {
            DesiredVolume::Known(wanted) => Some(wanted),
            DesiredVolume::New | DesiredVolume::Failed(_) => None,
        });
        all.min_by_key(|wanted| wanted.spec.read_only)
    }
}

/// All pods.
#[derive(Default)]
pub(super) struct DesiredState {
    pods: BTreeMap<Uid, DesiredPod>,
    /// The pods that request a volume, by its unique name.
    by_unique: BTreeMap<Arc<str>, BTreeSet<Uid>>,
    next: u64,
}

impl DesiredState {
    /// Adds or updates a pod. Returns false when no relevant part of it has changed.
    pub(super) fn want(&mut self, uid: &Uid, pod: Arc<Pod>) -> bool {
        let uses = VolumeUses::of(&pod);
        let names: Vec<String> =
            used_volumes(&pod, &uses).into_iter().map(|volume| volume.name.clone()).collect();
        let claims = claim_keys(&pod);
        let Some(known) = self.pods.get_mut(uid) else {
            self.next += 1;
            let wanted = DesiredPod {
                volumes: names.into_iter().map(|name| (name, DesiredVolume::New)).collect(),
                by_unique: BTreeMap::new(),
                order: self.next,
                version: 1,
                pod,
                claims,
                resolving: false,
                due: true,
                failure: None,
            };
            self.pods.insert(uid.clone(), wanted);
            return true;
        };
        let same = shows_the_same(&known.pod, &pod);
        known.pod = pod;
        if same {
            return false;
        }
        known.version += 1;
        known.claims = claims;
        for name in names {
            if let std::collections::btree_map::Entry::Vacant(new) = known.volumes.entry(name) {
                new.insert(DesiredVolume::New);
                known.due = true;
                known.failure = None;
            }
        }
        true
    }

    /// Removes a pod.
    pub(super) fn release(&mut self, uid: &str) -> Option<DesiredPod> {
        let pod = self.pods.remove(uid)?;
        for unique in pod.by_unique.keys() {
            let Some(uids) = self.by_unique.get_mut(unique) else { continue };
            uids.remove(uid);
            if uids.is_empty() {
                self.by_unique.remove(unique);
            }
        }
        Some(pod)
    }

    pub(super) fn get(&self, uid: &str) -> Option<&DesiredPod> {
        self.pods.get(uid)
    }

    pub(super) fn get_mut(&mut self, uid: &str) -> Option<&mut DesiredPod> {
        self.pods.get_mut(uid)
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = (&Uid, &DesiredPod)> {
        self.pods.iter()
    }

    /// The pods that request a volume.
    pub(super) fn of_volume(
        &self,
        unique: &str,
    ) -> impl Iterator<Item = (&Uid, &DesiredPod, &Arc<ResolvedVolume>)> {
        let uids = self.by_unique.get(unique).into_iter().flatten();
        uids.filter_map(move |uid| {
            let (uid, pod) = self.pods.get_key_value(uid)?;
            Some((uid, pod, pod.volume(unique)?))
        })
    }

    /// The pods that use a claim.
    pub(super) fn of_claim(&self, key: &str) -> Vec<Uid> {
        let having = self.pods.iter().filter(|(_, pod)| pod.claims.iter().any(|claim| claim == key));
        having.map(|(uid, _)| uid.clone()).collect()
    }

    /// Whether a mount must stay: its pod requests it, or has unresolved volumes.
    pub(super) fn keeps(&self, place: &Place) -> bool {
        self.pods
            .get(place.uid.as_str())
            .is_some_and(|pod| !pod.is_known() || pod.known().any(|(_, wanted)| wanted.place == *place))
    }

    /// Stores the result of a lookup. The previous result stays when the lookup fails or finds another volume.
    pub(super) fn resolved(
        &mut self,
        uid: &str,
        name: &str,
        found: Result<ResolvedVolume, String>,
    ) -> Option<Arc<str>> {
        let (uid, _) = self.pods.get_key_value(uid)?;
        let uid = Arc::clone(uid);
        let pod = self.pods.get_mut(&uid)?;
        let wish = pod.volumes.get_mut(name)?;
        match (&*wish, found) {
            (DesiredVolume::Known(_), Err(why)) => {
                tracing::debug!(pod = &*uid, volume = name, why, "a mounted volume cannot be looked up");
                None
            }
            (DesiredVolume::New | DesiredVolume::Failed(_), Err(why)) => {
                *wish = DesiredVolume::Failed(why);
                None
            }
            (DesiredVolume::Known(old), Ok(new)) if old.unique != new.unique || old.place != new.place => {
                tracing::warn!(
                    pod = &*uid,
                    volume = name,
                    old = &*old.unique,
                    new = &*new.unique,
                    "a volume changed its name; the old one stays"
                );
                None
            }
            (DesiredVolume::New | DesiredVolume::Failed(_) | DesiredVolume::Known(_), Ok(new)) => {
                let unique = Arc::clone(&new.unique);
                *wish = DesiredVolume::Known(Arc::new(new));
                // The unique name of a resolved volume never changes.
                pod.by_unique.entry(Arc::clone(&unique)).or_default().insert(name.to_owned());
                self.by_unique.entry(Arc::clone(&unique)).or_default().insert(uid);
                Some(unique)
            }
        }
    }

    /// Stores a newer version of a claim that was read or written after the lookup.
    pub(super) fn refreshed(&mut self, unique: &str, claim: &Arc<PersistentVolumeClaim>) {
        self.update(unique, |wanted| {
            let mut spec = VolumeSpec::clone(&wanted.spec);
            spec.claim = Some(Arc::clone(claim));
            *wanted = Arc::new(ResolvedVolume { spec: Arc::new(spec), ..ResolvedVolume::clone(wanted) });
        });
    }

    /// Recomputes the capabilities of a volume. Returns true if they have changed.
    pub(super) fn review(
        &mut self,
        unique: &str,
        abilities: impl Fn(&ResolvedVolume) -> VolumeCapabilities,
    ) -> bool {
        let mut changed = false;
        self.update(unique, |wanted| {
            let now = abilities(wanted);
            if now != wanted.abilities {
                *wanted = Arc::new(ResolvedVolume { abilities: now, ..ResolvedVolume::clone(wanted) });
                changed = true;
            }
        });
        changed
    }

    /// Updates a volume in each pod that requests it. The unique name must stay.
    fn update(&mut self, unique: &str, mut change: impl FnMut(&mut Arc<ResolvedVolume>)) {
        for uid in self.by_unique.get(unique).into_iter().flatten() {
            let Some(DesiredPod { volumes, by_unique, .. }) = self.pods.get_mut(uid) else { continue };
            for name in by_unique.get(unique).into_iter().flatten() {
                match volumes.get_mut(name) {
                    Some(DesiredVolume::Known(wanted)) => change(wanted),
                    Some(DesiredVolume::New | DesiredVolume::Failed(_)) | None => {}
                }
            }
        }
    }

    /// Starts the lookup of a pod's volumes if it is due; returns the pod.
    pub(super) fn begin_lookup(&mut self, uid: &str, now: Instant) -> Option<Arc<Pod>> {
        let pod = self.pods.get_mut(uid)?;
        if pod.resolving || !pod.due || pod.failure.as_ref().is_some_and(|failure| failure.until > now) {
            return None;
        }
        (pod.resolving, pod.due) = (true, false);
        Some(Arc::clone(&pod.pod))
    }
}

/// Whether nothing has changed that a volume could show or a container could use.
fn shows_the_same(old: &Pod, new: &Pod) -> bool {
    let (a, b) = (&old.metadata, &new.metadata);
    a.labels == b.labels && a.annotations == b.annotations && old.spec == new.spec
}
