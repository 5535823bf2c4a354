//! Compact facts of every volume for judging candidates: 100 000 volumes are judged without decoding one.
//! Strings that many volumes share are stored once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use orlop_apimachinery::quantity::Quantity;

use orlop_volume::affinity::{self, Reach};
use orlop_volume::class;
use orlop_volume::fit::{self, RequiredLabels};
use orlop_volume::modes::ModeSet;
use orlop_volume::object::{self, VolumeMode, VolumePhase};

use super::model::Rule;

/// The facts of one volume.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The volume's name.
    pub name: Arc<str>,
    capacity: Quantity,
    modes: ModeSet,
    mode: VolumeMode,
    phase: VolumePhase,
    terminating: bool,
    class: Arc<str>,
    attributes_class: Arc<str>,
    /// Labels as JSON; empty if there are none.
    labels: Arc<str>,
    /// `namespace/name` and UID of the claimRef.
    claim: Option<(Box<str>, Box<str>)>,
    reach: FactReach,
}

/// Where the volume can be used.
#[derive(Clone, Debug)]
enum FactReach {
    Everywhere,
    /// Nodes with this label; `enough`: there is no other condition.
    Label {
        key: Arc<str>,
        value: Arc<str>,
        enough: bool,
    },
    /// The affinity must be read from the volume.
    Elsewhere,
}

/// Whether a volume can be used on one of some nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// The volume can be used there.
    Yes,
    /// The volume cannot be used there.
    No,
    /// The whole node affinity must be evaluated.
    Ask,
}

/// The request of a claim, parsed once.
#[derive(Debug)]
pub struct ClaimRequest {
    key: String,
    uid: String,
    size: Quantity,
    /// `None` if one of the modes does not exist.
    modes: Option<ModeSet>,
    mode: VolumeMode,
    class: String,
    attributes_class: String,
    /// The label selector, with cached results for each set of labels.
    wanted: RequiredLabels,
}

impl ClaimRequest {
    /// Parses the request of `claim`.
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        Self {
            key: object::claim_key(claim),
            uid: object::uid(&claim.metadata).to_owned(),
            size: fit::request(claim).unwrap_or(Quantity::ZERO),
            modes: ModeSet::requested(fit::requested_modes(claim)),
            mode: VolumeMode::of_claim(claim),
            class: class::claim_class(claim).to_owned(),
            attributes_class: class::claim_attributes_class(claim).to_owned(),
            wanted: RequiredLabels::of(claim),
        }
    }

    /// The label selector of the claim.
    pub fn wanted(&self) -> &RequiredLabels {
        &self.wanted
    }
}

/// The rules that a volume fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Against {
    /// The first failed rule in the binder's order.
    pub first: Option<Rule>,
    /// The number of failed rules.
    pub count: u8,
}

impl Against {
    /// Adds a failed rule.
    pub fn add(&mut self, rule: Rule) {
        self.first.get_or_insert(rule);
        self.count += 1;
    }
}

/// Selector results for sets of labels, keyed by the address of the shared string: each set is evaluated once.
/// Lives for one query.
pub type SelectorCache = HashMap<*const u8, bool>;

/// The labels of nodes: the values of each key.
pub type NodeLabels = HashMap<String, HashSet<String>>;

impl Facts {
    /// Whether the volume's claimRef is this claim.
    pub fn points_to(&self, asked: &ClaimRequest) -> bool {
        self.claim
            .as_ref()
            .is_some_and(|(key, uid)| **key == *asked.key && (uid.is_empty() || **uid == *asked.uid))
    }

    /// The failed rules, except node affinity. The same rules as in `pv/fit.rs`; a test compares them.
    pub fn against(&self, asked: &ClaimRequest, memory: &mut SelectorCache) -> Against {
        let mut against = Against::default();
        let ours = self.points_to(asked);
        let mut rule = |holds: bool, rule: Rule| {
            if !holds {
                against.add(rule);
            }
        };
        rule(ours || self.claim.is_none(), Rule::ClaimRef);
        rule(asked.modes.is_some_and(|wanted| self.modes.contains(wanted)), Rule::AccessModes);
        rule(self.capacity >= asked.size, Rule::Size);
        rule(self.mode == asked.mode, Rule::VolumeMode);
        rule(*self.attributes_class == *asked.attributes_class, Rule::AttributesClass);
        rule(!self.terminating, Rule::Terminating);
        if !ours {
            rule(self.phase == VolumePhase::Available, Rule::Phase);
            rule(self.has_labels(&asked.wanted, memory), Rule::Selector);
            rule(*self.class == *asked.class, Rule::Class);
        }
        against
    }

    fn has_labels(&self, wanted: &RequiredLabels, memory: &mut SelectorCache) -> bool {
        match wanted {
            RequiredLabels::Anything => true,
            RequiredLabels::Unreadable => false,
            RequiredLabels::Labels(_) => {
                let place = self.labels.as_ptr();
                if let Some(known) = memory.get(&place) {
                    return *known;
                }
                let labels = if self.labels.is_empty() { "{}" } else { &self.labels };
                let found = serde_json::from_str(labels).is_ok_and(|labels| wanted.matches_labels(&labels));
                memory.insert(place, found);
                found
            }
        }
    }

    /// Whether the volume can be used on one of some nodes, judged by the nodes' labels.
    pub fn near(&self, held: &NodeLabels) -> Near {
        match &self.reach {
            FactReach::Everywhere => Near::Yes,
            FactReach::Elsewhere => Near::Ask,
            FactReach::Label { key, value, enough } => {
                let has = held.get(key.as_ref()).is_some_and(|values| values.contains(value.as_ref()));
                match (has, enough) {
                    (false, _) => Near::No,
                    (true, true) => Near::Yes,
                    (true, false) => Near::Ask,
                }
            }
        }
    }

    /// The distance between the volume's size and the request: too small counts more than too large.
    pub fn distance(&self, asked: &ClaimRequest) -> f64 {
        let (has, wants) = (self.capacity.to_f64(), asked.size.to_f64());
        if has < wants { (wants - has) * 2.0 } else { has - wants }
    }
}

/// Interned strings.
#[derive(Debug, Default)]
struct Texts {
    known: HashSet<Arc<str>>,
    /// The number of strings at which unused ones are dropped.
    limit: usize,
}

impl Texts {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.limit {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.limit = self.known.len() * 2 + 64;
        }
        let text: Arc<str> = text.into();
        self.known.insert(Arc::clone(&text));
        text
    }
}

/// The facts of all volumes.
#[derive(Debug, Default)]
pub struct FactTable {
    volumes: HashMap<Arc<str>, Facts>,
    texts: Texts,
}

impl FactTable {
    /// Inserts a volume, replacing the one with its name.
    pub fn put(&mut self, name: &Arc<str>, volume: &PersistentVolume) {
        let Some(capacity) = fit::capacity(volume) else {
            // A volume whose size cannot be parsed is never a candidate.
            self.remove(name);
            return;
        };
        let labels = volume.metadata.labels.as_ref().filter(|labels| !labels.is_empty());
        let labels = labels.and_then(|labels| serde_json::to_string(labels).ok()).unwrap_or_default();
        let claim = object::claim_ref(volume).map(|reference| {
            (object::reference_key(reference).into(), object::reference_uid(reference).into())
        });
        let reach = match affinity::reach(volume) {
            Reach::Everywhere => FactReach::Everywhere,
            Reach::Elsewhere => FactReach::Elsewhere,
            Reach::Label { key, value, enough } => {
                FactReach::Label { key: self.texts.get(key), value: self.texts.get(value), enough }
            }
        };
        let facts = Facts {
            name: Arc::clone(name),
            capacity,
            modes: ModeSet::offered(fit::offered_modes(volume)),
            mode: VolumeMode::of_volume(volume),
            phase: VolumePhase::of(volume),
            terminating: object::is_terminating(&volume.metadata),
            class: self.texts.get(class::volume_class(volume)),
            attributes_class: self.texts.get(class::volume_attributes_class(volume)),
            labels: self.texts.get(&labels),
            claim,
            reach,
        };
        self.volumes.insert(Arc::clone(name), facts);
    }

    /// Removes a volume.
    pub fn remove(&mut self, name: &str) {
        self.volumes.remove(name);
    }

    /// All facts, in no particular order.
    pub fn all(&self) -> impl Iterator<Item = &Facts> {
        self.volumes.values()
    }
}
