//! `DaemonSet`: one pod per node.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::deployment::STRATEGY;
use super::workload::{self, collisions, counts, given, percent, spec, table, template, text};
use super::{cells, checks};
use crate::kind::{Column, Generation, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::registry::json_defaults;
use crate::validate::label_selector::validate_label_selector;
use crate::validate::{FieldErrors, Path};

/// The `DaemonSet` kind.
pub(super) struct DaemonSet;

const NAMES: Names = Names {
    group: "apps",
    version: "v1",
    kind: "DaemonSet",
    plural: "daemonsets",
    singular: "daemonset",
    short: &["ds"],
    categories: &["all"],
    schema: "io.k8s.api.apps.v1.DaemonSet",
};

/// The number of template changes; a field before v1 and an annotation since.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const ROLLING_UPDATE: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";

/// The counters of a status, in upstream's order.
const COUNTED: &[&str] = &[
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

impl Kind for DaemonSet {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/daemonsets/"
    }

    fn policy(&self) -> Policy {
        Policy { status: StatusSubresource::WithMetadata, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn converted_annotations(&self) -> &'static [&'static str] {
        &[TEMPLATE_GENERATION]
    }

    fn defaults(&self, set: &mut Object) {
        set.set_default(&["spec", "revisionHistoryLimit"], 10);
        let spec = set.object_at(&["spec"]);
        default_strategy(spec);
        template::fill(spec);
    }

    fn prepare_create(&self, set: &mut Object, _now: Timestamp) {
        set.set(&["status"], empty_status());
        set_template_generation(set, template_generation(set).max(1));
    }

    fn prepare_update(&self, set: &mut Object, old: &Object, _now: Timestamp) {
        let template = ["spec", "template"];
        let changed = i64::from(set.at(&template) != old.at(&template));
        set_template_generation(set, template_generation(old) + changed);
    }

    fn prepare_status(&self, set: &mut Object, old: &Object, _now: Timestamp) {
        set_template_generation(set, template_generation(old));
    }

    fn validate(&self, set: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let spec = spec(set);
        selector(spec, &path, errors);
        let template = spec.get("template").unwrap_or(&Value::Null);
        let at = path.child("template");
        template::validate(template, &at, errors);
        template::runs_for_ever(template, "DaemonSet", &at, errors);
        counts(spec, &["minReadySeconds"], &path, errors);
        let generation = template_generation(set);
        checks::non_negative(errors, &path.child("templateGeneration"), generation);
        strategy(spec.get("updateStrategy").unwrap_or(&Value::Null), &path.child("updateStrategy"), errors);
        counts(spec, &["revisionHistoryLimit"], &path, errors);
    }

    fn validate_update(&self, set: &Object, old: &Object, errors: &mut FieldErrors) {
        let path = ["spec", "selector"];
        checks::immutable(errors, &Path::new("spec.selector"), set.at(&path), old.at(&path));
    }

    fn validate_status(&self, set: &Object, old: &Object, errors: &mut FieldErrors) {
        let status = set.at(&["status"]).unwrap_or(&Value::Null);
        counts(status, COUNTED, &Path::new("status"), errors);
        collisions(set, old, errors);
    }

    fn warnings(&self, set: &Object, old: Option<&Object>) -> Vec<String> {
        if old.is_none_or(|old| workload::has_new_generation(set, old)) {
            return template::warn(spec(set));
        }
        Vec::new()
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::typed("Desired", "integer", "Nodes that are to run a pod of the set."),
            cells::typed("Current", "integer", "Nodes that run one and are to."),
            cells::typed("Ready", "integer", "Nodes that run one that is ready."),
            cells::typed("Up-to-date", "integer", "Nodes that run one of the present template."),
            cells::typed("Available", "integer", "Nodes that run one that has been ready for long enough."),
            cells::text("Node Selector", "Labels of the nodes that the set is for."),
            cells::AGE,
            table::CONTAINERS,
            table::IMAGES,
            table::SELECTOR,
        ];
        COLUMNS
    }

    fn cells(&self, set: &Object, now: Timestamp) -> Vec<Value> {
        let [containers, images] = table::containers(set);
        let count = |field: &str| table::number(set, &["status", field]).into();
        vec![
            cells::name(set),
            count("desiredNumberScheduled"),
            count("currentNumberScheduled"),
            count("numberReady"),
            count("updatedNumberScheduled"),
            count("numberAvailable"),
            table::labels(set, &["spec", "template", "spec", "nodeSelector"]),
            cells::age(set, now),
            containers,
            images,
            table::selector(set),
        ]
    }
}

fn empty_status() -> Value {
    let always = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
    always.iter().map(|field| ((*field).to_owned(), json!(0))).collect::<Map<String, Value>>().into()
}

fn template_generation(set: &Object) -> i64 {
    set.annotation(TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(set: &mut Object, generation: i64) {
    set.set(&["metadata", "annotations", TEMPLATE_GENERATION], generation.to_string());
}

fn default_strategy(spec: &mut Map<String, Value>) {
    json_defaults::value(spec, "updateStrategy", json!({}));
    let Some(strategy) = json_defaults::object(spec, "updateStrategy") else { return };
    json_defaults::text(strategy, "type", ROLLING_UPDATE);
    if strategy.get("type").is_some_and(|kind| kind == ROLLING_UPDATE) {
        json_defaults::value(strategy, "rollingUpdate", json!({}));
        if let Some(rolling) = json_defaults::object(strategy, "rollingUpdate") {
            json_defaults::value(rolling, "maxUnavailable", 1);
            json_defaults::value(rolling, "maxSurge", 0);
        }
    }
}

/// The selector may be absent. It then selects nothing, so the template does not match it.
fn selector(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let at = path.child("selector");
    let found = given(spec, "selector");
    let typed = found.map(|value| LabelSelector::deserialize(value).unwrap_or_default());
    if let Some(typed) = &typed {
        validate_label_selector(typed, &at, errors);
    }
    let selector = match &typed {
        Some(typed) => Selector::from_label_selector(typed),
        None => Ok(Selector::nothing()),
    };
    if let Ok(selector) = selector {
        let template = spec.get("template").unwrap_or(&Value::Null);
        template::is_selected(template, &selector, &path.child("template"), errors);
    }
    if let (Some(found), true) = (found, typed.as_ref().is_some_and(workload::is_empty)) {
        errors.invalid(&at, found.clone(), "empty selector is invalid for daemonset");
    }
}

fn strategy(strategy: &Value, path: &Path, errors: &mut FieldErrors) {
    let rolling = given(strategy, "rollingUpdate");
    let at = path.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        (ON_DELETE, _) => {}
        (ROLLING_UPDATE, None) => errors.required(&at, ""),
        (ROLLING_UPDATE, Some(rolling)) => rolling_update(rolling, &at, errors),
        _ => errors.not_supported_shown(path, &STRATEGY.show(Some(strategy)), &[ROLLING_UPDATE, ON_DELETE]),
    }
}

/// Either a pod is deleted before its replacement is created, or the other way round.
fn rolling_update(rolling: &Value, path: &Path, errors: &mut FieldErrors) {
    let zero = json!(0);
    let unavailable = given(rolling, "maxUnavailable").unwrap_or(&zero);
    let surge = given(rolling, "maxSurge").unwrap_or(&zero);
    let (at_unavailable, at_surge) = (path.child("maxUnavailable"), path.child("maxSurge"));
    percent::validate(unavailable, &at_unavailable, errors);
    percent::validate(surge, &at_surge, errors);
    percent::at_most_all(unavailable, &at_unavailable, errors);
    percent::at_most_all(surge, &at_surge, errors);
    match (percent::amount(unavailable) != 0, percent::amount(surge) != 0) {
        (true, true) => {
            errors.invalid(&at_surge, surge.clone(), "may not be set when maxUnavailable is non-zero");
        }
        (false, false) => errors.required(&at_unavailable, "cannot be 0 when maxSurge is 0"),
        (true, false) | (false, true) => {}
    }
}

#[cfg(test)]
mod tests;
