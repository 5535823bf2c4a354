//! Explains claims that name their volume, and claims that were bound: the problem of that one volume.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PersistentVolume;
use orlop_apimachinery::quantity::Quantity;
use serde_json::json;

use super::{Asking, name, pod_name};
use crate::candidates;
use crate::facts::ClaimRequest;
use crate::fix;
use crate::model::{Cause, Code, Fix, Reference, Rule, Severity, Why};
use crate::node;
use crate::provisioning;
use crate::words;
use orlop_client::pods;
use orlop_volume::class;
use orlop_volume::fit::{self, Misfit};
use orlop_volume::object::{self, claim_key, volume_name};

impl Asking<'_> {
    pub(super) fn named_unknown(&self, why: &mut Why) {
        let wanted = volume_name(self.claim);
        let message = format!(
            "The claim names volume {wanted}, which does not exist. The claim is bound as soon as a volume of this name is created; if the volume was deleted by mistake, `orlop undelete pv/{wanted}` restores it."
        );
        let object = Reference::named::<PersistentVolume>(None, wanted);
        let cause = Cause::new(Code::VolumeMissing, message, vec![object]).fixed_by(self.recreate_nameless());
        why.push(Severity::Attention, cause);
    }

    /// Recreates the claim without the name of its volume, if it would then be bound.
    fn recreate_nameless(&self) -> Option<Fix> {
        let mut free = self.claim.as_ref().clone();
        free.spec.as_mut()?.volume_name = None;
        let class = self.world.class(class::claim_class(&free));
        let how = match candidates::judge(self.world, &free, None).fitting {
            Some(volume) => format!("volume {} fits and will be bound", name(&volume)),
            None => {
                let provisioner =
                    class.as_deref().filter(|class| provisioning::is_answered(self.world, class))?;
                format!("{} will provision a volume", provisioner.provisioner)
            }
        };
        fix::recreate_claim(&free, &json!({}), &format!("without the name of a volume ({how})"))
    }

    pub(super) fn named_unfit(&self, why: &mut Why, volume: &PersistentVolume, misfit: &Misfit) {
        let first = candidates::explain_misfit(misfit, volume, self.claim);
        let (all, against): (Vec<_>, Vec<_>) = self.named_rules(volume).into_iter().unzip();
        let more: Vec<String> = against.into_iter().filter(|one| *one != first).collect();
        let more = if more.is_empty() { String::new() } else { format!("; also: {}", more.join("; ")) };
        let message = format!("The claim names volume {}, which does not fit: {first}{more}.", name(volume));
        // A terminating volume can only be recreated under another name, and the claim names this one.
        let fix = Some(all).filter(|all| !all.contains(&Rule::Terminating));
        let fix = fix.and_then(|all| fix::of_candidate(self.world, volume, self.claim, &all, None));
        let fix = fix.or_else(|| self.recreate_nameless());
        let cause = Cause::new(Code::VolumeUnfit, message, vec![Reference::to(volume)]);
        why.push(Severity::Attention, cause.fixed_by(fix));
    }

    /// Every failed rule of a volume that the claim names; its labels and phase do not count.
    fn named_rules(&self, volume: &PersistentVolume) -> Vec<(Rule, String)> {
        let rules = [
            (Rule::Terminating, fit::terminating(volume)),
            (Rule::Size, fit::too_small(volume, self.claim)),
            (Rule::Class, fit::class_differs(volume, self.claim)),
            (Rule::AttributesClass, fit::attributes_class_differs(volume, self.claim)),
            (Rule::VolumeMode, fit::mode_differs(volume, self.claim)),
            (Rule::AccessModes, fit::access_modes_missing(volume, self.claim)),
        ];
        let explain = |misfit: Misfit| candidates::explain_misfit(&misfit, volume, self.claim);
        rules.into_iter().filter_map(|(rule, misfit)| Some((rule, explain(misfit?)))).collect()
    }

    pub(super) fn named_taken(&self, why: &mut Why, volume: &PersistentVolume) {
        let Some(reference) = object::claim_ref(volume) else { return };
        let holder = object::reference_key(reference);
        let there = self.world.claim(&holder);
        let there = there.filter(|held| {
            let uid = object::reference_uid(reference);
            uid.is_empty() || uid == object::uid(&held.metadata)
        });
        let fix = fix::of_candidate(self.world, volume, self.claim, &[Rule::ClaimRef], None);
        let mut objects = vec![Reference::to(volume)];
        let tail = match &there {
            Some(held) => {
                objects.push(Reference::to(held.as_ref()));
                "which exists. Delete that claim first, or recreate this one for another volume".to_owned()
            }
            None if fix.is_some() => "which was deleted; the volume can be assigned to this claim".to_owned(),
            None => {
                format!("which was deleted; policy {} applies to the volume", object::reclaim_policy(volume))
            }
        };
        let message =
            format!("The claim names volume {}, which is bound to claim {holder}, {tail}.", name(volume));
        let fix = fix.or_else(|| self.recreate_nameless());
        why.push(Severity::Attention, Cause::new(Code::VolumeTaken, message, objects).fixed_by(fix));
    }

    pub(super) fn stolen(&self, why: &mut Why, volume: &PersistentVolume) {
        let holder = object::claim_ref(volume).map(object::reference_key).unwrap_or_default();
        let message = format!(
            "Volume {} was being bound to this claim when it was assigned to claim {holder}. orlop does not resolve this: decide which claim should have the volume, and correct claimRef.",
            name(volume)
        );
        why.push(Severity::Attention, Cause::new(Code::VolumeStolen, message, vec![Reference::to(volume)]));
    }

    // Claims that were bound.

    pub(super) fn nameless(&self, why: &mut Why) {
        let mut pointing = None;
        let asked = ClaimRequest::of(self.claim);
        self.world.facts(&mut |facts| {
            if facts.points_to(&asked) {
                pointing = Some(facts.name.to_string());
            }
        });
        let message = match &pointing {
            Some(volume) => format!(
                "The claim was bound, and its volumeName was removed. Volume {volume} is still bound to it, with \
                 its data."
            ),
            None => format!(
                "The claim was bound, and its volumeName was removed. No volume is bound to it any more. Find \
                 the name of the volume in the history of the claim: `orlop history pvc/{} -n {}`.",
                object::name(&self.claim.metadata),
                self.claim.metadata.namespace.as_deref().unwrap_or_default()
            ),
        };
        let target = Reference::to(self.claim.as_ref());
        let fix = pointing.as_ref().map(|volume| {
            let body = json!({"spec": {"volumeName": volume}});
            Fix::merge(target, body, format!("Writes the name of volume {volume} into spec.volumeName."))
                .or_plan(self.recover(""))
        });
        let objects = pointing.iter().map(|name| Reference::named::<PersistentVolume>(None, name)).collect();
        why.push(Severity::Attention, Cause::new(Code::LostName, message, objects).fixed_by(fix));
    }

    pub(super) fn volume_gone(&self, why: &mut Why) {
        let volume = volume_name(self.claim);
        let message = format!(
            "The claim was bound to volume {volume}, whose object was deleted. If the storage behind it still exists, so does the data: \
             restore the object, and the claim is bound again."
        );
        let object = Reference::named::<PersistentVolume>(None, volume);
        let fix = self.recover(&format!(
            "Restores the last state of volume {volume}, with policy Retain. The server's history must contain the volume."
        ));
        let cause = Cause::new(Code::LostVolume, message, vec![object]).fixed_by(Some(fix));
        why.push(Severity::Attention, cause);
    }

    /// The plan that recovers a Lost claim.
    fn recover(&self, message: &str) -> Fix {
        let target = Reference::to(self.claim.as_ref());
        let inside = target.namespace.as_deref().map(|one| format!(" -n {one}")).unwrap_or_default();
        let command = format!("orlop pvc recover {}{inside}", target.name);
        Fix::plan(target, "recover", json!({}), command, message)
    }

    pub(super) fn elsewhere(&self, why: &mut Why, volume: &PersistentVolume) {
        let Some(reference) = object::claim_ref(volume) else { return };
        let holder = object::reference_key(reference);
        let taken = match holder == claim_key(self.claim) {
            true => "an earlier claim of this name".to_owned(),
            false => format!("claim {holder}"),
        };
        let fix = fix::of_candidate(self.world, volume, self.claim, &[Rule::ClaimRef], None);
        let fix = fix.map(|fix| fix.or_plan(self.recover("")));
        let next = match fix {
            Some(_) => "that claim was deleted, and the volume can be assigned to this one again",
            None => "decide which claim gets it; the other one must be deleted first",
        };
        let message = format!("Volume {} of this claim is assigned to {taken}: {next}.", name(volume));
        why.push(
            Severity::Attention,
            Cause::new(Code::LostToOther, message, vec![Reference::to(volume)]).fixed_by(fix),
        );
    }

    pub(super) fn bound(&self, why: &mut Why, volume: &PersistentVolume) {
        let pods = self.world.pods_of_claim(&claim_key(self.claim));
        let users: Vec<_> = pods.iter().filter(|pod| !pods::is_finished(pod)).collect();
        let nodes: BTreeSet<&str> = users.iter().filter_map(|pod| pods::node_name(pod)).collect();
        let used: Vec<String> = users.iter().map(|pod| pod_name(pod)).collect();
        let used = if used.is_empty() {
            "no pod uses it".to_owned()
        } else {
            format!("used by {}", words::list(&used))
        };
        let has = self.capacity();
        if let (Some(wants), Some(has)) = (fit::request(self.claim), has.as_ref())
            && *has < wants
        {
            let said = self.condition(&[
                "Resizing",
                "FileSystemResizePending",
                "ControllerResizeError",
                "NodeResizeError",
            ]);
            let message =
                format!("The claim has {has} and requests {wants}; its volume is being expanded.{said}");
            why.push(
                Severity::Waiting,
                Cause::new(Code::ResizePending, message, vec![Reference::to(volume)]),
            );
        }
        let current =
            self.claim.status.as_ref().and_then(|s| s.current_volume_attributes_class_name.as_deref());
        let wanted = class::claim_attributes_class(self.claim);
        if !wanted.is_empty() && current.unwrap_or_default() != wanted {
            provisioning::attributes_class(self.world, self.claim, why);
            let said = self.condition(&["ModifyVolumeError", "ModifyingVolume"]);
            let have = words::or_none(current.unwrap_or_default());
            let message =
                format!("The claim requests the volume attributes class {wanted} and has {have}.{said}");
            why.push(
                Severity::Waiting,
                Cause::new(Code::ModifyPending, message, vec![Reference::to(volume)]),
            );
        }
        for node in nodes {
            node::silence(self.world, node, why);
        }
        let size = has.map_or_else(String::new, |size| format!(" ({size})"));
        let first = why.causes.first().map(|cause| format!(" {}", cause.message)).unwrap_or_default();
        why.summary = format!("Bound to volume {}{size}; {used}.{first}", name(volume));
    }

    fn capacity(&self) -> Option<Quantity> {
        let capacity = self.claim.status.as_ref()?.capacity.as_ref()?.get("storage")?;
        Quantity::parse(&capacity.0).ok()
    }

    /// The message of a condition of one of these types, as a sentence to append.
    fn condition(&self, types: &[&str]) -> String {
        let conditions =
            self.claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let said = conditions.iter().find(|one| types.contains(&one.type_.as_str()) && one.status == "True");
        let said = said.and_then(|one| one.message.as_deref()).filter(|message| !message.is_empty());
        said.map(|message| format!(" Message: {}.", words::open(message))).unwrap_or_default()
    }
}
