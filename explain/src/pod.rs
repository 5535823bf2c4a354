//! Explains what the volumes of a pod wait for: a claim, a node, detachment from another node, a driver, or a
//! mount.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};

use orlop_client::meta;
use orlop_client::names::{ANN_DETACH_NOT_BEFORE, reason};
use orlop_client::pods;
use orlop_controller::node_lifecycle::health::Readiness;
use orlop_volume::affinity::accepts_node;
use orlop_volume::fit;
use orlop_volume::object::{self, ClaimPhase, volume_name};

use super::cluster_view::{ClusterView, seen};
use super::model::{Cause, Code, Reference, Severity, Why};
use super::scheduling::unschedulable;
use super::words;
use super::{claim, node};
use orlop_controller::scheduler::filter::taints::Tolerations;

/// Maximum number of claims of a pod that are read.
const CLAIMS: usize = 1000;
/// Maximum number of claims of a pod that are explained; each may cost a search through all volumes or nodes.
const EXPLAINED: usize = 20;

/// A pod whose claims are explained, and the results so far.
struct AskingPod<'a> {
    pod: &'a Pod,
    /// Its node, if it has one.
    node: Option<&'a str>,
    tolerations: Tolerations<'a>,
    /// All nodes, each with the reason that the pod cannot run there. Read with the first volume.
    nodes: OnceCell<Vec<NodeRefusal>>,
    /// The claims that were explained.
    explained: usize,
    /// The claims that were not.
    left: usize,
}

/// A node, and why a pod cannot run there, whatever its volumes are.
type NodeRefusal = (Arc<Node>, Option<(Code, String)>);

impl<'a> AskingPod<'a> {
    fn new(pod: &'a Pod, node: Option<&'a str>) -> Self {
        let tolerations = Tolerations::of(pod);
        Self { pod, node, tolerations, nodes: OnceCell::new(), explained: 0, left: 0 }
    }

    fn nodes(&self, world: &dyn ClusterView) -> &[NodeRefusal] {
        self.nodes.get_or_init(|| {
            let refusal = |node: Arc<Node>| {
                let refusal = node::refusal(self.pod, &self.tolerations, &node);
                (node, refusal)
            };
            world.nodes().into_iter().map(refusal).collect()
        })
    }

    /// Whether another claim may be explained.
    fn takes_another(&mut self) -> bool {
        let takes = self.explained < EXPLAINED;
        if takes {
            self.explained += 1;
        } else {
            self.left += 1;
        }
        takes
    }
}

/// Explains a pod that is not being deleted.
pub fn explain(world: &dyn ClusterView, pod: &Arc<Pod>, why: &mut Why) {
    let left = explain_some(world, pod, why);
    if left > 0 {
        let (name, claims) = (object::name(&pod.metadata), words::count(left, "more claim"));
        let message =
            format!("Pod {name} uses {claims} that this answer does not explain. Explain each separately.");
        why.push(Severity::Ok, Cause::new(Code::ClaimsLeftOut, message, Vec::new()));
    }
}

/// Explains a pod with a limited number of claims. Returns how many were left out.
fn explain_some(world: &dyn ClusterView, pod: &Arc<Pod>, why: &mut Why) -> usize {
    let phase = pods::phase(pod);
    why.state = if phase.is_empty() { "Pending".to_owned() } else { phase.to_owned() };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if pods::is_finished(pod) {
        why.summary = format!("Pod {name} has finished ({phase}); its volumes are released.");
        return 0;
    }
    let here = pods::node_name(pod).map(|name| (name, world.node(name)));
    if let Some((_, Some(node))) = &here {
        node::health(world, node, why);
    }
    let mut asking = AskingPod::new(pod, here.as_ref().map(|(name, _)| *name));
    let keys = pods::claim_keys(pod);
    for key in keys.iter().take(CLAIMS) {
        of_claim(world, &mut asking, key, why);
    }
    let left = asking.left + keys.len().saturating_sub(CLAIMS);
    let Some((node, _)) = here else {
        if let Some(said) = unschedulable(pod) {
            let message = format!("No node fits pod {name}: {}.", words::open(&said));
            why.push(Severity::Attention, Cause::new(Code::Unschedulable, message, Vec::new()));
        } else if why.causes.is_empty() {
            let message = format!("Pod {name} has no node yet; the scheduler will process it soon.");
            why.push(Severity::Waiting, Cause::new(Code::NotScheduled, message, Vec::new()));
        }
        return left;
    };
    if phase == "Running" {
        let uses = if keys.is_empty() { String::new() } else { format!(" with {}", words::list(&keys)) };
        let first = why.causes.first().map(|cause| format!(" {}", cause.message)).unwrap_or_default();
        why.summary = format!("Pod {name} runs on node {node}{uses}.{first}");
        return left;
    }
    mounting(world, pod, node, why);
    if why.causes.is_empty() {
        let message = format!(
            "The volumes of pod {name} are ready to be mounted on node {node}, which is starting the pod."
        );
        why.push(
            Severity::Waiting,
            Cause::new(Code::Starting, message, vec![Reference::named::<Node>(None, node)]),
        );
    }
    left
}

/// Explains the node's reports about mounting volumes.
fn mounting(world: &dyn ClusterView, pod: &Pod, node: &str, why: &mut Why) {
    let this = Reference::to(pod);
    let node_object = || vec![Reference::named::<Node>(None, node)];
    let failure = world.event(&this, &[reason::FAILED_MOUNT, reason::FAILED_MAP_VOLUME]);
    let ownership = world.event(&this, &[reason::VOLUME_PERMISSION_CHANGE]);
    let newer = ownership.is_some_and(|event| failure.is_none_or(|failure| seen(event) >= seen(failure)));
    if let Some(said) = ownership.filter(|_| newer).and_then(|event| event.message.as_deref()) {
        let group = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()?.fs_group);
        let group = group.map_or_else(String::new, |group| format!(" (fsGroup {group})"));
        // The format of the node agent's message: "..., processed N files."
        let files = said.split("processed ").nth(1).and_then(|rest| rest.split(' ').next());
        let files = files.map_or_else(String::new, |files| format!("; {files} files so far"));
        let message = format!(
            "Node {node} sets the pod's group{group} on every file of a volume{files}. The pod starts after that. With fsGroupChangePolicy OnRootMismatch, files are changed only if the root directory does not match."
        );
        why.push(Severity::Waiting, Cause::new(Code::OwnershipChanging, message, node_object()));
        return;
    }
    if let Some(said) = failure.and_then(|event| event.message.as_deref()) {
        let message = format!("Node {node} could not mount a volume: {}. It retries.", words::open(said));
        why.push(Severity::Attention, Cause::new(Code::MountFailed, message, node_object()));
    }
}

/// Explains a pod without a node whose bound volume restricts its nodes, with the reason against each node.
fn pinned(
    world: &dyn ClusterView,
    asking: &AskingPod<'_>,
    claim: &str,
    volume: &Arc<PersistentVolume>,
    why: &mut Why,
) {
    let nodes = asking.nodes(world);
    let empty = BTreeMap::new();
    let reached: Vec<&NodeRefusal> = nodes
        .iter()
        .filter(|(node, _)| accepts_node(volume, node.metadata.labels.as_ref().unwrap_or(&empty)))
        .collect();
    let mut against: Vec<(Code, String)> = Vec::with_capacity(reached.len());
    for (node, refusal) in &reached {
        match refusal.clone().or_else(|| node::full(world, node, volume)) {
            Some(refusal) => against.push(refusal),
            // The pod can run here: nothing to explain.
            None => return,
        }
    }
    if nodes.is_empty() {
        return;
    }
    let name = object::name(&volume.metadata);
    let free = reached.len() == nodes.len();
    let code = match against.iter().any(|(code, _)| *code == Code::DriverFull) {
        true => Code::DriverFull,
        // The volume is not the cause; the scheduler's message explains it better.
        false if free => return,
        false => Code::VolumePinsPod,
    };
    let reasons: Vec<&str> = against.iter().map(|(_, reason)| reason.as_str()).collect();
    let why_not = if reasons.is_empty() { "no such node exists".to_owned() } else { words::list(&reasons) };
    let place = if free { "every node".to_owned() } else { format!("{} only", words::affinity(volume)) };
    let message = format!("Volume {name} of claim {claim} can be used on {place}, and {why_not}.");
    let mut objects = vec![Reference::to(volume.as_ref())];
    objects.extend(reached.iter().take(3).map(|(node, _)| Reference::to(node.as_ref())));
    why.push(Severity::Attention, Cause::new(code, message, objects));
}

fn of_claim(world: &dyn ClusterView, asking: &mut AskingPod<'_>, key: &str, why: &mut Why) {
    let (pod, node) = (asking.pod, asking.node);
    let (namespace, name) = orlop_client::informer::split_key(key);
    let reference = Reference::named::<PersistentVolumeClaim>(Some(namespace), name);
    let Some(claim) = world.claim(key) else {
        let volume = name.strip_prefix(object::name(&pod.metadata)).and_then(|rest| rest.strip_prefix('-'));
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let ephemeral =
            volumes.iter().any(|one| volume == Some(one.name.as_str()) && one.ephemeral.is_some());
        let (severity, next) = match ephemeral {
            true => (Severity::Waiting, "it will be created for the pod"),
            false => (Severity::Attention, "create it, or correct the pod"),
        };
        let message = format!("Claim {key}, which the pod uses, does not exist: {next}.");
        why.push(severity, Cause::new(Code::ClaimMissing, message, vec![reference]));
        return;
    };
    if object::is_terminating(&claim.metadata) && node.is_none() {
        let message = format!("Claim {key} is being deleted; the pod cannot be scheduled with it.");
        why.push(
            Severity::Attention,
            Cause::new(Code::ClaimTerminating, message, vec![Reference::to(claim.as_ref())]),
        );
        return;
    }
    if ClaimPhase::of(&claim) != ClaimPhase::Bound {
        if asking.takes_another() {
            not_bound(world, &claim, key, why);
        }
        return;
    }
    let Some(volume) = world.volume(volume_name(&claim)) else { return };
    let Some(node) = node else {
        if asking.takes_another() {
            pinned(world, asking, key, &volume, why);
        }
        return;
    };
    if pods::phase(pod) != "Running" {
        on_node(world, &volume, node, why);
    }
}

fn not_bound(world: &dyn ClusterView, claim: &Arc<PersistentVolumeClaim>, key: &str, why: &mut Why) {
    let cause = claim::first_cause(world, claim);
    // That the claim waits for this pod's node does not explain the pod.
    let waits = cause.as_ref().is_some_and(|cause| cause.code == Code::PodNotScheduled);
    let severity = match &cause {
        Some(cause)
            if matches!(cause.code, Code::Binding | Code::DefaultClassComing | Code::WaitsForProvisioner) =>
        {
            Severity::Waiting
        }
        Some(_) | None => Severity::Attention,
    };
    let mut objects = vec![Reference::to(claim.as_ref())];
    let (said, fix) = match cause {
        Some(cause) if !waits => {
            objects.extend(cause.objects);
            (cause.message, cause.fix)
        }
        Some(_) | None => ("It will be bound when the pod is scheduled.".to_owned(), None),
    };
    let severity = if waits { Severity::Waiting } else { severity };
    let phase = ClaimPhase::of(claim);
    let phase = if phase == ClaimPhase::Lost { "Lost" } else { "not bound yet" };
    let message = format!("Claim {key} is {phase}. {said}");
    why.push(severity, Cause::new(Code::ClaimNotBound, message, objects).fixed_by(fix));
}

/// Whether the attachment reports its volume as attached.
pub(super) fn is_attached(attachment: &VolumeAttachment) -> bool {
    attachment.status.as_ref().is_some_and(|status| status.attached)
}

fn on_node(world: &dyn ClusterView, volume: &Arc<PersistentVolume>, node: &str, why: &mut Why) {
    let Some(csi) = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()) else { return };
    let (driver, name) = (csi.driver.as_str(), object::name(&volume.metadata));
    let there =
        world.csi_node(node).is_some_and(|node| node.spec.drivers.iter().any(|one| one.name == driver));
    if !there {
        let message = format!(
            "Driver {driver} of volume {name} is not registered on node {node}: the volume cannot be used there until the driver is registered."
        );
        let object = Reference::named::<CSINode>(None, node);
        why.push(Severity::Attention, Cause::new(Code::DriverNotOnNode, message, vec![object]));
    }
    let required = world.driver(driver).and_then(|driver| driver.spec.attach_required).unwrap_or(true);
    if !required {
        return;
    }
    let attachments = world.attachments_of_volume(name);
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        attachments.into_iter().partition(|one| one.spec.node_name == node);
    if here.iter().any(|one| is_attached(one) && one.metadata.deletion_timestamp.is_none()) {
        return;
    }
    let many =
        fit::offered_modes(volume).iter().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany");
    if !many && let Some(held) = elsewhere.first() {
        held_by(world, volume, node, held, why);
        return;
    }
    let error = here.iter().find_map(|one| one.status.as_ref()?.attach_error.as_ref()?.message.clone());
    let mut objects = vec![Reference::to(volume.as_ref())];
    objects.extend(here.iter().map(|one| Reference::to(one.as_ref())));
    match error {
        Some(error) => {
            let message = format!(
                "Volume {name} could not be attached to node {node}: {}. The driver retries.",
                words::open(&error)
            );
            why.push(Severity::Attention, Cause::new(Code::AttachFailed, message, objects));
        }
        None => {
            let message =
                format!("Volume {name} is not attached to node {node} yet; {driver} is attaching it.");
            why.push(Severity::Waiting, Cause::new(Code::AttachPending, message, objects));
        }
    }
}

/// Explains a single-node volume that is attached to another node.
fn held_by(
    world: &dyn ClusterView,
    volume: &Arc<PersistentVolume>,
    node: &str,
    held: &Arc<VolumeAttachment>,
    why: &mut Why,
) {
    let (name, holder) = (object::name(&volume.metadata), held.spec.node_name.as_str());
    let claim = object::claim_ref(volume).map(object::reference_key).unwrap_or_default();
    let users: Vec<Arc<Pod>> = world
        .pods_of_claim(&claim)
        .into_iter()
        .filter(|pod| pods::node_name(pod) == Some(holder) && !pods::is_finished(pod))
        .collect();
    let users_named: Vec<String> =
        users.iter().map(|pod| format!("pod {}", object::name(&pod.metadata))).collect();
    let there = world.node(holder);
    let lost = there.as_ref().is_none_or(|node| Readiness::of(node) != Readiness::Ready);
    let is_out = there.as_ref().is_some_and(|node| node::is_out_of_service(node));
    let until = meta::annotation(held.as_ref(), ANN_DETACH_NOT_BEFORE);
    let (severity, next) = match (users_named.as_slice(), until) {
        (_, Some(time)) => (
            Severity::Waiting,
            format!(
                "Node {holder} is not ready: the volume will be detached by force at {time}, unless the node recovers."
            ),
        ),
        ([], None) if is_out => (
            Severity::Waiting,
            format!("Node {holder} is out of service: the volume is detached by force immediately."),
        ),
        ([], None) if lost => (
            Severity::Waiting,
            format!(
                "Node {holder} is not ready, so the volume may still be mounted; the force-detach timeout starts soon."
            ),
        ),
        ([], None) => {
            (Severity::Waiting, format!("No pod uses it there any more; node {holder} is unmounting it."))
        }
        (some, None) if is_out => (
            Severity::Waiting,
            format!(
                "Node {holder} is out of service, so {} {} removed from it; the volume is free after that.",
                words::list(some),
                if some.len() == 1 { "is" } else { "are" },
            ),
        ),
        // A deleted node cannot be tainted.
        (some, None) if there.is_none() => (
            Severity::Waiting,
            format!(
                "Node {holder} does not exist any more, so {} will be garbage-collected soon; the volume is released after that.",
                words::list(some),
            ),
        ),
        (some, None) if lost => (
            Severity::Attention,
            format!(
                "Node {holder} is not ready, and {} still {} the volume there. If the machine is down, add the taint: {}. This releases the volume.",
                words::list(some),
                if some.len() == 1 { "uses" } else { "use" },
                node::say_down(holder)
            ),
        ),
        (some, None) => (
            Severity::Attention,
            format!(
                "On node {holder}, {} {} it: the volume is free when {} ended.",
                words::list(some),
                if some.len() == 1 { "uses" } else { "use" },
                if some.len() == 1 { "that pod has" } else { "those pods have" },
            ),
        ),
    };
    let message = format!(
        "Volume {name} can be attached to one node at a time: it is attached to {holder} and needed on {node}. {next}"
    );
    let mut objects = vec![
        Reference::to(volume.as_ref()),
        Reference::to(held.as_ref()),
        Reference::named::<Node>(None, holder),
    ];
    objects.extend(users.iter().map(|pod| Reference::to(pod.as_ref())));
    why.push(severity, Cause::new(Code::HeldByNode, message, objects).until(until));
}
