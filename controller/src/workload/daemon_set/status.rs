//! Counts the pods of a DaemonSet. Pure. Upstream: updateDaemonSetStatus.

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::manage::{DaemonInput, oldest_first};
use super::placement::Fit;
use super::strategy::{is_updated, min_ready_seconds};
use crate::workload::ready::{is_available, is_ready};

/// The status. `is_observed`: the controller acted on the current generation.
pub fn status(input: &DaemonInput<'_>, is_observed: bool) -> DaemonSetStatus {
    let old = input.set.status.clone().unwrap_or_default();
    let mut status = DaemonSetStatus {
        collision_count: old.collision_count,
        conditions: old.conditions,
        observed_generation: if is_observed {
            input.set.metadata.generation
        } else {
            old.observed_generation
        },
        ..DaemonSetStatus::default()
    };
    let (mut updated, mut available) = (0, 0);
    for (node, fit) in input.nodes {
        let pods = input.pods.get(node).filter(|pods| !pods.is_empty());
        if *fit != Fit::Runs {
            status.number_misscheduled += i32::from(pods.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pods) = pods else { continue };
        status.current_number_scheduled += 1;
        let mut pods = pods.clone();
        oldest_first(&mut pods);
        let Some(pod) = pods.first() else { continue };
        let is_available = is_available(pod, min_ready_seconds(input.set), input.now);
        status.number_ready += i32::from(is_ready(pod));
        available += i32::from(is_available);
        updated += i32::from(is_updated(pod, input.hash));
    }
    let unavailable = status.desired_number_scheduled - available;
    status.updated_number_scheduled = unless_zero(updated);
    status.number_available = unless_zero(available);
    status.number_unavailable = unless_zero(unavailable);
    status
}

/// The API omits these fields if they are 0.
fn unless_zero(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// Whether two statuses are the same. Zero and missing are equivalent.
pub fn is_same_status(one: &DaemonSetStatus, other: &DaemonSetStatus) -> bool {
    let zeros = |status: &DaemonSetStatus| {
        let number = |value: Option<i32>| Some(value.unwrap_or(0));
        DaemonSetStatus {
            updated_number_scheduled: number(status.updated_number_scheduled),
            number_available: number(status.number_available),
            number_unavailable: number(status.number_unavailable),
            collision_count: number(status.collision_count),
            observed_generation: Some(status.observed_generation.unwrap_or(0)),
            conditions: Some(status.conditions.clone().unwrap_or_default()),
            ..status.clone()
        }
    };
    zeros(one) == zeros(other)
}
