//! Checks whether the claims of a pod are bound. Pure. Reasons to stop waiting are in upstream's texts.

use super::super::cluster::NodeFacts;
use super::super::filter::volume_binding::{is_bound, selected_node};
use super::super::volumes::Volumes;
use orlop_client::informer::split_key;
use orlop_volume::affinity::accepts_node;
use orlop_volume::object;

/// A claim that has to be bound before its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Awaited {
    /// `namespace/name` of the claim.
    pub claim: String,
    /// Its UID.
    pub uid: String,
    /// The volume selected for it; none when one has to be provisioned.
    pub volume: Option<String>,
}

/// The binding progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All are bound.
    Bound,
    /// Not all are bound.
    Waits,
}

/// The progress of the claims, or why waiting is useless.
pub(super) fn progress(awaited: &[Awaited], volumes: &Volumes, node: &NodeFacts) -> Result<Progress, String> {
    let mut all = Progress::Bound;
    for one in awaited {
        if of_claim(one, volumes, node)? == Progress::Waits {
            all = Progress::Waits;
        }
    }
    Ok(all)
}

fn of_claim(awaited: &Awaited, volumes: &Volumes, node: &NodeFacts) -> Result<Progress, String> {
    let name = split_key(&awaited.claim).1;
    let claim = volumes.claim(&awaited.claim).filter(|claim| object::uid(&claim.metadata) == awaited.uid);
    let claim = claim.ok_or_else(|| format!("persistentvolumeclaim \"{name}\" not found"))?;
    let unfit = |volume: &str| {
        format!(
            "pv \"{volume}\" node affinity doesn't match node \"{}\": no matching NodeSelectorTerms",
            node.name
        )
    };
    match &awaited.volume {
        Some(chosen) => {
            let volume = volumes.volume(chosen);
            let volume = volume.ok_or_else(|| format!("persistentvolume \"{chosen}\" not found"))?;
            if !accepts_node(&volume, &node.labels) {
                return Err(unfit(chosen));
            }
            if !object::points_to(&volume, &claim) {
                return Err(format!("ClaimRef got reset for pv \"{chosen}\""));
            }
        }
        None if claim.metadata.annotations.as_ref().is_none_or(|all| all.is_empty()) => {
            return Err(format!("selectedNode annotation reset for PVC \"{name}\""));
        }
        None if selected_node(&claim) != Some(&node.name) => {
            return Err(format!("provisioning failed for PVC \"{name}\""));
        }
        None => {}
    }
    let bound_to = object::volume_name(&claim);
    if bound_to.is_empty() {
        return Ok(Progress::Waits);
    }
    match volumes.volume(bound_to) {
        // It was bound, but the volume is not in the cache yet.
        None => Ok(Progress::Waits),
        Some(volume) if !accepts_node(&volume, &node.labels) => Err(unfit(bound_to)),
        Some(_) if is_bound(&claim) => Ok(Progress::Bound),
        Some(_) => Ok(Progress::Waits),
    }
}

#[cfg(test)]
mod tests;
