//! Reads the spec of a Job. Pure functions.

use k8s_openapi::api::batch::v1::{Job, JobSpec};

/// The value of `spec.managedBy` for this controller.
const CONTROLLER_NAME: &str = "kubernetes.io/job-controller";

/// Whether another controller runs the Job.
pub fn is_external(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|name| name != CONTROLLER_NAME)
}

/// Whether the completion mode is one that this controller knows.
pub fn is_known_mode(spec: &JobSpec) -> bool {
    matches!(spec.completion_mode.as_deref(), None | Some("NonIndexed" | "Indexed"))
}

/// Whether each pod has an index.
pub fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// The number of indexes of an indexed Job. The server requires it.
pub fn index_count(spec: &JobSpec) -> i64 {
    i64::from(spec.completions.unwrap_or(0))
}

/// The number of pods that run concurrently. The server's default is 1.
pub fn parallelism(spec: &JobSpec) -> i64 {
    i64::from(spec.parallelism.unwrap_or(1))
}

/// The number of failures of all indexes. The server's default is 6, or unlimited with a limit per index.
pub fn backoff_limit(spec: &JobSpec) -> i64 {
    let default = if spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 };
    i64::from(spec.backoff_limit.unwrap_or(default))
}

/// Whether the Job must have no pods.
pub fn is_suspended(spec: &JobSpec) -> bool {
    spec.suspend == Some(true)
}

/// Whether a terminating pod is replaced only when it has ended. A pod failure policy requires this too, because it evaluates the
/// end of a pod.
pub fn replaces_only_failed(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some()
}
