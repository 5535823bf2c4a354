//! `HorizontalPodAutoscaler` of `autoscaling/v2`, the stored form, and of `autoscaling/v1`, a view of it.
//!
//! Both versions share the code: version 1 converts an object to the stored form, and the result back. Error messages use the field
//! names of the stored form, as upstream's do.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{DEFAULT_UTILIZATION, GROUP, cpu_metric, round_trip, spec_rules, targets};
use crate::kind::{Column, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::registry::workload::{counts, number, spec, text};
use crate::registry::{cells, json_defaults};
use crate::validate::{FieldErrors, Path};

/// A version of the `HorizontalPodAutoscaler` kind.
pub(in crate::registry) enum HorizontalPodAutoscaler {
    /// `autoscaling/v1`
    V1,
    /// `autoscaling/v2`
    V2,
}

const NAMES_V1: Names = names("v1", "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler");
const NAMES_V2: Names = names("v2", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler");

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

const COLUMNS: &[Column] = &[
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
        match self {
            Self::V1 => &NAMES_V1,
            Self::V2 => &NAMES_V2,
        }
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/horizontalpodautoscalers/"
    }

    fn policy(&self) -> Policy {
        Policy { status: StatusSubresource::WithMetadata, ..Policy::DEFAULT }
    }

    fn defaults(&self, scaler: &mut Object) {
        match self {
            Self::V1 => {
                scaler.set_default(&["spec", "minReplicas"], 1);
                // The conversion sets the default metric and writes new annotations.
                self.change(scaler, |_| ());
            }
            Self::V2 => {
                round_trip::drop_annotations(scaler);
                default_spec(scaler.object_at(&["spec"]));
            }
        }
    }

    fn prepare_create(&self, scaler: &mut Object, _now: Timestamp) {
        let status = json!({"desiredReplicas": 0, "currentMetrics": null});
        self.change(scaler, |stored| stored.set(&["status"], status));
    }

    // In version 1, annotations contain parts of the spec and the status, which a client may have omitted or changed.
    fn prepare_update(&self, scaler: &mut Object, old: &Object, _now: Timestamp) {
        self.change(scaler, |stored| stored.copy_member(&self.stored(old), "status"));
    }

    fn prepare_status(&self, scaler: &mut Object, old: &Object, _now: Timestamp) {
        self.change(scaler, |stored| stored.copy_member(&self.stored(old), "spec"));
    }

    fn validate_create(&self, scaler: &Object, errors: &mut FieldErrors) {
        spec_rules::validate(spec(&self.stored(scaler)), None, errors);
    }

    fn validate_update(&self, scaler: &Object, old: &Object, errors: &mut FieldErrors) {
        spec_rules::validate(spec(&self.stored(scaler)), Some(spec(&self.stored(old))), errors);
    }

    fn validate_status(&self, scaler: &Object, _old: &Object, errors: &mut FieldErrors) {
        let scaler = self.stored(scaler);
        let status = scaler.at(&["status"]).unwrap_or(&Value::Null);
        counts(status, &["currentReplicas", "desiredReplicas"], &Path::new("status"), errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, scaler: &Object, now: Timestamp) -> Vec<Value> {
        row(&self.stored(scaler), now)
    }

    fn cells_of_stored(&self, stored: &Object, now: Timestamp) -> Option<Vec<Value>> {
        Some(row(stored, now))
    }

    fn is_view(&self) -> bool {
        matches!(self, Self::V1)
    }

    fn converted_annotations(&self) -> &'static [&'static str] {
        match self {
            Self::V1 => round_trip::ANNOTATIONS,
            Self::V2 => &[],
        }
    }

    fn to_stored(&self, object: Object) -> Object {
        match self {
            Self::V1 => round_trip::to_v2(object),
            Self::V2 => object,
        }
    }

    fn to_shown(&self, object: Object) -> Object {
        match self {
            Self::V1 => round_trip::to_v1(object),
            Self::V2 => object,
        }
    }
}

impl HorizontalPodAutoscaler {
    /// The stored form of an object of this version.
    fn stored<'o>(&self, scaler: &'o Object) -> Cow<'o, Object> {
        match self {
            Self::V1 => Cow::Owned(self.to_stored(scaler.clone())),
            Self::V2 => Cow::Borrowed(scaler),
        }
    }

    /// Changes an object of this version in its stored form.
    fn change(&self, scaler: &mut Object, change: impl FnOnce(&mut Object)) {
        let mut stored = self.to_stored(std::mem::take(scaler));
        change(&mut stored);
        *scaler = self.to_shown(stored);
    }
}

/// The table row of an object in its stored form.
fn row(stored: &Object, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (spec(stored), stored.at(&["status"]).unwrap_or(&Value::Null));
    let target = spec.get("scaleTargetRef").unwrap_or(&Value::Null);
    let least = spec.get("minReplicas").and_then(Value::as_i64);
    vec![
        cells::name(stored),
        format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
        targets::shown(spec, status).into(),
        least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string()).into(),
        number(spec, "maxReplicas").into(),
        number(status, "currentReplicas").into(),
        cells::age(stored, now),
    ]
}

/// Completes the spec of the stored form.
fn default_spec(spec: &mut Map<String, Value>) {
    json_defaults::value(spec, "minReplicas", 1);
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("metrics".to_owned(), json!([cpu_metric(DEFAULT_UTILIZATION)]));
    }
    if let Some(behavior) = json_defaults::object(spec, "behavior") {
        default_behavior(behavior);
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
