//! Explains why a claim is Pending or Lost, and what a Bound claim still waits for. The states are the binder's
//! (`pv/claim_situation.rs`), one arm per state without a wildcard.

mod named;
pub(super) mod source;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;

use orlop_client::names;
use orlop_client::pods;
use orlop_controller::pv::claim_situation::{ClaimContext, ClaimSituation, classify};
use orlop_volume::class;
use orlop_volume::fit::{self, RequiredLabels};
use orlop_volume::object::{self, ClaimPhase, claim_key, volume_name};

use super::candidates::{self, FoundVolumes};
use super::cluster_view::ClusterView;
use super::eligible_nodes::AllowedNodes;
use super::fix;
use super::model::{Cause, Code, Fix, Reference, Rule, Severity, Why};
use super::provisioning;
use super::words;

pub use source::{Source, source_of};

/// Explains a claim that is not being deleted.
pub fn explain(world: &dyn ClusterView, claim: &Arc<PersistentVolumeClaim>, why: &mut Why) {
    why.state = match ClaimPhase::of(claim) {
        ClaimPhase::Unset | ClaimPhase::Unknown => "Pending".to_owned(),
        phase @ (ClaimPhase::Pending | ClaimPhase::Bound | ClaimPhase::Lost) => phase.as_str().to_owned(),
    };
    let named = Some(volume_name(claim)).filter(|name| !name.is_empty()).and_then(|name| world.volume(name));
    let class = world.class(class::claim_class(claim));
    let (delayed, mode_missing) = match class::delays_binding(class.as_deref()) {
        Ok(delayed) => (delayed, None),
        Err(error) => (false, Some(error)),
    };
    let searches =
        volume_name(claim).is_empty() && !object::has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED);
    let eligible = if searches && delayed { AllowedNodes::of(world, claim) } else { None };
    let FoundVolumes { candidates, fitting, ours } = match searches {
        true => candidates::judge(world, claim, eligible.as_ref()),
        false => FoundVolumes::default(),
    };
    // If the class waits for a pod, the scheduler chooses the volume: only a volume reserved for the claim counts.
    let reserved = ours.clone().filter(|(_, fits)| *fits).map(|(volume, _)| volume);
    let found = if delayed { reserved } else { fitting.clone() };
    let classes = world.classes();
    let default_class = class::default_class(&classes).map(|class| object::name(&class.metadata));
    if searches {
        why.candidates = Some(candidates);
    }
    let around = ClaimContext { named: named.as_ref(), found: found.as_ref(), delayed, default_class };
    let situation = classify(claim, around);
    if let Some(error) = mode_missing
        && searches
        && found.is_none()
    {
        let objects = class.iter().map(|class| Reference::to(class.as_ref())).collect();
        why.push(Severity::Attention, Cause::new(Code::BindingModeMissing, error.to_string(), objects));
    }
    let this = Asking { world, claim };
    match situation {
        ClaimSituation::VolumeFound(volume)
        | ClaimSituation::NamedFree(volume)
        | ClaimSituation::NamedOurs(volume) => {
            let message = format!("Volume {} fits and will be bound to the claim soon.", name(&volume));
            why.push(
                Severity::Waiting,
                Cause::new(Code::Binding, message, vec![Reference::to(volume.as_ref())]),
            );
        }
        ClaimSituation::DefaultClassMissing { class } => {
            let message =
                format!("The claim names no storage class; it will get the default class {class} soon.");
            why.push(
                Severity::Waiting,
                Cause::new(Code::DefaultClassComing, message, vec![provisioning::class(&class)]),
            );
        }
        ClaimSituation::WaitsForConsumer => {
            this.waits_for_pod(why, ours.as_ref(), eligible.as_ref(), fitting.as_ref());
        }
        ClaimSituation::WantsProvisioning => {
            this.unfit_reservation(why, ours.as_ref());
            let before = why.causes.len();
            match provisioning::explain(world, claim, class.as_deref(), why) {
                provisioning::Supply::Made => {}
                provisioning::Supply::Broken => this.nothing_fits(why),
                provisioning::Supply::ByHand => {
                    this.nothing_fits(why);
                    // If the class has manually created volumes, the rules that they fail explain more than the missing provisioner.
                    if is_held(why) {
                        why.causes[before..].reverse();
                    }
                }
            }
        }
        ClaimSituation::NothingFits => {
            this.unfit_reservation(why, ours.as_ref());
            this.no_default_class(why);
            this.nothing_fits(why);
        }
        ClaimSituation::NamedUnknown => this.named_unknown(why),
        ClaimSituation::NamedUnfit { volume, misfit } => this.named_unfit(why, &volume, &misfit),
        ClaimSituation::NamedTaken(volume) => this.named_taken(why, &volume),
        ClaimSituation::NamedStolen(volume) => this.stolen(why, &volume),
        ClaimSituation::BoundNameless => this.nameless(why),
        ClaimSituation::BoundVolumeGone => this.volume_gone(why),
        ClaimSituation::BoundElsewhere(volume) => this.elsewhere(why, &volume),
        ClaimSituation::BoundHere(volume) | ClaimSituation::BoundUnreferenced(volume) => {
            this.bound(why, &volume)
        }
    }
}

/// The most important cause of a claim that is not bound, for objects that wait for the claim.
pub fn first_cause(world: &dyn ClusterView, claim: &Arc<PersistentVolumeClaim>) -> Option<Cause> {
    let subject = super::Subject::Claim(Arc::clone(claim));
    super::explain(world, &subject).causes.into_iter().next()
}

fn name(volume: &PersistentVolume) -> &str {
    object::name(&volume.metadata)
}

fn pod_name(pod: &Arc<Pod>) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

struct Asking<'a> {
    world: &'a dyn ClusterView,
    claim: &'a Arc<PersistentVolumeClaim>,
}

impl Asking<'_> {
    /// A volume's claimRef is the claim, but the volume does not fit: usually a mistake in a reservation.
    fn unfit_reservation(&self, why: &mut Why, ours: Option<&(Arc<PersistentVolume>, bool)>) {
        let Some((volume, false)) = ours else { return };
        let wanted = RequiredLabels::of(self.claim);
        let candidate = candidates::candidate(self.world, volume, self.claim, &wanted, None);
        let against: Vec<String> = candidate
            .verdicts
            .iter()
            .filter(|verdict| !verdict.ok)
            .map(|verdict| verdict.message.clone())
            .collect();
        let message = format!(
            "Volume {} is reserved for the claim, but does not fit: {}.",
            name(volume),
            against.join("; ")
        );
        let cause = Cause::new(Code::ReservedUnfit, message, vec![Reference::to(volume.as_ref())]);
        why.push(Severity::Attention, cause.fixed_by(candidate.fix));
    }

    /// Explains a claim whose class waits for a pod.
    fn waits_for_pod(
        &self,
        why: &mut Why,
        ours: Option<&(Arc<PersistentVolume>, bool)>,
        eligible: Option<&AllowedNodes>,
        fitting: Option<&Arc<PersistentVolume>>,
    ) {
        self.unfit_reservation(why, ours);
        let name = class::claim_class(self.claim);
        let class = self.world.class(name);
        let is_static = class.as_ref().is_some_and(|class| provisioning::is_static(class));
        if is_static && fitting.is_none() {
            self.nothing_fits(why);
        }
        if let Some(class) = class.as_ref().filter(|_| !is_static) {
            source::explain(self.world, self.claim, Some(class), why);
            if let Some(eligible) = eligible.filter(|_| fitting.is_none()) {
                provisioning::room(self.world, self.claim, class, eligible, why);
            }
        }
        let pods = self.world.pods_of_claim(&claim_key(self.claim));
        let waiting: Vec<_> = pods.iter().filter(|pod| !pods::is_terminated(pod)).collect();
        if waiting.is_empty() {
            let message = format!(
                "Class {name} binds a claim when its first pod is scheduled, and no pod uses this claim yet: create the pod."
            );
            // A volume can be reserved before the pod exists.
            let fix = fitting.map(|volume| fix::reserve(volume, self.claim));
            let cause = Cause::new(Code::WaitsForPod, message, vec![provisioning::class(name)]);
            why.push(Severity::Waiting, cause.fixed_by(fix));
            return;
        }
        let names: Vec<String> = waiting.iter().map(|pod| pod_name(pod)).collect();
        let said = waiting.iter().find_map(|pod| super::scheduling::unschedulable(pod));
        let (severity, more) = match said {
            Some(said) => (Severity::Attention, format!(" The scheduler reports: {}.", words::open(&said))),
            None => (Severity::Waiting, String::new()),
        };
        let message = format!(
            "Class {name} binds the claim when its pod gets a node; {} {} none yet.{more}",
            words::list(&names),
            if names.len() == 1 { "has" } else { "have" },
        );
        let objects = waiting.iter().map(|pod| Reference::to(pod.as_ref())).collect();
        why.push(severity, Cause::new(Code::PodNotScheduled, message, objects));
    }

    /// The claim has no class and there is no default class; with a class a volume could be provisioned.
    fn no_default_class(&self, why: &mut Why) {
        if class::claim_has_class(self.claim) {
            return;
        }
        let mut classes = self.world.classes();
        classes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let makes = classes.iter().filter(|class| !provisioning::is_static(class));
        // The class of a claim can be set once and never changed, so only a class that provisions is offered.
        let (answered, silent): (Vec<&Arc<StorageClass>>, Vec<&Arc<StorageClass>>) =
            makes.partition(|class| provisioning::is_answered(self.world, class));
        let named = |of: &[&Arc<StorageClass>]| -> Vec<String> {
            of.iter().map(|class| object::name(&class.metadata).to_owned()).collect()
        };
        let is_on = self.world.settings().dynamic_provisioning;
        let message = match (named(&answered).as_slice(), named(&silent).as_slice()) {
            ([], []) => {
                "The claim names no storage class, there is no default class, and no class has a provisioner."
                    .to_owned()
            }
            ([], _) if !is_on => {
                "The claim names no storage class, there is no default class, and dynamic provisioning is \
                 disabled (--enable-dynamic-provisioning=false): create volumes manually."
                    .to_owned()
            }
            ([], some) => {
                let asked: BTreeSet<&str> = silent.iter().map(|class| class.provisioner.as_str()).collect();
                let asked: Vec<&str> = asked.into_iter().collect();
                format!(
                    "The claim names no storage class, and there is no default class. Existing classes: {}. No provisioner for them is \
                     installed ({}): install one first, because the class of a claim cannot be changed once it is set.",
                    words::list(some),
                    words::list(&asked)
                )
            }
            (some, _) => format!(
                "The claim names no storage class, and there is no default class. Available classes: {}. Name one in the claim, \
                 or mark one as the default with the annotation {}=true.",
                words::list(some),
                names::ANN_DEFAULT_CLASS
            ),
        };
        let fix = named(&answered).first().map(|class| {
            let body = json!({"spec": {"storageClassName": class}});
            Fix::merge(
                Reference::to(self.claim.as_ref()),
                body,
                format!("Sets the class of the claim to {class}."),
            )
        });
        let listed = if answered.is_empty() { silent } else { answered };
        let objects = listed.into_iter().map(|class| Reference::to(class.as_ref())).collect();
        let cause = Cause::new(Code::NoDefaultClass, message, objects);
        why.push(Severity::Attention, cause.fixed_by(fix));
    }

    /// No provisioner creates a volume, and no existing volume fits.
    fn nothing_fits(&self, why: &mut Why) {
        let Some(found) = why.candidates.as_ref().filter(|found| found.fit == 0) else { return };
        let wants = wants(self.claim);
        if found.total == 0 {
            let message = format!(
                "The claim requests {wants}, and there are no volumes: create one, or use a class with a provisioner."
            );
            why.push(Severity::Attention, Cause::new(Code::NoVolumeFits, message, Vec::new()));
            return;
        }
        let counted: Vec<String> = found
            .by_rule
            .iter()
            .map(|one| format!("{} {}", one.count, reason(one.rule, one.count)))
            .collect();
        let mut message = match found.total {
            1 => format!("The claim requests {wants}, and the only volume does not fit."),
            total => format!(
                "The claim requests {wants}, and none of {total} volumes fits: {}.",
                counted.join(", ")
            ),
        };
        let mut objects = Vec::new();
        if let Some(nearest) = found.nearest.first() {
            let against: Vec<&str> =
                nearest.verdicts.iter().filter(|verdict| !verdict.ok).map(|v| v.message.as_str()).collect();
            let which = if found.total == 1 { "The volume" } else { "The nearest" };
            message.push_str(&format!(" {which} is {}: {}.", nearest.volume, against.join("; ")));
            objects.push(Reference::named::<PersistentVolume>(None, &nearest.volume));
            if nearest.first == Some(Rule::VolumeMode) && nearest.fix.is_none() {
                message
                    .push_str(" The mode cannot be changed: recreate the claim with the other volumeMode.");
            }
        }
        // The nearest of the volumes that can be made to fit.
        let fix = found.nearest.iter().find_map(|candidate| candidate.fix.clone());
        why.push(Severity::Attention, Cause::new(Code::NoVolumeFits, message, objects).fixed_by(fix));
    }
}

/// Whether the nearest volume, which the message names, has the class of the claim.
fn is_held(why: &Why) -> bool {
    let nearest = why.candidates.as_ref().and_then(|found| found.nearest.first());
    nearest.is_some_and(|one| one.verdicts.iter().any(|verdict| verdict.rule == Rule::Class && verdict.ok))
}

/// The request of a claim as text.
fn wants(claim: &PersistentVolumeClaim) -> String {
    let size = fit::request(claim).map_or_else(|| "an unreadable size".to_owned(), |size| size.to_string());
    let modes = words::modes(fit::requested_modes(claim));
    let class = class::claim_class(claim);
    let class = if class.is_empty() { "no class".to_owned() } else { format!("class {class}") };
    format!("{size}, {modes}, {class}")
}

/// The reason of a rule, to follow the number of volumes.
fn reason(rule: Rule, count: usize) -> &'static str {
    let one = count == 1;
    match rule {
        Rule::ClaimRef if one => "belongs to another claim",
        Rule::ClaimRef => "belong to other claims",
        Rule::AccessModes if one => "lacks an access mode",
        Rule::AccessModes => "lack an access mode",
        Rule::Size if one => "is too small",
        Rule::Size => "are too small",
        Rule::VolumeMode if one => "has the other volume mode",
        Rule::VolumeMode => "have the other volume mode",
        Rule::AttributesClass if one => "has another volume attributes class",
        Rule::AttributesClass => "have another volume attributes class",
        Rule::Terminating if one => "is being deleted",
        Rule::Terminating => "are being deleted",
        Rule::Phase if one => "is not Available",
        Rule::Phase => "are not Available",
        Rule::Selector if one => "lacks the labels",
        Rule::Selector => "lack the labels",
        Rule::Class if one => "has another class",
        Rule::Class => "have another class",
        Rule::NodeAffinity if one => "cannot be used where the pod may run",
        Rule::NodeAffinity => "cannot be used where the pod may run",
    }
}
