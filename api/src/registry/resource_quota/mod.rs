//! `ResourceQuota`: limits on the resources of a namespace, and their usage.
//!
//! docs/quota.md describes what is counted, and by which component; this module validates the object (upstream:
//! ValidateResourceQuota).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::pod_spec::resources::{amount, is_standard_in_quotas, quota_name};
use super::volume_rules::{entries, items, text};
use super::{cells, checks, go_format};
use crate::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `ResourceQuota` kind.
pub(super) struct ResourceQuota;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "ResourceQuota",
    plural: "resourcequotas",
    singular: "resourcequota",
    short: &["quota"],
    categories: &[],
    schema: "io.k8s.api.core.v1.ResourceQuota",
};

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

/// Scopes that exclude each other.
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// Resources of pods that a pod scope may limit.
const COMPUTE: [&str; 6] =
    ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

const EXISTS_ALONE: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                            ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                            ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

impl Kind for ResourceQuota {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/resourcequotas/"
    }

    fn policy(&self) -> Policy {
        Policy {
            delete_answer: DeleteAnswer::Object,
            status: StatusSubresource::WithMetadata,
            ..Policy::DEFAULT
        }
    }

    fn defaults(&self, quota: &mut Object) {
        quota.set_default(&["spec"], Map::new());
        quota.set_default(&["status"], Map::new());
    }

    fn prepare_create(&self, quota: &mut Object, _now: Timestamp) {
        quota.set(&["status"], Map::new());
    }

    fn validate(&self, quota: &Object, errors: &mut FieldErrors) {
        let spec = quota.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        amounts(spec, "hard", &path, errors);
        scopes(spec, &path, errors);
        scope_selector(spec, &path, errors);
    }

    fn validate_update(&self, quota: &Object, old: &Object, errors: &mut FieldErrors) {
        let given = |object: &Object| -> BTreeSet<String> {
            let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
            items(spec, "scopes").iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        if given(quota) != given(old) {
            let shown = quota.at(&["spec", "scopes"]).cloned().unwrap_or_default();
            errors.invalid(&Path::new("spec.scopes"), shown, checks::IMMUTABLE);
        }
    }

    fn validate_status(&self, quota: &Object, _old: &Object, errors: &mut FieldErrors) {
        let status = quota.at(&["status"]).unwrap_or(&Value::Null);
        for part in ["hard", "used"] {
            amounts(status, part, &Path::new("status"), errors);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Request", "Used and allowed amounts, except limits of containers."),
            cells::text("Limit", "Used and allowed amounts of limits of containers."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, quota: &Object, now: Timestamp) -> Vec<Value> {
        let status = quota.at(&["status"]).unwrap_or(&Value::Null);
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (name, hard) in entries(status, "hard") {
            let used = status.get("used").map_or("", |used| text(used, name));
            let shown = format!("{name}: {}/{}", cells::or(used, "0"), hard.as_str().unwrap_or("0"));
            let column = if name.starts_with("limits.") { &mut limits } else { &mut requests };
            column.push(shown);
        }
        vec![cells::name(quota), requests.join(", ").into(), limits.join(", ").into(), cells::age(quota, now)]
    }
}

/// A map from resources to amounts.
fn amounts(value: &Value, part: &str, path: &Path, errors: &mut FieldErrors) {
    let path = path.child(part);
    for (name, quantity) in entries(value, part) {
        let path = path.key(name);
        quota_name(name, &path, errors);
        amount(name, quantity.as_str().unwrap_or_default(), &path, errors);
    }
}

/// Whether a scope applies to a resource; unknown scopes are accepted.
fn scope_fits(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || COMPUTE.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

/// The number of standard resources of a quota to which a scope does not apply. A scope may be listed many times, and is
/// compared with the resources once.
#[derive(Default)]
struct Misfits<'a>(BTreeMap<&'a str, usize>);

impl<'a> Misfits<'a> {
    fn of(&mut self, spec: &Value, scope: &'a str) -> usize {
        *self.0.entry(scope).or_insert_with(|| {
            let names = entries(spec, "hard").map(|(name, _)| name);
            names.filter(|name| is_standard_in_quotas(name) && !scope_fits(scope, name)).count()
        })
    }
}

fn is_conflicting(scopes: &[&str]) -> usize {
    CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))).count()
}

/// `spec.scopes`.
fn scopes(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("scopes");
    let scopes: Vec<&str> = items(spec, "scopes").iter().filter_map(Value::as_str).collect();
    let shown = || spec.get("scopes").cloned().unwrap_or_default();
    let mut misfits = Misfits::default();
    for scope in &scopes {
        if errors.is_full() {
            return;
        }
        if !SCOPES.contains(scope) {
            errors.invalid(&path, shown(), "unsupported scope");
        }
        for _ in 0..misfits.of(spec, scope) {
            if errors.is_full() {
                return;
            }
            errors.invalid(&path, shown(), "unsupported scope applied to resource");
        }
    }
    for _ in 0..is_conflicting(&scopes) {
        errors.invalid(&path, shown(), "conflicting scopes");
    }
}

/// `spec.scopeSelector`. Upstream's paths omit the index of the expression.
fn scope_selector(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(selector) = spec.get("scopeSelector").filter(|selector| !selector.is_null()) else { return };
    let path = path.child("scopeSelector").child("matchExpressions");
    let mut scopes = Vec::new();
    let mut misfits = Misfits::default();
    for expression in items(selector, "matchExpressions") {
        if errors.is_full() {
            return;
        }
        let (scope, operator) = (text(expression, "scopeName"), text(expression, "operator"));
        scopes.push(scope);
        if !SCOPES.contains(&scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..misfits.of(spec, scope) {
            if errors.is_full() {
                return;
            }
            let shown = go_format::SCOPE_SELECTOR.show(Some(selector));
            errors.invalid_shown(&path, &shown, "unsupported scope applied to resource");
        }
        let chooses = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope) && !chooses && operator != "Exists" {
            errors.invalid(&path.child("operator"), operator, EXISTS_ALONE);
        }
        let values = items(expression, "values");
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.required(
                &path.child("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.invalid(
                &path.child("values"),
                values.to_vec(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
        }
    }
    for _ in 0..is_conflicting(&scopes) {
        let shown = spec.get("scopes").cloned().unwrap_or_default();
        errors.invalid(&path, shown, "conflicting scopes");
    }
}

#[cfg(test)]
mod tests;
