//! When the time of a pod is over, whatever it does (upstream: pkg/kubelet/active_deadline.go). Pure. It runs from when the node took the pod, so
//! also while volumes are waited for: a pod whose file server is gone ends, and whoever made it learns of it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::facts::PodFailure;

/// How long a pod may take from now on; none for any time. `begun` counts as long as the API does not tell when it was taken.
pub(super) fn left(pod: &Pod, begun: Timestamp, now: Timestamp) -> Option<Duration> {
    let deadline = pod.spec.as_ref()?.active_deadline_seconds?;
    let since =
        pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(begun, |time| time.0);
    let gone = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Some(Duration::from_secs(u64::try_from(deadline).unwrap_or_default()).saturating_sub(gone))
}

/// Waits for so long.
pub(super) async fn over(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

/// What is told of a pod that took too long.
pub(super) fn verdict() -> PodFailure {
    PodFailure {
        reason: "DeadlineExceeded".to_owned(),
        message: "Pod was active on the node longer than the specified deadline".to_owned(),
    }
}
