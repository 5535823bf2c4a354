//! The conditions of a job.

use serde_json::Value;

use crate::object::Object;

/// Whether a job has a condition with the status `True`.
pub(super) fn is_true(job: &Object, kind: &str) -> bool {
    let conditions = job.at(&["status", "conditions"]).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}

/// Whether a job has ended.
pub(super) fn is_finished(job: &Object) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}
