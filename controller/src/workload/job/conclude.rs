//! Completes the status after the change of the pods. Pure functions.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use orlop_client::meta::whole_seconds;
use orlop_client::names::reason;

use super::assess::{JobInput, JobState, number};
use super::conditions::{SUCCESS_CRITERIA_MET, SUSPENDED, condition, set};
use super::manage::Action;
use super::spec::is_suspended;
use crate::workload::ready::is_ready;

/// The performed part of an [`Action`].
#[derive(Default)]
pub struct Performed {
    /// The deleted pods.
    pub deleted: Vec<Arc<Pod>>,
    /// The pods that no longer existed.
    pub gone: Vec<Arc<Pod>>,
    /// The number of created pods.
    pub created: usize,
}

/// An event: its reason and message.
pub type Note = (&'static str, &'static str);

/// Counts the pods, and sets the condition Suspended. Returns whether the status must be written, and an event about the suspension.
pub fn conclude(
    input: &JobInput<'_>,
    state: &mut JobState,
    action: &Action,
    performed: &Performed,
) -> (bool, Option<Note>) {
    let (deleted, gone) = (performed.deleted.len(), performed.gone.len());
    let active = (state.active.len() + performed.created).saturating_sub(deleted + gone);
    state.terminating = state.terminating.saturating_add(number(deleted));
    let former = performed.deleted.iter().chain(&performed.gone);
    state.ready -= number(former.filter(|pod| is_ready(pod)).count());
    let mut note = None;
    match action {
        // A pod may still run, or the cache may lack one: the Job ends in a later sync.
        Action::Stop(pods) if deleted + gone != pods.len() || !input.is_current => state.end = None,
        Action::Stop(_) => {}
        Action::Skip | Action::Nothing | Action::Delete(_) | Action::Create(_) | Action::Wait(_) => {
            let is_complete = active == 0
                && match input.spec.completions {
                    None => state.succeeded > 0,
                    Some(completions) => state.succeeded >= i64::from(completions),
                };
            if is_complete {
                let message = "Reached expected number of succeeded pods";
                state.end = Some(condition(SUCCESS_CRITERIA_MET, "CompletionsReached", message, input.now));
            } else if !matches!(action, Action::Skip) {
                note = set_suspended(input, state);
            }
        }
    }
    let status = &mut state.status;
    let counts = (status.active.unwrap_or(0), status.ready, status.terminating);
    let must_write = note.is_some() || counts != (number(active), Some(state.ready), Some(state.terminating));
    status.active = Some(number(active)).filter(|active| *active > 0);
    (status.ready, status.terminating) = (Some(state.ready), Some(state.terminating));
    (must_write, note)
}

/// A suspended Job has no start time, so that the active deadline counts from its resumption.
fn set_suspended(input: &JobInput<'_>, state: &mut JobState) -> Option<Note> {
    let conditions = &mut state.status.conditions;
    if is_suspended(input.spec) {
        if !set(conditions, SUSPENDED, true, "JobSuspended", "Job suspended", input.now) {
            return None;
        }
        state.status.start_time = None;
        Some((reason::SUSPENDED, "Job suspended"))
    } else {
        if !set(conditions, SUSPENDED, false, "JobResumed", "Job resumed", input.now) {
            return None;
        }
        state.status.start_time = Some(whole_seconds(input.now));
        Some((reason::RESUMED, "Job resumed"))
    }
}
