//! `PodDisruptionBudget`: the number of pods in a set that must remain available.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::{Value, json};

use super::go_format::Shape;
use super::volume_rules::typed;
use super::{cells, checks, conditions};
use crate::kind::{Column, Generation, Kind, NameRule, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::validate::label_selector::validate_label_selector;
use crate::validate::{FieldErrors, Path};

/// The `PodDisruptionBudget` kind.
pub(super) struct PodDisruptionBudget;

const NAMES: Names = Names {
    group: "policy",
    version: "v1",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    short: &["pdb"],
    categories: &[],
    schema: "io.k8s.api.policy.v1.PodDisruptionBudget",
};

const SPEC: Shape = Shape::Struct(&[
    ("MinAvailable", "minAvailable", Shape::Plain),
    ("Selector", "selector", Shape::Plain),
    ("MaxUnavailable", "maxUnavailable", Shape::Plain),
    ("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy", Shape::Plain),
]);
const UNHEALTHY: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];
impl Kind for PodDisruptionBudget {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/poddisruptionbudgets/"
    }

    fn policy(&self) -> Policy {
        Policy {
            names: NameRule::PathSegment,
            unconditional_update: false,
            status: StatusSubresource::WithMetadata,
            generation: Generation::Spec,
            ..Policy::DEFAULT
        }
    }

    fn prepare_create(&self, budget: &mut Object, _now: Timestamp) {
        let status = json!({
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
        });
        budget.set(&["status"], status);
    }

    fn validate(&self, budget: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let number = |name: &str| budget.at(&["spec", name]).filter(|value| !value.is_null());
        let (least, most) = (number("minAvailable"), number("maxUnavailable"));
        if least.is_some() && most.is_some() {
            let shown = SPEC.show(budget.at(&["spec"]));
            errors.invalid_shown(&path, &shown, "minAvailable and maxUnavailable cannot be both set");
        }
        for (name, value) in [("minAvailable", least), ("maxUnavailable", most)] {
            if let Some(value) = value {
                number_or_percent(value, &path.child(name), errors);
            }
        }
        if let Some(selector) = budget.at(&["spec", "selector"]).and_then(typed) {
            validate_label_selector(&selector, &path.child("selector"), errors);
        }
        let policy = budget.at(&["spec", "unhealthyPodEvictionPolicy"]).and_then(Value::as_str);
        checks::one_of(errors, &path.child("unhealthyPodEvictionPolicy"), policy, &UNHEALTHY);
    }

    fn validate_status(&self, budget: &Object, _old: &Object, errors: &mut FieldErrors) {
        let path = Path::new("status");
        let list = budget.at(&["status", "conditions"]).and_then(Value::as_array);
        conditions::validate(list.map_or(&[][..], Vec::as_slice), &path.child("conditions"), errors);
        for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            let value = budget.at(&["status", name]).and_then(Value::as_i64).unwrap_or_default();
            checks::non_negative(errors, &path.child(name), value);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Min Available", "How many pods must stay."),
            cells::text("Max Unavailable", "How many pods may be away."),
            cells::typed("Allowed Disruptions", "integer", "How many pods may be evicted now."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, budget: &Object, now: Timestamp) -> Vec<Value> {
        let shown = |name: &str| -> Value {
            match budget.at(&["spec", name]) {
                None | Some(Value::Null) => "N/A".into(),
                Some(Value::String(text)) => text.as_str().into(),
                Some(number) => number.to_string().into(),
            }
        };
        vec![
            cells::name(budget),
            shown("minAvailable"),
            shown("maxUnavailable"),
            budget.at(&["status", "disruptionsAllowed"]).and_then(Value::as_i64).unwrap_or_default().into(),
            cells::age(budget, now),
        ]
    }
}

/// A number of pods, or a percentage from 0% to 100%.
fn number_or_percent(value: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(text) = value.as_str() else {
        return checks::non_negative(errors, path, value.as_i64().unwrap_or_default());
    };
    let messages = names::percent(text);
    if !messages.is_empty() {
        checks::each(errors, path, text, messages);
    } else if !text.trim_end_matches('%').parse::<u32>().is_ok_and(|percent| percent <= 100) {
        errors.invalid(path, text, "must not be greater than 100%");
    }
}
