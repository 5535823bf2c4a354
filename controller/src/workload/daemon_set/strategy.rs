//! The update strategy of a DaemonSet. Pure functions.

use k8s_openapi::api::apps::v1::{DaemonSet, RollingUpdateDaemonSet};
use k8s_openapi::api::core::v1::Pod;

use crate::workload::deployment::amounts::{Round, scaled};
use crate::workload::stateful_set::identity::revision_of;

/// Whether the pod is of the template with this hash.
pub fn is_updated(pod: &Pod, hash: &str) -> bool {
    revision_of(pod) == hash
}

/// How long a pod must be ready to be available, in seconds.
pub fn min_ready_seconds(set: &DaemonSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

/// Whether the DaemonSet replaces pods of older templates. With OnDelete, the user deletes them.
pub fn is_rolling(set: &DaemonSet) -> bool {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()).unwrap_or("RollingUpdate") == "RollingUpdate"
}

fn limits(set: &DaemonSet) -> Option<&RollingUpdateDaemonSet> {
    let strategy = set.spec.as_ref()?.update_strategy.as_ref().filter(|_| is_rolling(set))?;
    strategy.rolling_update.as_ref()
}

/// The number of nodes, of `nodes`, that may have a second pod during an update.
pub fn surge(set: &DaemonSet, nodes: i32) -> i32 {
    scaled(limits(set).and_then(|limits| limits.max_surge.as_ref()), nodes, Round::Up)
}

/// The number of nodes, of `nodes`, that may be without an available pod during an update.
pub fn unavailable(set: &DaemonSet, nodes: i32) -> i32 {
    scaled(limits(set).and_then(|limits| limits.max_unavailable.as_ref()), nodes, Round::Up)
}
