//! An index of volumes by the properties that a search uses: class, mode, volume attributes class, access-mode
//! set, size. A match is a lookup, not a scan: its cost grows with the logarithm of the number of volumes (and
//! with the number of volumes that fit in everything but the labels of a selector).
//!
//! The result is upstream's, oddities included:
//!
//! * Volumes are grouped by access-mode set; sets with fewer modes come first, and the first group with a result
//!   wins. So a big volume with exactly the requested modes beats a small one with more, and a volume reserved
//!   for the claim loses to a free one with fewer modes.
//! * Inside a group, a volume that refers to the claim precedes all others, regardless of its class, labels and
//!   phase.
//! * Of the rest the smallest wins. Where upstream leaves the order open (groups with equally many modes, equal
//!   sizes) the order here is fixed: reserved first, then smallest, then by name.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use orlop_apimachinery::quantity::Quantity;

mod affinities;
mod node;

use self::affinities::{Affinities, RequiredNodes};
pub use node::{NodeChoices, NodeSearch};

use super::resync_skip::SyncOutcome;
use orlop_client::packed_object::PackedObject;
use orlop_client::small_set::Few;
use orlop_volume::affinity::{self, Reach};
use orlop_volume::class;
use orlop_volume::fit::{self, RequiredLabels};
use orlop_volume::modes::ModeSet;
use orlop_volume::object::{self, VolumeMode, VolumePhase};

/// The properties that the volumes of one shelf share. A claim matches exactly one shelf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shelf {
    class: String,
    mode: VolumeMode,
    attributes_class: String,
}

/// The volumes of one shelf: by access-mode set, then by size, then by name.
type Groups = BTreeMap<ModeSet, BTreeMap<Quantity, Few<Arc<str>>>>;

/// The place of a volume in the order of a group.
type Position<'a> = (&'a Quantity, &'a Arc<str>);

/// Volumes by name and by the claim they refer to, and free volumes by shelf.
#[derive(Debug, Default)]
pub struct VolumeIndex {
    by_name: HashMap<Arc<str>, Stored>,
    /// `namespace/name` of a claim to the volumes that refer to it, with any UID.
    pointing: HashMap<Box<str>, Few<Arc<str>>>,
    /// Free volumes: Available, without claim reference, not being deleted.
    free: HashMap<Shelf, Free>,
    /// Whether volumes that require a node label are indexed by it, see [`VolumeIndex::for_nodes`].
    for_nodes: bool,
    affinities: Affinities,
}

/// The free volumes of one shelf.
#[derive(Debug, Default)]
struct Free {
    /// By the required node label and its value.
    labelled: HashMap<Box<str>, HashMap<Box<str>, Groups>>,
    /// All others.
    others: Groups,
}

impl Free {
    fn all(&self) -> impl Iterator<Item = &Groups> {
        [&self.others].into_iter().chain(self.labelled.values().flat_map(HashMap::values))
    }

    fn on(&self, labels: &BTreeMap<String, String>) -> impl Iterator<Item = &Groups> {
        let labelled = self.labelled.iter();
        let near = labelled.filter_map(|(key, values)| values.get(labels.get(key.as_ref())?.as_str()));
        [&self.others].into_iter().chain(near)
    }

    fn is_empty(&self) -> bool {
        self.labelled.is_empty() && self.others.is_empty()
    }
}

/// A volume, and its labels as JSON if it has any: a selector evaluates the labels of many volumes.
#[derive(Debug)]
struct Stored {
    kept: PackedObject<PersistentVolume>,
    labels: Option<Box<str>>,
    settled: SyncOutcome,
    /// Whether the volume accepts every node under whose labels it is indexed.
    accepts: bool,
    /// The affinity to evaluate otherwise, if it is short enough to be cached.
    required: Option<Arc<RequiredNodes>>,
}

impl Stored {
    fn new(kept: PackedObject<PersistentVolume>, volume: &PersistentVolume) -> Self {
        let labels = volume.metadata.labels.as_ref().filter(|labels| !labels.is_empty());
        let labels = labels.and_then(|labels| serde_json::to_string(labels).ok()).map(String::into);
        Self { kept, labels, settled: SyncOutcome::No, accepts: false, required: None }
    }

    fn has_labels(&self, wanted: &RequiredLabels) -> bool {
        match (wanted, &self.labels) {
            (RequiredLabels::Anything, _) => true,
            (RequiredLabels::Unreadable, _) => false,
            (RequiredLabels::Labels(_), None) => wanted.matches_labels(&BTreeMap::new()),
            (RequiredLabels::Labels(_), Some(text)) => {
                serde_json::from_str(text).is_ok_and(|labels| wanted.matches_labels(&labels))
            }
        }
    }
}

/// The search criteria, parsed once from the claim.
#[derive(Debug)]
struct Search {
    size: Quantity,
    modes: ModeSet,
    shelf: Shelf,
    labels: RequiredLabels,
}

impl Search {
    /// `None` if no volume can ever fit: an invalid size or an unknown access mode.
    fn new(claim: &PersistentVolumeClaim) -> Option<Self> {
        Some(Self {
            size: fit::request(claim)?,
            modes: ModeSet::requested(fit::requested_modes(claim))?,
            shelf: Shelf {
                class: class::claim_class(claim).to_owned(),
                mode: VolumeMode::of_claim(claim),
                attributes_class: class::claim_attributes_class(claim).to_owned(),
            },
            labels: RequiredLabels::of(claim),
        })
    }
}

/// The position of a volume among the free ones, if it is free.
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

/// The node label that a volume requires.
fn label_of(volume: &PersistentVolume) -> Option<(&str, &str)> {
    match affinity::reach(volume) {
        Reach::Label { key, value, .. } => Some((key, value)),
        Reach::Everywhere | Reach::Elsewhere => None,
    }
}

fn take_out(groups: &mut Groups, modes: ModeSet, size: &Quantity, name: &str) {
    if let Some(group) = groups.get_mut(&modes) {
        if let Some(names) = group.get_mut(size) {
            names.remove(name);
            if names.is_empty() {
                group.remove(size);
            }
        }
        if group.is_empty() {
            groups.remove(&modes);
        }
    }
}

impl VolumeIndex {
    /// Creates an index for searches by node: a volume that requires a node label, as local volumes do, is considered
    /// only for nodes with that label. The results are the same; searches without a node cost more.
    pub fn for_nodes() -> Self {
        Self { for_nodes: true, ..Self::default() }
    }

    /// Inserts a volume and returns the one with the same name that it replaces. `volume` is `kept`, decoded.
    pub fn insert(
        &mut self,
        kept: PackedObject<PersistentVolume>,
        volume: &PersistentVolume,
    ) -> Option<Arc<PersistentVolume>> {
        let name = Arc::clone(kept.key());
        let old = self.remove(&name);
        if let Some(reference) = object::claim_ref(volume) {
            let key = object::reference_key(reference).into();
            self.pointing.entry(key).or_default().insert(Arc::clone(&name));
        }
        if let Some((shelf, modes, size)) = place(volume) {
            let free = self.free.entry(shelf).or_default();
            let label = if self.for_nodes { label_of(volume) } else { None };
            let groups = match label {
                Some((key, value)) => {
                    free.labelled.entry(key.into()).or_default().entry(value.into()).or_default()
                }
                None => &mut free.others,
            };
            groups.entry(modes).or_default().entry(size).or_default().insert(Arc::clone(&name));
        }
        let accepts = match affinity::reach(volume) {
            Reach::Everywhere => true,
            Reach::Label { enough, .. } => self.for_nodes && enough,
            Reach::Elsewhere => false,
        };
        let required = if self.for_nodes && !accepts { self.affinities.share(volume) } else { None };
        self.by_name.insert(name, Stored { accepts, required, ..Stored::new(kept, volume) });
        old
    }

    /// Replaces the stored copy with another copy of the same version.
    pub fn swap(&mut self, copy: PackedObject<PersistentVolume>) {
        if let Some(stored) = self.by_name.get_mut(copy.key()) {
            stored.kept = copy;
        }
    }

    /// Removes a volume.
    pub fn remove(&mut self, name: &str) -> Option<Arc<PersistentVolume>> {
        let stored = self.by_name.remove(name)?;
        if let Some(required) = stored.required {
            self.affinities.leave(required);
        }
        let old = stored.kept.get();
        if let Some(reference) = object::claim_ref(&old) {
            let key = object::reference_key(reference);
            if let Some(names) = self.pointing.get_mut(key.as_str()) {
                names.remove(name);
                if names.is_empty() {
                    self.pointing.remove(key.as_str());
                }
            }
        }
        if let Some((shelf, modes, size)) = place(&old)
            && let Some(free) = self.free.get_mut(&shelf)
        {
            let label = if self.for_nodes { label_of(&old) } else { None };
            match label {
                Some((key, value)) => {
                    if let Some(values) = free.labelled.get_mut(key) {
                        if let Some(groups) = values.get_mut(value) {
                            take_out(groups, modes, &size, name);
                            if groups.is_empty() {
                                values.remove(value);
                            }
                        }
                        if values.is_empty() {
                            free.labelled.remove(key);
                        }
                    }
                }
                None => take_out(&mut free.others, modes, &size, name),
            }
            if free.is_empty() {
                self.free.remove(&shelf);
            }
        }
        Some(old)
    }

    /// The volume with this name.
    pub fn get_kept(&self, name: &str) -> Option<&PackedObject<PersistentVolume>> {
        self.by_name.get(name).map(|stored| &stored.kept)
    }

    /// The names of all volumes, in no particular order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.by_name.keys()
    }

    /// The result of the last sync of this version of the volume.
    pub fn settled(&self, name: &str) -> SyncOutcome {
        self.by_name.get(name).map_or(SyncOutcome::No, |stored| stored.settled)
    }

    /// Records the result of a sync of the volume.
    pub fn settle(&mut self, name: &str, settled: SyncOutcome) {
        if let Some(stored) = self.by_name.get_mut(name) {
            stored.settled = settled;
        }
    }

    /// The names of the volumes that refer to the claim with this `namespace/name`, with any UID, in order.
    pub fn names_pointing_to(&self, claim_key: &str) -> impl Iterator<Item = &Arc<str>> {
        self.pointing.get(claim_key).into_iter().flatten()
    }

    /// The volumes that refer to the claim, by name.
    pub fn pointing_to(&self, claim_key: &str) -> impl Iterator<Item = Arc<PersistentVolume>> {
        self.names_pointing_to(claim_key).filter_map(|name| Some(self.get_kept(name)?.get()))
    }

    /// The volume to bind to a claim. `delayed`: the claim's class waits for a pod, so only a volume that already
    /// refers to the claim qualifies.
    // Tests: IDX-MATCH-1, IDX-MATCH-3, IDX-MATCH-4, IDX-MATCH-6, IDX-MATCH-7, IDX-MATCH-11, IDX-MATCH-12, IDX-BOUND
    // Tests: IDX-MODES-1, IDX-MODES-3, IDX-MODES-7, OWN-AM-1, OWN-RES-7, OWN-FIT-1, OWN-SEL-1, OWN-SEL-2, OWN-SEL-5
    // Tests: IDX-RES-1, IDX-RES-3, IDX-RES-4, IDX-RES-5, OWN-NS-1, OWN-COMPETE-2
    pub fn find(&self, claim: &PersistentVolumeClaim, delayed: bool) -> Option<Arc<PersistentVolume>> {
        self.find_among(claim, delayed, |_| true)
    }

    /// Like `find`, among the volumes whose names `may_take` accepts.
    pub fn find_among(
        &self,
        claim: &PersistentVolumeClaim,
        delayed: bool,
        may_take: impl Fn(&str) -> bool,
    ) -> Option<Arc<PersistentVolume>> {
        let search = Search::new(claim)?;
        let reserved = self.reserved(claim);
        (0..=4).find_map(|count| {
            let ours = |volume: &&Arc<PersistentVolume>| {
                let offered = ModeSet::offered(fit::offered_modes(volume));
                offered.len() == count
                    && offered.contains(search.modes)
                    && may_take(object::name(&volume.metadata))
            };
            if let Some(volume) = reserved.iter().find(ours) {
                return Some(Arc::clone(volume));
            }
            if delayed {
                return None;
            }
            let free = self.free.get(&search.shelf)?;
            let sets = ModeSet::supersets(search.modes, count);
            let fits = |name: &str, stored: &Stored| stored.has_labels(&search.labels) && may_take(name);
            let (_, name) = self.smallest_free(&search, free.all(), sets, None, fits)?;
            self.get_kept(name).map(PackedObject::get)
        })
    }

    /// Volumes that refer to the claim and fit it: size, mode, volume attributes class, not being deleted.
    fn reserved(&self, claim: &PersistentVolumeClaim) -> Vec<Arc<PersistentVolume>> {
        let key = object::claim_key(claim);
        let pointing = self.pointing_to(&key);
        let usable = |volume: &Arc<PersistentVolume>| {
            object::points_to(volume, claim)
                && fit::too_small(volume, claim).is_none()
                && fit::mode_differs(volume, claim).is_none()
                && fit::attributes_class_differs(volume, claim).is_none()
                && fit::terminating(volume).is_none()
        };
        pointing.filter(usable).collect()
    }

    /// The smallest free volume, of those after a position if one is given.
    fn smallest_free<'a>(
        &'a self,
        search: &Search,
        places: impl Iterator<Item = &'a Groups>,
        sets: impl Iterator<Item = ModeSet>,
        after: Option<Position<'_>>,
        fits: impl Fn(&str, &'a Stored) -> bool,
    ) -> Option<Position<'a>> {
        let fits = |name: &str| self.by_name.get(name).is_some_and(|stored| fits(name, stored));
        let sets: Vec<ModeSet> = sets.collect();
        let from = after.map_or(&search.size, |(size, _)| size.max(&search.size));
        let names = |size: &Quantity, names: &'a Few<Arc<str>>| match after {
            Some((last, name)) if last == size => names.range::<str>(Bound::Excluded(name)),
            Some(_) | None => names.iter(),
        };
        let first = |by_size: &'a BTreeMap<Quantity, Few<Arc<str>>>| {
            let by_size = by_size.range(from..);
            by_size
                .flat_map(|(size, of_size)| names(size, of_size).map(move |name| (size, name)))
                .find(|(_, name)| fits(name))
        };
        let groups = places.flat_map(|groups| sets.iter().filter_map(|set| groups.get(set)));
        groups.filter_map(first).min()
    }
}
