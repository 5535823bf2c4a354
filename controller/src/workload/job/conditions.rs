//! The conditions of a Job. Pure functions.
//!
//! A Job ends in two steps: FailureTarget or SuccessCriteriaMet is set when its end is certain; Failed or Complete follows when
//! its last pod has ended.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use orlop_client::meta::whole_seconds;

/// Condition type: all required pods have succeeded.
pub const COMPLETE: &str = "Complete";
/// Condition type: the Job has failed.
pub const FAILED: &str = "Failed";
/// Condition type: the Job will be complete.
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
/// Condition type: the Job will have failed.
pub const FAILURE_TARGET: &str = "FailureTarget";
/// Condition type: the Job has no pods because it is suspended.
pub const SUSPENDED: &str = "Suspended";

const TRUE: &str = "True";
const FALSE: &str = "False";

/// A condition with the status True.
pub fn condition(type_: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    with_status(type_, TRUE, reason, message, now)
}

fn with_status(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    let now = Some(whole_seconds(now));
    JobCondition {
        last_probe_time: now.clone(),
        last_transition_time: now,
        message: Some(message.to_owned()).filter(|text| !text.is_empty()),
        reason: Some(reason.to_owned()).filter(|text| !text.is_empty()),
        status: status.to_owned(),
        type_: type_.to_owned(),
    }
}

/// The second condition of an end, with the reason and message of the first one.
pub fn final_condition(first: &JobCondition, type_: &str, now: Timestamp) -> JobCondition {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    condition(type_, &text(&first.reason), &text(&first.message), now)
}

/// The condition of this type, if its status is True.
pub fn find_true<'c>(conditions: Option<&'c [JobCondition]>, type_: &str) -> Option<&'c JobCondition> {
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition.type_ == type_ && condition.status == TRUE)
}

/// Sets a condition, and returns whether the list has changed. A missing condition is not added with the status False.
pub fn set(
    conditions: &mut Option<Vec<JobCondition>>,
    type_: &str,
    is_true: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let new = with_status(type_, if is_true { TRUE } else { FALSE }, reason, message, now);
    match conditions.iter_mut().flatten().find(|condition| condition.type_ == type_) {
        Some(old) if (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message) => {
            false
        }
        Some(old) => {
            *old = new;
            true
        }
        None if is_true => {
            conditions.get_or_insert_default().push(new);
            true
        }
        None => false,
    }
}

/// The condition with which the Job has ended: Complete or Failed.
pub fn end_of(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let is_end = |condition: &&JobCondition| matches!(condition.type_.as_str(), COMPLETE | FAILED);
    conditions.iter().filter(is_end).find(|condition| condition.status == TRUE)
}

/// Whether the Job has ended.
pub fn is_finished(job: &Job) -> bool {
    end_of(job).is_some()
}
