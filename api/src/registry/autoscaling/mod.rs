//! `HorizontalPodAutoscaler`: stored and validated. No controller scales workloads.
//!
//! Objects are stored in the form of `autoscaling/v2`. `autoscaling/v1` is a view, with the parts that it cannot express in
//! annotations ([`round_trip`]). [`horizontal_pod_autoscaler`] is the kind in both versions; [`spec_rules`], [`metric_rules`] and
//! [`reference_rules`] validate both.
//!
//! Upstream: pkg/apis/autoscaling, pkg/registry/autoscaling/horizontalpodautoscaler.

mod behavior_format;
mod horizontal_pod_autoscaler;
mod metric_format;
mod metric_rules;
mod reference_rules;
mod round_trip;
mod spec_rules;
mod targets;

pub(super) use horizontal_pod_autoscaler::HorizontalPodAutoscaler;

use serde_json::{Value, json};

/// The API group.
const GROUP: &str = "autoscaling";

/// The average CPU utilization that an autoscaler without metrics maintains.
const DEFAULT_UTILIZATION: i64 = 80;

/// A metric with a target for the average CPU utilization.
fn cpu_metric(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

/// The items of a list; empty if absent.
fn items<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
