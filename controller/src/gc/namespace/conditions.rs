//! Conditions of a terminating namespace that describe its remaining content. Types, reasons and messages are
//! upstream's.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NamespaceCondition, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::content::Outcome;
use orlop_client::names::condition;

/// Updates the conditions. The transition time of a condition changes only when the condition does.
pub fn apply(status: &mut NamespaceStatus, outcome: &Outcome, now: Timestamp) {
    for (type_, bad, (reason, message)) in wanted(outcome) {
        let value = if bad { "True" } else { "False" };
        set(status, type_, value, reason, message, now);
    }
}

type DesiredCondition = (&'static str, bool, (&'static str, String));

fn wanted(outcome: &Outcome) -> [DesiredCondition; 5] {
    let discovery = &outcome.discovery_failures;
    let content = &outcome.content_failures;
    let remaining: Vec<String> =
        outcome.remaining.iter().map(|(name, n)| format!("{name} has {n} resource instances")).collect();
    let finalizers: Vec<String> =
        outcome.finalizers.iter().map(|(name, n)| format!("{name} in {n} resource instances")).collect();
    [
        (
            condition::NS_DISCOVERY_FAILURE,
            !discovery.is_empty(),
            match discovery.as_slice() {
                [] => ("ResourcesDiscovered", "All resources successfully discovered".to_owned()),
                some => (
                    "DiscoveryFailed",
                    format!("Discovery failed for some groups, {} failing: {}", some.len(), some.join("; ")),
                ),
            },
        ),
        (
            condition::NS_GV_PARSING_FAILURE,
            false,
            ("ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned()),
        ),
        (
            condition::NS_CONTENT_FAILURE,
            !content.is_empty(),
            match content.as_slice() {
                [] => (
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization".to_owned(),
                ),
                some => (
                    "ContentDeletionFailed",
                    format!(
                        "Failed to delete all resource types, {} remaining: {}",
                        some.len(),
                        some.join(", ")
                    ),
                ),
            },
        ),
        (
            condition::NS_CONTENT_REMAINING,
            !remaining.is_empty(),
            match remaining.as_slice() {
                [] => ("ContentRemoved", "All content successfully removed".to_owned()),
                some => ("SomeResourcesRemain", format!("Some resources are remaining: {}", some.join(", "))),
            },
        ),
        (
            condition::NS_FINALIZERS_REMAINING,
            !finalizers.is_empty(),
            match finalizers.as_slice() {
                [] => ("ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned()),
                some => (
                    "SomeFinalizersRemain",
                    format!("Some content in the namespace has finalizers remaining: {}", some.join(", ")),
                ),
            },
        ),
    ]
}

fn set(
    status: &mut NamespaceStatus,
    type_: &str,
    value: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let list = status.conditions.get_or_insert_default();
    let same = |c: &NamespaceCondition| {
        c.status == value && c.reason.as_deref() == Some(reason) && c.message.as_deref() == Some(&message)
    };
    let known = list.iter().position(|c| c.type_ == type_);
    if known.is_some_and(|at| same(&list[at])) {
        return;
    }
    let condition = NamespaceCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
    };
    match known {
        Some(at) => list[at] = condition,
        None => list.push(condition),
    }
}
