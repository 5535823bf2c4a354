//! Finds pods whose emptyDir volumes exceed their `sizeLimit` (upstream: pkg/kubelet/eviction,
//! emptyDirLimitEviction).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::context::WorkerContext;
use super::facts::PodFailure;
use crate::plugin::Place;
use crate::plugin::empty_dir::{MeasureBounds, measure, over_limit};

/// How often a pod with limits is checked.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Name of the plugin.
const PLUGIN: &str = "kubernetes.io/empty-dir";
/// Reason of evicted pods (upstream: eviction.Reason).
pub(super) const EVICTED: &str = "Evicted";

/// Names of the volumes of the pod that have a limit.
pub(super) fn limited(pod: &Pod) -> Vec<&str> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let has_limit = |source: &k8s_openapi::api::core::v1::EmptyDirVolumeSource| source.size_limit.is_some();
    volumes
        .iter()
        .filter(|volume| volume.empty_dir.as_ref().is_some_and(has_limit))
        .map(|volume| volume.name.as_str())
        .collect()
}

/// The failure of the pod when one of these volumes exceeds its limit.
pub(super) async fn broken(shared: &WorkerContext, uid: &str, pod: &Pod) -> Option<PodFailure> {
    let mut used = BTreeMap::new();
    for name in limited(pod) {
        let place =
            Place { uid: uid.to_owned(), plugin: PLUGIN.to_owned(), dir_name: name.to_owned(), block: false };
        match measure(&shared.host, &place, MeasureBounds::default()).await {
            Ok(measured) => {
                used.insert(name.to_owned(), measured.bytes);
            }
            Err(error) => tracing::debug!(uid, %error, "an emptyDir is not measured"),
        }
    }
    let over = over_limit(pod, &used)?;
    Some(PodFailure { reason: EVICTED.to_owned(), message: over.message })
}
