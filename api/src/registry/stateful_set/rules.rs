//! Validation of a StatefulSet's spec. Upstream: pkg/apis/apps/validation, `ValidateStatefulSetSpec`.

use std::collections::BTreeMap;

use orlop_apimachinery::labels::Selector;
use serde_json::{Value, json};

use crate::registry::go_format::{Fields, Shape};
use crate::registry::workload::{self, counts, given, percent, template, text};
use crate::registry::{checks, persistent_volume_claim};
use crate::validate::{FieldErrors, Path};

/// The update strategy that replaces pods one after the other.
pub(super) const ROLLING_UPDATE: &str = "RollingUpdate";

const ROLLING: Fields =
    &[("Partition", "partition", Shape::Count), ("MaxUnavailable", "maxUnavailable", Shape::Plain)];
const ROLLING_SHOWN: Shape = Shape::Pointer(ROLLING);
const STRATEGY: Shape = Shape::Struct(&[
    ("Type", "type", Shape::Text),
    ("RollingUpdate", "rollingUpdate", Shape::Pointer(ROLLING)),
]);

/// The mutable fields.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// The parts that are not validated (again).
#[derive(Clone, Copy, Default)]
struct Lenient {
    /// The immutable parts: the claims and the name of the service.
    immutable: bool,
    /// The pod template.
    template: bool,
}

/// Validates a new spec.
pub(super) fn new_spec(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    judge(spec, Lenient::default(), path, errors);
}

/// Validates a changed spec. A set with an invalid template from before templates were validated may retain it.
pub(super) fn changed_spec(spec: &Value, old: &Value, path: &Path, errors: &mut FieldErrors) {
    let mut before = FieldErrors::new();
    let lenient = Lenient { immutable: true, template: false };
    judge(old, lenient, path, &mut before);
    judge(spec, Lenient { template: !before.is_empty(), ..lenient }, path, errors);
    let fixed = |spec: &Value| {
        let mut fixed = spec.as_object().cloned().unwrap_or_default();
        fixed.retain(|field, _| !MUTABLE.contains(&field.as_str()));
        fixed
    };
    if fixed(spec) != fixed(old) {
        let fields: Vec<String> = MUTABLE.iter().map(|field| format!("'{field}'")).collect();
        let (last, others) = fields.split_last().map_or((&fields[0], &fields[..0]), |parts| parts);
        let text = format!(
            "updates to statefulset spec for fields other than {} and {last} are forbidden",
            others.join(", ")
        );
        errors.forbidden(path, &text);
    }
}

fn judge(spec: &Value, lenient: Lenient, path: &Path, errors: &mut FieldErrors) {
    let policy = text(spec, "podManagementPolicy");
    let at = path.child("podManagementPolicy");
    match policy {
        "" => errors.required(&at, ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(&at, other, "must be 'OrderedReady' or 'Parallel'"),
    }
    strategy(spec.get("updateStrategy").unwrap_or(&Value::Null), &path.child("updateStrategy"), errors);
    if let Some(retention) = given(spec, "persistentVolumeClaimRetentionPolicy") {
        let at = path.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            let policy = text(retention, field);
            checks::one_of(errors, &at.child(field), Some(policy), &["Retain", "Delete"]);
        }
    }
    let claims = spec.get("volumeClaimTemplates").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !lenient.immutable {
        for (i, claim) in claims.iter().enumerate() {
            let at = path.child("volumeClaimTemplates").index(i).child("spec");
            persistent_volume_claim::validate_spec(claim.get("spec").unwrap_or(&Value::Null), &at, errors);
        }
    }
    counts(spec, &["replicas", "minReadySeconds"], path, errors);
    if let Some(ordinals) = given(spec, "ordinals") {
        counts(ordinals, &["start"], &path.child("ordinals"), errors);
    }
    let service = text(spec, "serviceName");
    if !lenient.immutable && !service.is_empty() {
        checks::label(errors, &path.child("serviceName"), service);
    }
    let selector = workload::selector(spec, "statefulset", "", path, errors);
    let given_template = spec.get("template").unwrap_or(&Value::Null);
    let path = path.child("template");
    if let Some(selector) = selector {
        judge_template(given_template, &selector, claims, lenient, &path, errors);
    }
    template::runs_for_ever(given_template, "StatefulSet", &path, errors);
}

fn judge_template(
    given: &Value,
    selector: &Selector,
    claims: &[Value],
    lenient: Lenient,
    path: &Path,
    errors: &mut FieldErrors,
) {
    template::is_selected(given, selector, path, errors);
    if !lenient.template {
        template::validate(&as_pods_have_it(given, claims), path, errors);
    }
    // Upstream validates these once more, and reports the same causes twice.
    template::validate_metadata(given, path, errors);
}

/// The template as its pods use it: each claim is a volume, which replaces one with
/// the same name, and the set assigns the host names.
fn as_pods_have_it(template: &Value, claims: &[Value]) -> Value {
    let mut template = template.clone();
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    pod.remove("subdomain");
    pod.remove("hostname");
    if claims.is_empty() {
        return template;
    }
    let volumes: BTreeMap<&str, Value> = claims
        .iter()
        .map(|claim| {
            let name = claim.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            (name, json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        })
        .collect();
    let own = pod.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    let own = own.into_iter().filter(|volume| !volumes.contains_key(text(volume, "name")));
    let all: Vec<Value> = volumes.values().cloned().chain(own).collect();
    pod.insert("volumes".to_owned(), all.into());
    template
}

fn strategy(strategy: &Value, path: &Path, errors: &mut FieldErrors) {
    let rolling = given(strategy, "rollingUpdate");
    let at = path.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("", _) => errors.required(path, ""),
        ("OnDelete", None) | (ROLLING_UPDATE, None) => {}
        ("OnDelete", Some(_)) => {
            let text = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid_shown(&at, &ROLLING_SHOWN.show(rolling), text);
        }
        (ROLLING_UPDATE, Some(rolling)) => rolling_update(rolling, &at, errors),
        _ => {
            let text = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid_shown(path, &STRATEGY.show(Some(strategy)), text);
        }
    }
}

fn rolling_update(rolling: &Value, path: &Path, errors: &mut FieldErrors) {
    counts(rolling, &["partition"], path, errors);
    let Some(unavailable) = given(rolling, "maxUnavailable") else { return };
    let path = path.child("maxUnavailable");
    percent::validate(unavailable, &path, errors);
    if percent::amount(unavailable) == 0 {
        errors.invalid(&path, unavailable.clone(), "cannot be 0");
    }
    percent::at_most_all(unavailable, &path, errors);
}
