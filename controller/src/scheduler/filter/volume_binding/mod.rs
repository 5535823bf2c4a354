//! The rule for claims and their volumes. First, for the pod alone: do its claims allow scheduling? Then, for each node: are its
//! bound volumes accessible there, and can the claims that wait for a node be bound or provisioned there?

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use orlop_apimachinery::quantity::Quantity;
use orlop_apimachinery::steps::Steps;

use super::super::cluster::NodeFacts;
use super::super::terms::Labels;
use super::super::volumes::Volumes;
use super::{Broken, Misfit, Rule};
use crate::pv::index::{NodeChoices, NodeSearch};
use orlop_client::names;
use orlop_client::packed_object::PackedObject;
use orlop_client::pods;
use orlop_volume::affinity::accepts_node;
use orlop_volume::object::{self, ClaimPhase};
use orlop_volume::{class, fit};

const AFFINITY: &str = "node(s) didn't match PersistentVolume's node affinity";
const NOTHING_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";
const NO_ROOM: &str = "node(s) did not have enough free storage";
const VOLUME_GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

const TOO_MANY: &str =
    "the pod has too many unbound claims to compare each with all free volumes on each node";
/// Volumes that every decision may visit.
const VISITS: usize = 2_000_000;
/// Maximum number of claims that each visit all volumes on each node.
const CLAIMS: usize = 4;

/// The volumes that a decision about a pod may visit, in a cluster of this size.
pub fn visits(nodes: usize, volumes: usize) -> Steps {
    Steps::new(VISITS.max(nodes.saturating_mul(volumes).saturating_mul(CLAIMS)) as u64)
}

/// The claims of a schedulable pod.
#[derive(Debug, Default)]
pub struct PodClaims {
    /// Claims that are bound.
    pub bound: Vec<Bound>,
    /// Claims that wait for a node, the smallest first.
    pub delayed: Vec<Delayed>,
}

/// A bound claim. Read once, for all nodes.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The claim.
    pub claim: Arc<PersistentVolumeClaim>,
    /// The volume, if it exists.
    pub volume: Option<Arc<PersistentVolume>>,
}

/// A claim that waits for a node. Read once, for all nodes.
#[derive(Debug)]
pub struct Delayed {
    /// The claim.
    pub claim: Arc<PersistentVolumeClaim>,
    /// The search for a volume; none when no volume can ever match.
    search: Option<NodeSearch>,
    /// Its class, if it exists.
    class: Option<Arc<StorageClass>>,
    /// The capacity to look for, if its driver publishes capacity and the claim requests a size.
    size: Option<Quantity>,
}

impl PodClaims {
    /// All claims.
    pub fn all(&self) -> impl Iterator<Item = &PersistentVolumeClaim> {
        let bound = self.bound.iter().map(|bound| bound.claim.as_ref());
        bound.chain(self.delayed.iter().map(|delayed| delayed.claim.as_ref()))
    }
}

/// The result of one node for the claims of a pod: [`PodVolumes`] whose volumes are not read yet.
#[derive(Debug, Default)]
pub struct Plan {
    bind: Vec<(PackedObject<PersistentVolume>, Arc<PersistentVolumeClaim>)>,
    provision: Vec<Arc<PersistentVolumeClaim>>,
}

impl Plan {
    /// Reads the volumes.
    pub fn read(self) -> PodVolumes {
        let bind = self.bind.into_iter().map(|(volume, claim)| (volume.get(), claim)).collect();
        PodVolumes { bind, provision: self.provision }
    }
}

/// The operations on the claims of a pod for one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodVolumes {
    /// Existing volumes and the claims to bind them to.
    pub bind: Vec<(Arc<PersistentVolume>, Arc<PersistentVolumeClaim>)>,
    /// Claims to provision a volume for.
    pub provision: Vec<Arc<PersistentVolumeClaim>>,
}

/// Why the claims of a pod do not allow scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// No node is feasible.
    Unfit(String),
    /// The state cannot be evaluated.
    Broken(Broken),
}

/// Whether the binding of a claim is complete.
pub fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    !object::volume_name(claim).is_empty()
        && object::has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED)
}

/// The node selected for a claim.
pub fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    object::annotation(&claim.metadata, names::ANN_SELECTED_NODE)
}

/// The claims of a pod, or why no node is feasible for it.
pub fn claims_of(pod: &Pod, volumes: &Volumes) -> Result<PodClaims, NotNow> {
    let mut claims = PodClaims::default();
    let mut immediate = false;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let listed = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    for volume in listed {
        let (name, ephemeral) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => (source.claim_name.clone(), false),
            (None, Some(_)) => (pods::ephemeral_claim_name(pod, &volume.name), true),
            (None, None) => continue,
        };
        let claim = volumes.claim(&format!("{namespace}/{name}"));
        let claim = usable(pod, &name, ephemeral, claim).map_err(NotNow::Unfit)?;
        if is_bound(&claim) {
            let volume = volumes.volume(object::volume_name(&claim));
            claims.bound.push(Bound { claim, volume });
            continue;
        }
        let class = volumes.class(class::claim_class(&claim));
        let delays = class::delays_binding(class.as_deref());
        let delays = delays.map_err(|why| NotNow::Broken(Broken(why.to_string())))?;
        if delays && object::volume_name(&claim).is_empty() {
            let tells = class.as_ref().is_some_and(|class| volumes.tells_capacity(&class.provisioner));
            let size = if tells { size_of(&claim) } else { None };
            let search = volumes.index().search(&claim);
            claims.delayed.push(Delayed { claim, search, class, size });
        } else {
            immediate = true;
        }
    }
    if immediate {
        return Err(NotNow::Unfit(IMMEDIATE.to_owned()));
    }
    claims.delayed.sort_by_cached_key(|delayed| fit::request(&delayed.claim));
    Ok(claims)
}

/// The claim if this pod may use it, or upstream's reason why not.
fn usable(
    pod: &Pod,
    name: &str,
    ephemeral: bool,
    claim: Option<Arc<PersistentVolumeClaim>>,
) -> Result<Arc<PersistentVolumeClaim>, String> {
    let Some(claim) = claim else {
        return Err(match ephemeral {
            true => format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
            ),
            false => format!("persistentvolumeclaim \"{name}\" not found"),
        });
    };
    if ClaimPhase::of(&claim) == ClaimPhase::Lost {
        let volume = object::volume_name(&claim);
        return Err(format!(
            "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
        ));
    }
    if object::is_terminating(&claim.metadata) {
        return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
    }
    if ephemeral && !pods::owns_claim(pod, &claim) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let pod = object::name(&pod.metadata);
        return Err(format!(
            "PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
        ));
    }
    Ok(claim)
}

/// The rule: the operations needed on this node, or why it is infeasible.
pub fn check(
    claims: &PodClaims,
    volumes: &Volumes,
    node: &NodeFacts,
    steps: &Steps,
) -> Result<Result<Plan, Misfit>, Broken> {
    let mut reasons = Vec::new();
    let mut no = |reason: &str| reasons.push(reason.to_owned());
    for bound in &claims.bound {
        match &bound.volume {
            None => {
                no(VOLUME_GONE);
                break;
            }
            Some(volume) if !accepts_node(volume, &node.labels) => {
                no(AFFINITY);
                break;
            }
            Some(_) => {}
        }
    }
    let mut found = Plan::default();
    let elsewhere =
        |delayed: &Delayed| selected_node(&delayed.claim).is_some_and(|selected| selected != node.name);
    if claims.delayed.iter().any(elsewhere) {
        no(NOTHING_TO_BIND);
    } else {
        match find(claims, volumes, node, steps, &mut found)? {
            Provision::Yes => {}
            Provision::No => no(NOTHING_TO_BIND),
            Provision::NoRoom => no(NO_ROOM),
        }
    }
    if reasons.is_empty() {
        return Ok(Ok(found));
    }
    // Upstream's order.
    let order = [AFFINITY, NOTHING_TO_BIND, NO_ROOM, VOLUME_GONE];
    reasons.sort_by_key(|reason| order.iter().position(|one| one == reason));
    Ok(Err(Misfit { reasons, resolvable: false, rule: Rule::VolumeBinding }))
}

enum Provision {
    Yes,
    No,
    NoRoom,
}

/// Finds a volume for each waiting claim, or checks whether one can be provisioned.
fn find(
    claims: &PodClaims,
    volumes: &Volumes,
    node: &NodeFacts,
    steps: &Steps,
    found: &mut Plan,
) -> Result<Provision, Broken> {
    let mut to_make = Vec::new();
    let mut choices = NodeChoices::new(volumes.index(), &node.labels);
    for delayed in &claims.delayed {
        let claim = &delayed.claim;
        let volume = match &delayed.search {
            // A provisioner is already requested to create its volume here.
            _ if selected_node(claim).is_some() => None,
            None => None,
            Some(search) => {
                let before = choices.visits();
                let volume = choices.choose(search);
                steps.take(choices.visits() - before).map_err(|_| Broken(TOO_MANY.to_owned()))?;
                volume
            }
        };
        match volume {
            Some(volume) => found.bind.push((volume.clone(), Arc::clone(claim))),
            None => {
                found.provision.push(Arc::clone(claim));
                to_make.push(delayed);
            }
        }
    }
    can_provision(&to_make, volumes, node)
}

fn can_provision(claims: &[&Delayed], volumes: &Volumes, node: &NodeFacts) -> Result<Provision, Broken> {
    for Delayed { claim, class, size, .. } in claims {
        let name = class::claim_class(claim);
        let class =
            class.as_ref().ok_or_else(|| Broken(format!("failed to find storage class \"{name}\"")))?;
        if !provisions(class) || !is_allowed(class, &node.labels) {
            return Ok(Provision::No);
        }
        if let Some(size) = size
            && !volumes.capacities().has_room(name, size, &node.labels)
        {
            return Ok(Provision::NoRoom);
        }
    }
    Ok(Provision::Yes)
}

fn provisions(class: &StorageClass) -> bool {
    !matches!(class.provisioner.as_str(), "" | "kubernetes.io/no-provisioner")
}

/// The size that a claim requests; none without a request.
fn size_of(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    Quantity::parse(&requests.get("storage")?.0).ok()
}

/// Whether the class allows volumes in the node's topology. Terms are ORed; no terms allow everything.
fn is_allowed(class: &StorageClass, labels: &Labels) -> bool {
    let Some(terms) = class.allowed_topologies.as_ref().filter(|terms| !terms.is_empty()) else {
        return true;
    };
    terms.iter().any(|term| {
        let mut wanted = term.match_label_expressions.iter().flatten().peekable();
        wanted.peek().is_some()
            && wanted.all(|one| labels.get(&one.key).is_some_and(|value| one.values.contains(value)))
    })
}

#[cfg(test)]
mod tests;
