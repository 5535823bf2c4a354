//! `HorizontalPodAutoscaler`: stored and validated. No controller scales workloads.
//!
//! Objects are stored in the form of `autoscaling/v2` ([`v2`]). `autoscaling/v1` ([`v1`]) is a view, with the parts that it
//! cannot express in annotations ([`round_trip`]). [`spec_rules`], [`metric_rules`] and [`reference_rules`] validate both.
//!
//! Upstream: pkg/apis/autoscaling, pkg/registry/autoscaling/horizontalpodautoscaler.

mod behavior_format;
mod metric_format;
mod metric_rules;
mod reference_rules;
mod round_trip;
mod spec_rules;
mod targets;
mod v1;
mod v2;

pub(super) use v1::HorizontalPodAutoscalerV1;
pub(super) use v2::HorizontalPodAutoscaler;

use serde_json::{Value, json};

use crate::kind::Names;

/// The API group.
const GROUP: &str = "autoscaling";

/// The names of the kind in a version.
const fn names(version: &'static str, schema: &'static str) -> Names {
    Names {
        group: GROUP,
        version,
        kind: "HorizontalPodAutoscaler",
        plural: "horizontalpodautoscalers",
        singular: "horizontalpodautoscaler",
        short: &["hpa"],
        categories: &["all"],
        schema,
    }
}

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
