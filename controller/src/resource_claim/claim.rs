//! Releases claims. Pure functions.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};
use orlop_client::meta::{annotation, has_finalizer, is_terminating, without_finalizer};
use orlop_client::names::FINALIZER_DELETE_PROTECTION;

use super::pod::{ANN_POD_CLAIM, is_done};
use crate::workload::owned::controller_of;

/// Whether a consumer of a claim still needs it.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Consumer {
    /// The pod may run.
    Needs,
    /// The pod has ended, or another pod has its name.
    Ended,
    /// The cache has no such pod. It may be behind.
    Unknown,
}

/// Whether the consumer is a pod. Other consumers are not supported.
pub(super) fn is_pod(consumer: &ResourceClaimConsumerReference) -> bool {
    consumer.api_group.as_deref().unwrap_or_default().is_empty() && consumer.resource == "pods"
}

/// Decides about a consumer; `pod` is the cached pod with its name.
pub(super) fn consumer(reference: &ResourceClaimConsumerReference, pod: Option<&Pod>) -> Consumer {
    match pod {
        None => Consumer::Unknown,
        Some(pod) if pod.metadata.uid.as_ref() != Some(&reference.uid) || is_done(pod) => Consumer::Ended,
        Some(_) => Consumer::Needs,
    }
}

/// The claim with the status to write, if it changes. `needing` are the consumers that still need the claim. The allocation
/// ends with the last consumer; a claim without consumers that is allocated stays so until it is deleted.
pub(super) fn released(
    claim: &ResourceClaim,
    needing: Vec<ResourceClaimConsumerReference>,
) -> Option<ResourceClaim> {
    let status = claim.status.clone().unwrap_or_default();
    let before = status.reserved_for.as_ref().map_or(0, Vec::len);
    let is_protected = has_finalizer(claim, FINALIZER_DELETE_PROTECTION);
    let is_unused = needing.is_empty();
    let lost_consumers = needing.len() < before;
    let ends = is_protected && is_unused && (lost_consumers || is_terminating(claim));
    let deallocates = ends && status.allocation.is_some();
    if !lost_consumers && !deallocates {
        return None;
    }
    let mut changed = claim.clone();
    let status = changed.status.get_or_insert_default();
    status.reserved_for = Some(needing).filter(|needing| !needing.is_empty());
    if ends {
        status.allocation = None;
    }
    Some(changed)
}

/// The claim without the finalizer, if it has the finalizer and nothing is allocated. The scheduler adds the finalizer before it
/// allocates, so only a claim that was just released or is being deleted loses it.
pub(super) fn unprotected(claim: &ResourceClaim, was_released: bool) -> Option<ResourceClaim> {
    let is_allocated = claim.status.as_ref().is_some_and(|status| {
        status.allocation.is_some() || status.reserved_for.as_ref().is_some_and(|all| !all.is_empty())
    });
    let can_lose = was_released || is_terminating(claim);
    let is_protected = has_finalizer(claim, FINALIZER_DELETE_PROTECTION);
    (is_protected && can_lose && !is_allocated).then(|| without_finalizer(claim, FINALIZER_DELETE_PROTECTION))
}

/// The name of the pod that a claim was created for, and its UID.
pub(super) fn owning_pod(claim: &ResourceClaim) -> Option<(&str, &str)> {
    let owner = controller_of(&claim.metadata)?;
    (owner.api_version == "v1" && owner.kind == "Pod").then_some((owner.name.as_str(), owner.uid.as_str()))
}

/// The UID of the pod that a claim was created for, and the entry in the pod's `spec.resourceClaims`.
pub(super) fn owning_entry(claim: &ResourceClaim) -> Option<(&str, &str)> {
    let (_, uid) = owning_pod(claim)?;
    annotation(claim, ANN_POD_CLAIM).map(|entry| (uid, entry))
}

/// Whether an unused claim that was created for a pod can be deleted. The garbage collector deletes the claims of deleted
/// pods, but an ended pod may remain for a long time. `pod` is the cached pod with the name of the owner.
pub(super) fn is_superfluous(claim: &ResourceClaim, pod: Option<&Pod>) -> bool {
    let Some((_, uid)) = owning_pod(claim) else { return false };
    pod.is_some_and(|pod| pod.metadata.uid.as_deref() != Some(uid) || is_done(pod)) && !is_terminating(claim)
}
