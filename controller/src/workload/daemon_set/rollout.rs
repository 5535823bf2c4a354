//! Decides which pods of older templates a rolling update replaces next. Pure. Upstream: pkg/controller/daemon/update.go.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::manage::{DaemonInput, PodChanges};
use super::placement::Fit;
use super::strategy::{is_updated, min_ready_seconds, surge, unavailable};
use crate::workload::ready::is_available;
use orlop_client::meta::is_terminating;

/// The pods of one node that are not being deleted.
struct OnNode<'a> {
    new: Option<&'a Arc<Pod>>,
    old: Option<&'a Arc<Pod>>,
}

impl<'a> OnNode<'a> {
    /// `None` if there are several of one kind: [`manage`](super::manage) deletes the surplus ones first.
    fn of(pods: &'a [Arc<Pod>], hash: &str) -> Option<Self> {
        let mut found = Self { new: None, old: None };
        for pod in pods.iter().filter(|pod| !is_terminating(pod.as_ref())) {
            let place = if is_updated(pod, hash) { &mut found.new } else { &mut found.old };
            if place.replace(pod).is_some() {
                return None;
            }
        }
        Some(found)
    }
}

/// Decides the next replacements, after [`manage`](super::manage::manage) found nothing to change.
pub fn rolling_update(input: &DaemonInput<'_>) -> PodChanges {
    let runs = |fit: &Fit| *fit == Fit::Runs;
    let desired = input.nodes.values().copied().filter(|fit| runs(fit)).count();
    let total = i32::try_from(desired).unwrap_or(i32::MAX);
    let (surge, mut unavailable) = (surge(input.set, total), unavailable(input.set, total));
    // The limits can both be 0, which would block every update.
    if surge == 0 && unavailable == 0 && total > 0 {
        unavailable = 1;
    }
    let running = input.nodes.iter().filter(|(_, fit)| runs(fit)).map(|(node, _)| node);
    let nodes: BTreeSet<&String> = running.chain(input.pods.keys()).collect();
    let on_nodes = nodes.into_iter().map(|node| {
        let pods = input.pods.get(node).map(Vec::as_slice).unwrap_or_default();
        (node, OnNode::of(pods, input.hash))
    });
    match surge {
        0 => within_unavailable(input, on_nodes, usize::try_from(unavailable).unwrap_or(0)),
        _ => within_surge(input, on_nodes, usize::try_from(surge).unwrap_or(0), desired),
    }
}

/// Deletes old pods; [`manage`](super::manage::manage) creates the new ones. Unavailable old pods can be deleted at any
/// time, others only as long as few enough nodes are without an available pod.
fn within_unavailable<'a>(
    input: &DaemonInput<'a>,
    on_nodes: impl Iterator<Item = (&'a String, Option<OnNode<'a>>)>,
    max: usize,
) -> PodChanges {
    let is_available = |pod: &Pod| is_available(pod, min_ready_seconds(input.set), input.now);
    let (mut unavailable, mut delete, mut candidates) = (0, Vec::new(), Vec::new());
    for (_, pods) in on_nodes {
        match pods {
            Some(OnNode { new: Some(new), old: None }) => unavailable += usize::from(!is_available(new)),
            Some(OnNode { new: None, old: Some(old) }) if is_available(old) => {
                candidates.push(Arc::clone(old))
            }
            Some(OnNode { new: None, old: Some(old) }) => {
                delete.push(Arc::clone(old));
                unavailable += 1;
            }
            Some(_) | None => unavailable += 1,
        }
    }
    delete.extend(candidates.into_iter().take(max.saturating_sub(unavailable)));
    PodChanges { create: Vec::new(), delete }
}

/// Creates new pods beside the old ones, and deletes an old pod when the new one is available. New pods beside
/// available old ones are limited.
fn within_surge<'a>(
    input: &DaemonInput<'a>,
    on_nodes: impl Iterator<Item = (&'a String, Option<OnNode<'a>>)>,
    max: usize,
    desired: usize,
) -> PodChanges {
    let is_available = |pod: &Pod| is_available(pod, min_ready_seconds(input.set), input.now);
    let (mut surging, mut available, mut changes) = (0, 0_usize, PodChanges::default());
    let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
    for (node, pods) in on_nodes {
        let Some(pods) = pods else {
            surging += 1;
            continue;
        };
        available += usize::from(pods.old.or(pods.new).is_some_and(|pod| is_available(pod)));
        match (pods.old, pods.new, input.nodes.get(node)) {
            (None, _, _) => {}
            (Some(old), Some(new), _) if is_available(new) => changes.delete.push(Arc::clone(old)),
            (Some(_), Some(_), _) => surging += 1,
            // Upstream fails here until the pod of a deleted node is deleted; then the other nodes would wait for it.
            (Some(_), None, None) => {}
            (Some(old), None, Some(Fit::Runs)) if is_available(old) => candidates.push(node.clone()),
            (Some(_), None, Some(Fit::Runs)) => changes.create.push(node.clone()),
            (Some(old), None, Some(_)) if is_available(old) => misplaced.push(Arc::clone(old)),
            (Some(old), None, Some(_)) => changes.delete.push(Arc::clone(old)),
        }
    }
    // With surge, the desired number of pods remains available even if the suitable nodes change.
    changes.delete.extend(misplaced.into_iter().take(available.saturating_sub(desired)));
    changes.create.extend(candidates.into_iter().take(max.saturating_sub(surging)));
    changes
}
