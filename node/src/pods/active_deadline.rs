//! Enforces `activeDeadlineSeconds` of a pod (upstream: pkg/kubelet/active_deadline.go). Pure. The time runs from
//! when the node accepts the pod, so it includes the wait for volumes: a pod whose file server is gone fails, and
//! the owner of the pod sees it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::facts::PodFailure;

/// Returns the time a pod has left, or `None` without a deadline. `begun` is the start of the time until the API
/// reports `startTime`.
pub(super) fn left(pod: &Pod, begun: Timestamp, now: Timestamp) -> Option<Duration> {
    let deadline = pod.spec.as_ref()?.active_deadline_seconds?;
    let since =
        pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(begun, |time| time.0);
    let gone = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Some(Duration::from_secs(u64::try_from(deadline).unwrap_or_default()).saturating_sub(gone))
}

/// Sleeps until the deadline; without one, never returns.
pub(super) async fn over(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

/// The failure of a pod that exceeded its deadline.
pub(super) fn verdict() -> PodFailure {
    PodFailure {
        reason: "DeadlineExceeded".to_owned(),
        message: "Pod was active on the node longer than the specified deadline".to_owned(),
    }
}
