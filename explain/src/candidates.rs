//! The candidate volumes of a claim: for each rule the number of volumes that fail it first, and the nearest
//! volumes with every rule's verdict and a fix. All volumes are judged by their facts, the nearest by the
//! predicates of `volume/src/fit.rs`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use orlop_volume::fit::{self, Misfit, RequiredLabels};
use orlop_volume::object;

use super::cluster_view::ClusterView;
use super::eligible_nodes::AllowedNodes;
use super::facts::{Against, ClaimRequest, Facts, Near, SelectorCache};
use super::fix;
use super::model::{Candidate, Candidates, Rule, RuleCount, RuleVerdict};
use super::words;

/// Number of volumes that are reported in full.
pub const NEAREST: usize = 20;

/// The result of a search through all volumes.
#[derive(Debug, Default)]
pub struct FoundVolumes {
    /// The candidates for the answer.
    pub candidates: Candidates,
    /// The nearest volume that fits.
    pub fitting: Option<Arc<PersistentVolume>>,
    /// The nearest volume whose claimRef is the claim, and whether it fits.
    pub ours: Option<(Arc<PersistentVolume>, bool)>,
}

#[derive(Debug)]
struct Ranked {
    name: Arc<str>,
    against: Against,
    ours: bool,
    distance: f64,
}

impl Ranked {
    /// Orders by the number of failed rules, then volumes whose claimRef is the claim, then by size difference, then
    /// by name.
    fn order(&self, facts: &Facts, against: Against, ours: bool, distance: f64) -> Ordering {
        (self.against.count, !self.ours)
            .cmp(&(against.count, !ours))
            .then_with(|| self.distance.total_cmp(&distance))
            .then_with(|| self.name.cmp(&facts.name))
    }
}

/// The result of a survey of the facts of all volumes: the counts, and the nearest volumes in order.
#[derive(Debug, Default)]
pub struct Survey {
    total: usize,
    by_rule: BTreeMap<Rule, usize>,
    nearest: Vec<Ranked>,
    /// The nearest volume whose claimRef is the claim, at any rank.
    ours: Option<Ranked>,
}

impl Survey {
    /// Adds a volume and its failed rules. Only the nearest volumes are stored.
    pub fn add(&mut self, facts: &Facts, asked: &ClaimRequest, against: Against) {
        self.total += 1;
        if let Some(first) = against.first {
            *self.by_rule.entry(first).or_default() += 1;
        }
        let ours = facts.points_to(asked);
        let full = self.nearest.len() >= NEAREST;
        if !ours && full && self.nearest.last().is_some_and(|last| against.count > last.against.count) {
            return;
        }
        let distance = facts.distance(asked);
        let is_before = |one: &Ranked| one.order(facts, against, ours, distance) == Ordering::Less;
        let ranked = || Ranked { name: Arc::clone(&facts.name), against, ours, distance };
        if ours && !self.ours.as_ref().is_some_and(is_before) {
            self.ours = Some(ranked());
        }
        let at = self.nearest.partition_point(is_before);
        if at < NEAREST {
            self.nearest.insert(at, ranked());
            self.nearest.truncate(NEAREST);
        }
    }

    /// The number of volumes, and the number of those that fit.
    pub fn counts(&self) -> (usize, usize) {
        (self.total, self.total - self.by_rule.values().sum::<usize>())
    }
}

/// Judges every volume for a claim. `eligible`: where the volume must be usable; `None` for anywhere.
pub fn judge(
    world: &dyn ClusterView,
    claim: &PersistentVolumeClaim,
    eligible: Option<&AllowedNodes>,
) -> FoundVolumes {
    let (asked, mut memory) = (ClaimRequest::of(claim), SelectorCache::new());
    let mut survey = Survey::default();
    let mut asking = Vec::new();
    world.facts(&mut |facts| {
        let mut against = facts.against(&asked, &mut memory);
        let near = eligible.map_or(Near::Yes, |eligible| facts.near(&eligible.held));
        match near {
            Near::Yes => {}
            Near::No => against.add(Rule::NodeAffinity),
            // Only volumes that fit otherwise are decoded; the nearest are checked again below.
            Near::Ask if against.count > 0 => {}
            // Not while the facts are locked: decoding takes long, and new facts would have to wait.
            Near::Ask => return asking.push((facts.clone(), against)),
        }
        survey.add(facts, &asked, against);
    });
    for (facts, mut against) in asking {
        let accepts = |eligible: &AllowedNodes| {
            world.volume(&facts.name).is_some_and(|volume| eligible.accept(&volume))
        };
        if !eligible.is_none_or(accepts) {
            against.add(Rule::NodeAffinity);
        }
        survey.add(&facts, &asked, against);
    }
    let (total, fit) = survey.counts();
    let fits = |one: &Ranked| one.against.count == 0;
    let ours = survey.ours.as_ref().and_then(|one| Some((world.volume(&one.name)?, fits(one))));
    let nearest: Vec<_> =
        survey.nearest.iter().filter_map(|one| Some((one, world.volume(&one.name)?))).collect();
    let fitting = nearest.iter().find(|(one, _)| fits(one)).map(|(_, volume)| Arc::clone(volume));
    let mut by_rule: Vec<_> =
        survey.by_rule.iter().map(|(rule, count)| RuleCount { rule: *rule, count: *count }).collect();
    by_rule.sort_by_key(|one| (std::cmp::Reverse(one.count), one.rule));
    let nearest =
        nearest.iter().map(|(_, volume)| candidate(world, volume, claim, asked.wanted(), eligible)).collect();
    FoundVolumes { candidates: Candidates { total, fit, by_rule, nearest }, fitting, ours }
}

/// One volume with every rule's verdict and a fix.
pub fn candidate(
    world: &dyn ClusterView,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    wanted: &RequiredLabels,
    eligible: Option<&AllowedNodes>,
) -> Candidate {
    let verdicts = verdicts(volume, claim, wanted, eligible);
    let first = verdicts.iter().find(|verdict| !verdict.ok).map(|verdict| verdict.rule);
    let against: Vec<Rule> =
        verdicts.iter().filter(|verdict| !verdict.ok).map(|verdict| verdict.rule).collect();
    let fix =
        if against.is_empty() { None } else { fix::of_candidate(world, volume, claim, &against, eligible) };
    Candidate { volume: object::name(&volume.metadata).to_owned(), verdicts, first, fix }
}

/// The verdict of every rule on a volume, in the order of the binder.
pub fn verdicts(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    wanted: &RequiredLabels,
    eligible: Option<&AllowedNodes>,
) -> Vec<RuleVerdict> {
    let ours = object::points_to(volume, claim);
    let mut all = Vec::with_capacity(10);
    let mut tell = |rule: Rule, misfit: Option<Misfit>, fine: String| {
        let ok = misfit.is_none();
        let message = misfit.map_or(fine, |misfit| explain_misfit(&misfit, volume, claim));
        all.push(RuleVerdict { rule, ok, message });
    };
    let free = if ours { "it is reserved for this claim" } else { "it is not reserved" };
    tell(Rule::ClaimRef, fit::reserved_for_other(volume, claim), free.to_owned());
    let offers = format!("its access modes are {}", words::modes(fit::offered_modes(volume)));
    tell(Rule::AccessModes, fit::access_modes_missing(volume, claim), offers);
    let holds = fit::capacity(volume).map_or_else(String::new, |size| format!("its capacity is {size}"));
    tell(Rule::Size, fit::too_small(volume, claim), holds);
    tell(Rule::VolumeMode, fit::mode_differs(volume, claim), "its volume mode matches".to_owned());
    let same = "its volume attributes class matches".to_owned();
    tell(Rule::AttributesClass, fit::attributes_class_differs(volume, claim), same);
    tell(Rule::Terminating, fit::terminating(volume), "it is not being deleted".to_owned());
    if ours {
        let passed = || "not checked: the volume is reserved for this claim".to_owned();
        for rule in [Rule::Phase, Rule::Selector, Rule::Class] {
            tell(rule, None, passed());
        }
    } else {
        tell(Rule::Phase, fit::not_available(volume), "it is Available".to_owned());
        tell(Rule::Selector, fit::labels_differ(volume, wanted), "its labels match".to_owned());
        tell(Rule::Class, fit::class_differs(volume, claim), "its storage class matches".to_owned());
    }
    if let Some(eligible) = eligible {
        let (ok, only) = (eligible.accept(volume), words::affinity(volume));
        let message = match (ok, eligible.nodes.is_empty()) {
            (true, _) => format!("it can be used on {only}, and {} can run there", eligible.subject),
            (false, true) => {
                format!("it can be used on {only}; {} can run on no node at all", eligible.subject)
            }
            (false, false) => {
                format!(
                    "it can be used on {only}; {} can only run on {}",
                    eligible.subject,
                    words::list(&eligible.nodes)
                )
            }
        };
        all.push(RuleVerdict { rule: Rule::NodeAffinity, ok, message });
    }
    all
}

/// A misfit as text, with the missing details where the binder's message is short.
pub fn explain_misfit(misfit: &Misfit, volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> String {
    match misfit {
        Misfit::AccessModes { .. } => {
            let offered = fit::offered_modes(volume);
            let missing: Vec<String> =
                fit::requested_modes(claim).iter().filter(|mode| !offered.contains(mode)).cloned().collect();
            format!(
                "its access modes are {}, and the claim also requests {}",
                words::modes(offered),
                words::modes(&missing)
            )
        }
        Misfit::Selector => {
            let labels = volume.metadata.labels.as_ref().filter(|labels| !labels.is_empty());
            let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let wants = selector.map(words::selector).unwrap_or_default();
            match labels {
                Some(labels) => {
                    format!("its labels are {}, and the claim selects {wants}", words::labels(labels))
                }
                None => format!("it has no labels, and the claim selects {wants}"),
            }
        }
        Misfit::Reserved { claim: other } if *other == object::claim_key(claim) => {
            format!("it is reserved for an earlier claim {other} with another UID")
        }
        Misfit::Reserved { .. }
        | Misfit::TooSmall { .. }
        | Misfit::Mode { .. }
        | Misfit::AttributesClass { .. }
        | Misfit::Terminating
        | Misfit::Delayed
        | Misfit::Phase(_)
        | Misfit::Class { .. } => misfit.to_string(),
    }
}
