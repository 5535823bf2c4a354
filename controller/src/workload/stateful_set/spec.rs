//! The name of a StatefulSet and the ordinals of its pods.

use std::ops::Range;

use k8s_openapi::api::apps::v1::StatefulSet;

/// The name of the set.
pub fn name(set: &StatefulSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// The desired number of pods. The server's default is 1.
pub fn wanted(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1).max(0)
}

/// The desired ordinals of the pods.
pub fn ordinals(set: &StatefulSet) -> Range<i32> {
    let start = set.spec.as_ref().and_then(|spec| spec.ordinals.as_ref()).and_then(|ordinals| ordinals.start);
    let start = start.unwrap_or(0);
    start..start.saturating_add(wanted(set))
}
