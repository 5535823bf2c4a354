//! Volumes by what a search asks for: class, mode, volume attributes class, access-mode set, size. A match is a look-up,
//! not a scan: its cost grows with the logarithm of the number of volumes (and with the number of volumes that fit in
//! everything but the labels of a selector).
//!
//! The result is upstream's, oddities included:
//!
//! * Volumes are grouped by access-mode set; sets with fewer modes come first, and the first group with a result wins.
//!   So a big volume with exactly the wanted modes beats a small one with more, and a volume reserved for the claim
//!   loses to a free one with fewer modes.
//! * Inside a group a volume that points to the claim is taken before all others, whatever its class, labels and phase.
//! * Of the rest the smallest wins. Where upstream leaves the order open (groups with equally many modes, equal sizes)
//!   the choice here is fixed: reserved first, then smallest, then by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use orlop_apimachinery::quantity::Quantity;

use super::affinity::accepts_node;
use super::class;
use super::fit::{self, Wanted};
use super::modes::ModeSet;
use super::object::{self, VolumeMode, VolumePhase};

/// What volumes of one shelf share: a claim looks on exactly one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shelf {
    class: String,
    mode: VolumeMode,
    attributes_class: String,
}

/// The volumes of one shelf: by access-mode set, then by size, then by name.
type Groups = BTreeMap<ModeSet, BTreeSet<(Quantity, String)>>;

/// Volumes by name, by the claim they point to, and free ones by what they offer.
#[derive(Debug, Default)]
pub struct VolumeIndex {
    by_name: HashMap<String, Arc<PersistentVolume>>,
    /// `namespace/name` of a claim to the volumes that point there, with any UID.
    pointing: HashMap<String, BTreeSet<String>>,
    /// Free volumes: Available, pointing to nobody, not being deleted.
    free: HashMap<Shelf, Groups>,
}

/// What a search looks for, read once from the claim.
struct Search {
    size: Quantity,
    modes: ModeSet,
    shelf: Shelf,
    labels: Wanted,
}

impl Search {
    /// Nothing when no volume can ever fit: an unreadable size, or an access mode that does not exist.
    fn new(claim: &PersistentVolumeClaim) -> Option<Self> {
        Some(Self {
            size: fit::request(claim)?,
            modes: ModeSet::requested(fit::requested_modes(claim))?,
            shelf: Shelf {
                class: class::claim_class(claim).to_owned(),
                mode: VolumeMode::of_claim(claim),
                attributes_class: class::claim_attributes_class(claim).to_owned(),
            },
            labels: Wanted::of(claim),
        })
    }
}

/// Where a volume is free to be found, if it is.
fn place(volume: &PersistentVolume) -> Option<(Shelf, ModeSet, Quantity)> {
    if object::claim_ref(volume).is_some()
        || object::is_terminating(&volume.metadata)
        || VolumePhase::of(volume) != VolumePhase::Available
    {
        return None;
    }
    let shelf = Shelf {
        class: class::volume_class(volume).to_owned(),
        mode: VolumeMode::of_volume(volume),
        attributes_class: class::volume_attributes_class(volume).to_owned(),
    };
    Some((shelf, ModeSet::offered(fit::offered_modes(volume)), fit::capacity(volume)?))
}

impl VolumeIndex {
    /// Puts a volume in, in place of the one with its name. Returns the one that was there.
    pub fn insert(&mut self, volume: Arc<PersistentVolume>) -> Option<Arc<PersistentVolume>> {
        let name = object::name(&volume.metadata).to_owned();
        let old = self.remove(&name);
        if let Some(reference) = object::claim_ref(&volume) {
            self.pointing.entry(object::reference_key(reference)).or_default().insert(name.clone());
        }
        if let Some((shelf, modes, size)) = place(&volume) {
            let groups = self.free.entry(shelf).or_default();
            groups.entry(modes).or_default().insert((size, name.clone()));
        }
        self.by_name.insert(name, volume);
        old
    }

    /// Puts another copy of the same version in. Returns the one that was there.
    pub fn swap(&mut self, volume: Arc<PersistentVolume>) -> Option<Arc<PersistentVolume>> {
        let slot = self.by_name.get_mut(object::name(&volume.metadata))?;
        Some(std::mem::replace(slot, volume))
    }

    /// Takes a volume out.
    pub fn remove(&mut self, name: &str) -> Option<Arc<PersistentVolume>> {
        let old = self.by_name.remove(name)?;
        if let Some(reference) = object::claim_ref(&old) {
            let key = object::reference_key(reference);
            if let Some(names) = self.pointing.get_mut(&key) {
                names.remove(name);
                if names.is_empty() {
                    self.pointing.remove(&key);
                }
            }
        }
        if let Some((shelf, modes, size)) = place(&old)
            && let Some(groups) = self.free.get_mut(&shelf)
        {
            if let Some(group) = groups.get_mut(&modes) {
                group.remove(&(size, name.to_owned()));
                if group.is_empty() {
                    groups.remove(&modes);
                }
            }
            if groups.is_empty() {
                self.free.remove(&shelf);
            }
        }
        Some(old)
    }

    /// The volume of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.by_name.get(name)
    }

    /// All volumes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.by_name.values()
    }

    /// The volumes that point to a claim of this `namespace/name`, with whatever UID, by name.
    pub fn pointing_to(&self, claim_key: &str) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.pointing.get(claim_key).into_iter().flatten().filter_map(|name| self.by_name.get(name))
    }

    /// The volume to bind to a claim. `delayed`: the claim's class waits for a pod, so only a volume that already
    /// points to the claim will do.
    // Tests: IDX-MATCH-1, IDX-MATCH-3, IDX-MATCH-4, IDX-MATCH-6, IDX-MATCH-7, IDX-MATCH-11, IDX-MATCH-12, IDX-BOUND
    // Tests: IDX-MODES-1, IDX-MODES-3, IDX-MODES-7, OWN-AM-1, OWN-RES-7, OWN-FIT-1, OWN-SEL-1, OWN-SEL-2, OWN-SEL-5
    // Tests: IDX-RES-1, IDX-RES-3, IDX-RES-4, IDX-RES-5, OWN-NS-1, OWN-COMPETE-2
    pub fn find(&self, claim: &PersistentVolumeClaim, delayed: bool) -> Option<&Arc<PersistentVolume>> {
        self.find_among(claim, delayed, |_| true)
    }

    /// The same among the volumes that may be taken.
    pub fn find_among(
        &self,
        claim: &PersistentVolumeClaim,
        delayed: bool,
        may_take: impl Fn(&PersistentVolume) -> bool,
    ) -> Option<&Arc<PersistentVolume>> {
        let search = Search::new(claim)?;
        let reserved = self.reserved(claim);
        (0..=4).find_map(|count| {
            let ours = |volume: &&Arc<PersistentVolume>| {
                let offered = ModeSet::offered(fit::offered_modes(volume));
                offered.len() == count && offered.contains(search.modes) && may_take(volume)
            };
            if let Some(volume) = reserved.iter().copied().find(ours) {
                return Some(volume);
            }
            if delayed {
                return None;
            }
            self.smallest_free(&search, ModeSet::supersets(search.modes, count), &may_take)
        })
    }

    /// The volume to use for a claim on a node with these labels: the scheduler's question. `excluded` were already
    /// chosen for other claims of the same pod. A volume that points to the claim and does not accept the node means
    /// that no volume will do: the claim is tied to it.
    // Tests: FN-NODE-1, FN-NODE-2, FN-NODE-6, FN-NODE-7, FN-NODE-9, FN-NODE-10, FN-NODE-11, FN-NODE-12
    // Tests: NEW-NODE-EXCLUDED, NEW-NODE-PENDING
    pub fn find_for_node(
        &self,
        claim: &PersistentVolumeClaim,
        node_labels: &BTreeMap<String, String>,
        excluded: &BTreeSet<String>,
    ) -> Option<&Arc<PersistentVolume>> {
        let search = Search::new(claim)?;
        let may_take = |volume: &PersistentVolume| !excluded.contains(object::name(&volume.metadata));
        if let Some(volume) = self.reserved(claim).into_iter().find(|volume| may_take(volume)) {
            return accepts_node(volume, node_labels).then_some(volume);
        }
        let sets = (0..=4).flat_map(|count| ModeSet::supersets(search.modes, count));
        self.smallest_free(&search, sets, |volume| may_take(volume) && accepts_node(volume, node_labels))
    }

    /// Volumes that point to the claim and that it can use: size, mode, volume attributes class, not being deleted.
    fn reserved(&self, claim: &PersistentVolumeClaim) -> Vec<&Arc<PersistentVolume>> {
        let key = object::claim_key(claim);
        let pointing = self.pointing_to(&key);
        let usable = |volume: &&Arc<PersistentVolume>| {
            object::points_to(volume, claim)
                && fit::too_small(volume, claim).is_none()
                && fit::mode_differs(volume, claim).is_none()
                && fit::attributes_class_differs(volume, claim).is_none()
                && fit::terminating(volume).is_none()
        };
        pointing.filter(usable).collect()
    }

    fn smallest_free(
        &self,
        search: &Search,
        sets: impl Iterator<Item = ModeSet>,
        may_take: impl Fn(&PersistentVolume) -> bool,
    ) -> Option<&Arc<PersistentVolume>> {
        let groups = self.free.get(&search.shelf)?;
        let from = (search.size.clone(), String::new());
        sets.filter_map(|set| {
            let (size, name) = groups.get(&set)?.range(&from..).find(|(_, name)| {
                self.by_name.get(name).is_some_and(|volume| search.labels.matches(volume) && may_take(volume))
            })?;
            Some((size, name))
        })
        .min()
        .and_then(|(_, name)| self.by_name.get(name))
    }
}
