//! `HorizontalPodAutoscaler` of `autoscaling/v2`, the stored form.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{DEFAULT_UTILIZATION, cpu_metric, names, round_trip, spec_rules, targets};
use crate::kind::{Column, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::registry::workload::{counts, number, spec, text};
use crate::registry::{cells, json_defaults};
use crate::validate::{FieldErrors, Path};

/// The `HorizontalPodAutoscaler` kind of `autoscaling/v2`.
pub(in crate::registry) struct HorizontalPodAutoscaler;

const NAMES: Names = names("v2", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler");

/// The store prefix of both versions.
pub(super) const PREFIX: &str = "/registry/horizontalpodautoscalers/";
/// The policy of both versions.
pub(super) const POLICY: Policy = Policy { status: StatusSubresource::WithMetadata, ..Policy::DEFAULT };

pub(super) const COLUMNS: &[Column] = &[
    cells::NAME,
    cells::text("Reference", "The object that the autoscaler scales."),
    cells::text("Targets", "The current and the desired value of each metric."),
    cells::text("MinPods", "The smallest number of replicas."),
    cells::text("MaxPods", "The largest number of replicas."),
    cells::text("Replicas", "The current number of replicas."),
    cells::AGE,
];

impl Kind for HorizontalPodAutoscaler {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        PREFIX
    }

    fn policy(&self) -> Policy {
        POLICY
    }

    fn defaults(&self, scaler: &mut Object) {
        round_trip::drop_annotations(scaler);
        let spec = scaler.object_at(&["spec"]);
        json_defaults::value(spec, "minReplicas", 1);
        if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("metrics".to_owned(), json!([cpu_metric(DEFAULT_UTILIZATION)]));
        }
        if let Some(behavior) = json_defaults::object(spec, "behavior") {
            default_behavior(behavior);
        }
    }

    fn prepare_create(&self, scaler: &mut Object, _now: Timestamp) {
        scaler.set(&["status"], json!({"desiredReplicas": 0, "currentMetrics": null}));
    }

    fn validate_create(&self, scaler: &Object, errors: &mut FieldErrors) {
        spec_rules::validate(spec(scaler), None, errors);
    }

    fn validate_update(&self, scaler: &Object, old: &Object, errors: &mut FieldErrors) {
        spec_rules::validate(spec(scaler), Some(spec(old)), errors);
    }

    fn validate_status(&self, scaler: &Object, _old: &Object, errors: &mut FieldErrors) {
        let status = scaler.at(&["status"]).unwrap_or(&Value::Null);
        counts(status, &["currentReplicas", "desiredReplicas"], &Path::new("status"), errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, scaler: &Object, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (spec(scaler), scaler.at(&["status"]).unwrap_or(&Value::Null));
        let target = spec.get("scaleTargetRef").unwrap_or(&Value::Null);
        let least = spec.get("minReplicas").and_then(Value::as_i64);
        vec![
            cells::name(scaler),
            format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
            targets::shown(spec, status).into(),
            least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string()).into(),
            number(spec, "maxReplicas").into(),
            number(status, "currentReplicas").into(),
            cells::age(scaler, now),
        ]
    }
}

/// Completes the rules for scaling up and down. The stabilization window for scaling down has no default here.
fn default_behavior(behavior: &mut Map<String, Value>) {
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
    let up = json!([policy("Pods", 4), policy("Percent", 100)]);
    let down = json!([policy("Percent", 100)]);
    for (direction, policies) in [("scaleUp", up), ("scaleDown", down)] {
        json_defaults::value(behavior, direction, json!({}));
        let Some(rules) = json_defaults::object(behavior, direction) else { continue };
        if direction == "scaleUp" {
            json_defaults::value(rules, "stabilizationWindowSeconds", 0);
        }
        json_defaults::value(rules, "selectPolicy", "Max");
        json_defaults::value(rules, "policies", policies);
    }
}
