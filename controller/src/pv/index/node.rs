//! The search of the scheduler: volumes for the claims of one pod on one node.
//!
//! A pod can have thousands of equal claims. Their searches continue where the last one ended, and a volume is checked
//! against the node only once, so that a further claim does not visit all volumes of the others again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use orlop_apimachinery::quantity::Quantity;
use orlop_client::packed_object::PackedObject;
use orlop_volume::affinity::accepts_node;
use orlop_volume::modes::ModeSet;
use orlop_volume::object;

use super::{Position, Search, Shelf, Stored, VolumeIndex};

/// A search that is evaluated for many nodes.
#[derive(Debug)]
pub struct NodeSearch {
    search: Search,
    /// The volumes that refer to the claim.
    reserved: Vec<Arc<PersistentVolume>>,
    /// The claim's selector.
    selector: Option<String>,
}

/// The parameters of a search except its size and the volumes that refer to its claim.
type Criteria<'a> = (&'a Shelf, ModeSet, Option<&'a str>);

impl NodeSearch {
    fn criteria(&self) -> Criteria<'_> {
        (&self.search.shelf, self.search.modes, self.selector.as_deref())
    }
}

impl VolumeIndex {
    /// A search for a claim, to be evaluated for nodes; `None` if no volume can ever fit.
    pub fn search(&self, claim: &PersistentVolumeClaim) -> Option<NodeSearch> {
        let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = selector.and_then(|selector| serde_json::to_string(selector).ok());
        Some(NodeSearch { search: Search::new(claim)?, reserved: self.reserved(claim), selector })
    }

    /// The volume to use for one claim on a node with these labels. See [`NodeChoices::choose`].
    #[cfg(test)]
    pub fn find_for_node<'a>(
        &'a self,
        search: &'a NodeSearch,
        labels: &'a BTreeMap<String, String>,
        may_take: impl Fn(&str) -> bool,
    ) -> Option<&'a PackedObject<PersistentVolume>> {
        let mut choices = NodeChoices::new(self, labels);
        choices.chosen = self.names().map(AsRef::as_ref).filter(|name| !may_take(name)).collect();
        choices.choose(search)
    }
}

/// The result of the last search with the same criteria.
#[derive(Debug)]
struct Last<'a> {
    size: &'a Quantity,
    /// None when no volume was left.
    found: Option<Position<'a>>,
}

/// The volumes chosen for the claims of one pod on one node.
#[derive(Debug)]
pub struct NodeChoices<'a> {
    index: &'a VolumeIndex,
    labels: &'a BTreeMap<String, String>,
    chosen: HashSet<&'a str>,
    /// Volumes that do not accept the node.
    refused: RefCell<HashSet<&'a str>>,
    last: HashMap<Criteria<'a>, Last<'a>>,
    visits: Cell<usize>,
}

impl<'a> NodeChoices<'a> {
    /// No choices yet, on a node with these labels.
    pub fn new(index: &'a VolumeIndex, labels: &'a BTreeMap<String, String>) -> Self {
        let (chosen, refused) = (HashSet::new(), RefCell::default());
        Self { index, labels, chosen, refused, last: HashMap::new(), visits: Cell::new(0) }
    }

    /// The number of volumes visited so far.
    pub fn visits(&self) -> usize {
        self.visits.get()
    }

    /// Chooses the volume to use for a claim, other than those of the previous claims. If a volume refers to the claim
    /// and does not accept the node, the result is `None`: the claim can use no other volume. The cost is least when the
    /// claims come by size.
    // Tests: FN-NODE-1, FN-NODE-2, FN-NODE-6, FN-NODE-7, FN-NODE-9, FN-NODE-10, FN-NODE-11, FN-NODE-12
    // Tests: NEW-NODE-EXCLUDED, NEW-NODE-PENDING
    pub fn choose(&mut self, wanted: &'a NodeSearch) -> Option<&'a PackedObject<PersistentVolume>> {
        let is_left = |volume: &&Arc<PersistentVolume>| self.is_left(object::name(&volume.metadata));
        let kept = match wanted.reserved.iter().find(is_left) {
            Some(volume) if accepts_node(volume, self.labels) => {
                self.index.get_kept(object::name(&volume.metadata))
            }
            Some(_) => None,
            None => self.smallest(wanted, wanted.criteria()).and_then(|(_, name)| self.index.get_kept(name)),
        }?;
        self.chosen.insert(kept.key().as_ref());
        Some(kept)
    }

    /// The smallest free volume that fits. Volumes before the result of the last search with the same criteria and at
    /// most this size are not visited again: each was chosen or did not fit.
    fn smallest(
        &mut self,
        NodeSearch { search, .. }: &'a NodeSearch,
        criteria: Criteria<'a>,
    ) -> Option<Position<'a>> {
        let after = match self.last.get(&criteria) {
            Some(Last { size, found }) if **size <= search.size => Some((*found)?),
            Some(_) | None => None,
        };
        let free = self.index.free.get(&search.shelf)?;
        let sets = (0..=4).flat_map(|count| ModeSet::supersets(search.modes, count));
        let found = self.index.smallest_free(search, free.on(self.labels), sets, after, |name, stored| {
            self.visits.set(self.visits.get() + 1);
            self.is_left(name) && stored.has_labels(&search.labels) && self.accepts(stored)
        });
        self.last.insert(criteria, Last { size: &search.size, found });
        found
    }

    fn is_left(&self, name: &str) -> bool {
        !self.chosen.contains(name)
    }

    /// Whether a volume accepts the node. A volume is decoded for this only if its affinity is very long.
    fn accepts(&self, stored: &'a Stored) -> bool {
        if stored.accepts {
            return true;
        }
        let name = stored.kept.key().as_ref();
        if self.refused.borrow().contains(name) {
            return false;
        }
        let accepts = match &stored.required {
            Some(required) => required.accept(self.labels),
            None => accepts_node(&stored.kept.get(), self.labels),
        };
        if !accepts {
            self.refused.borrow_mut().insert(name);
        }
        accepts
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn volume(name: &str, size: usize, more: Value) -> Arc<PersistentVolume> {
        let mut volume = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {
            "storageClassName": "c", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size.to_string()}},
            "status": {"phase": "Available"}});
        crate::testing::merge_into(&mut volume, &more);
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    fn claim(name: &str, size: usize, more: Value) -> PersistentVolumeClaim {
        let mut claim = json!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": {
            "storageClassName": "c", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size.to_string()}}}});
        crate::testing::merge_into(&mut claim, &more);
        serde_json::from_value(claim).unwrap()
    }

    fn index(volumes: impl IntoIterator<Item = Arc<PersistentVolume>>) -> VolumeIndex {
        let mut index = VolumeIndex::for_nodes();
        for volume in volumes {
            index.insert(PackedObject::new(Arc::clone(&volume)), &volume);
        }
        index
    }

    #[test]
    fn further_equal_claim_costs_one_visit() {
        const CLAIMS: usize = 200;
        let index = index((0..CLAIMS).map(|n| volume(&format!("v{n:03}"), 1, json!({}))));
        let search = index.search(&claim("c", 1, json!({}))).unwrap();
        let labels = BTreeMap::new();
        let mut choices = NodeChoices::new(&index, &labels);
        for n in 0..CLAIMS {
            let found = choices.choose(&search).map(|kept| kept.key().to_string());
            assert_eq!(found, Some(format!("v{n:03}")));
        }
        assert!((0..2).all(|_| choices.choose(&search).is_none()));
        assert_eq!(choices.visits(), CLAIMS);
    }

    #[test]
    fn continued_searches_find_the_same_volumes() {
        let blue = json!({"metadata": {"labels": {"a": "blue"}}});
        let wide = json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}});
        let anything = json!({});
        let index = index((0..60).map(|n| {
            let mut more = if n % 3 == 0 { blue.clone() } else { json!({}) };
            crate::testing::merge_into(&mut more, if n % 2 == 0 { &wide } else { &anything });
            volume(&format!("v{n:02}"), 1 + n * 7 % 5, more)
        }));
        let wants_blue = json!({"spec": {"selector": {"matchLabels": {"a": "blue"}}}});
        let wants_wide = json!({"spec": {"accessModes": ["ReadOnlyMany"]}});
        let claims = (0..60).map(|n| {
            let more = [&anything, &wants_blue, &wants_wide][n % 3];
            claim(&format!("c{n}"), [1, 2, 1, 3, 5, 4][n / 10], more.clone())
        });
        let searches: Vec<NodeSearch> = claims.map(|claim| index.search(&claim).unwrap()).collect();
        let labels = BTreeMap::new();
        let mut choices = NodeChoices::new(&index, &labels);
        let mut taken: HashSet<String> = HashSet::new();
        for search in &searches {
            // Without a previous search.
            let wanted = index.find_for_node(search, &labels, |name| !taken.contains(name));
            let wanted = wanted.map(|kept| kept.key().to_string());
            assert_eq!(choices.choose(search).map(|kept| kept.key().to_string()), wanted);
            taken.extend(wanted);
        }
        assert!(taken.len() > 30);
    }

    #[test]
    fn volume_that_refuses_the_node_is_not_decoded() {
        let terms: Vec<Value> = ["a", "b"]
            .map(|zone| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}))
            .into();
        let required = json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
        let index = index((0..10).map(|n| volume(&format!("v{n}"), 1, required.clone())));
        let selector = |n: usize| {
            json!({"spec": {"selector": {"matchExpressions":
            [{"key": format!("x{n}"), "operator": "DoesNotExist"}]}}})
        };
        let searches: Vec<NodeSearch> =
            (0..10).map(|n| index.search(&claim("c", 1, selector(n))).unwrap()).collect();
        let labels = BTreeMap::from([("zone".to_owned(), "c".to_owned())]);
        let mut choices = NodeChoices::new(&index, &labels);
        let before = orlop_client::packed_object::GETS.get();
        assert!(searches.iter().all(|search| choices.choose(search).is_none()));
        assert_eq!(orlop_client::packed_object::GETS.get() - before, 0);
        assert_eq!(choices.visits(), 100);
        // On a node with the label, the volumes are found by the same affinity.
        let labels = BTreeMap::from([("zone".to_owned(), "b".to_owned())]);
        let mut choices = NodeChoices::new(&index, &labels);
        assert!(searches.iter().all(|search| choices.choose(search).is_some()));
        assert_eq!(index.affinities.len(), 1, "equal affinities are kept once");
        let mut index = index;
        for n in 0..10 {
            index.remove(&format!("v{n}"));
        }
        assert_eq!(index.affinities.len(), 0);
    }

    #[test]
    fn very_long_affinity_is_evaluated_too() {
        let values: Vec<String> = (0..5000).map(|n| format!("zone-{n}")).collect();
        let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]}]);
        let index = index([volume(
            "v",
            1,
            json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}),
        )]);
        assert_eq!(index.affinities.len(), 0);
        let search = index.search(&claim("c", 1, json!({}))).unwrap();
        for (zone, found) in [("zone-4999", true), ("zone-x", false)] {
            let labels = BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
            assert_eq!(NodeChoices::new(&index, &labels).choose(&search).is_some(), found);
        }
    }
}
