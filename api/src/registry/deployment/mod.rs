//! The `Deployment` kind.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::go_format::{Fields, Shape};
use super::replica_set::warnings;
use super::workload::{self, collisions, counts, percent, spec, status_numbers, table, template, text};
use super::{cells, checks};
use crate::kind::{
    Column, Generation, Kind, Names, Policy, ScalePaths, Scope, StatusSubresource, Subresource,
};
use crate::object::Object;
use crate::registry::json_defaults;
use crate::validate::{FieldErrors, Path};

/// The `Deployment` kind.
pub(super) struct Deployment;

const NAMES: Names = Names {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    plural: "deployments",
    singular: "deployment",
    short: &["deploy"],
    categories: &["all"],
    schema: "io.k8s.api.apps.v1.Deployment",
};

const ROLLING_UPDATE: &str = "RollingUpdate";
const RECREATE: &str = "Recreate";

/// A strategy with a rolling update of two numbers, in upstream's format.
pub(super) const STRATEGY: Shape = Shape::Struct(&[
    ("Type", "type", Shape::Text),
    ("RollingUpdate", "rollingUpdate", Shape::Pointer(ROLLING)),
]);
const ROLLING: Fields =
    &[("MaxUnavailable", "maxUnavailable", Shape::Count), ("MaxSurge", "maxSurge", Shape::Count)];

/// The counters of a status, which must not be negative.
const COUNTED: &[&str] = &[
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
];

impl Kind for Deployment {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/deployments/"
    }

    fn policy(&self) -> Policy {
        Policy {
            status: StatusSubresource::WithMetadata,
            generation: Generation::SpecAndAnnotations,
            ..Policy::DEFAULT
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        workload::SCALE
    }

    fn scale(&self) -> Option<ScalePaths<'_>> {
        Some(workload::scale_paths())
    }

    fn defaults(&self, deployment: &mut Object) {
        for (field, value) in
            [("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)]
        {
            deployment.set_default(&["spec", field], value);
        }
        let spec = deployment.object_at(&["spec"]);
        default_strategy(spec);
        template::fill(spec);
    }

    fn prepare_create(&self, deployment: &mut Object, _now: Timestamp) {
        deployment.set(&["status"], json!({}));
    }

    fn prepare_status(&self, deployment: &mut Object, old: &Object, _now: Timestamp) {
        let labels = ["metadata", "labels"];
        match old.at(&labels) {
            Some(before) => deployment.set(&labels, before.clone()),
            None => drop(deployment.remove(&labels)),
        }
    }

    fn validate(&self, deployment: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let spec = spec(deployment);
        counts(spec, &["replicas"], &path, errors);
        if let Some(selector) =
            workload::selector(spec, "deployment", "invalid label selector", &path, errors)
        {
            let template = spec.get("template").unwrap_or(&Value::Null);
            let path = path.child("template");
            template::is_selected(template, &selector, &path, errors);
            template::validate(template, &path, errors);
            // Upstream shares this rule with ReplicaSets, including the kind in the message.
            template::runs_for_ever(template, "ReplicaSet", &path, errors);
        }
        strategy(spec.get("strategy").unwrap_or(&Value::Null), &path.child("strategy"), errors);
        counts(spec, &["minReadySeconds", "revisionHistoryLimit"], &path, errors);
        workload::deadline(spec, &path, errors);
    }

    fn validate_update(&self, deployment: &Object, old: &Object, errors: &mut FieldErrors) {
        let path = ["spec", "selector"];
        checks::immutable(errors, &Path::new("spec.selector"), deployment.at(&path), old.at(&path));
    }

    fn validate_status(&self, deployment: &Object, old: &Object, errors: &mut FieldErrors) {
        let status = deployment.at(&["status"]).unwrap_or(&Value::Null);
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        status_numbers(status, COUNTED, &parts, "readyReplicas", errors);
        collisions(deployment, old, errors);
    }

    fn warnings(&self, deployment: &Object, old: Option<&Object>) -> Vec<String> {
        warnings(deployment, old)
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Ready", "Pods that are ready, of those that there are to be."),
            cells::text("Up-to-date", "Pods that are made from the present template."),
            cells::text("Available", "Pods that have been ready for long enough."),
            cells::AGE,
            table::CONTAINERS,
            table::IMAGES,
            table::SELECTOR,
        ];
        COLUMNS
    }

    fn cells(&self, deployment: &Object, now: Timestamp) -> Vec<Value> {
        let [containers, images] = table::containers(deployment);
        let count = |member: &str, field: &str| table::number(deployment, &[member, field]);
        vec![
            cells::name(deployment),
            format!("{}/{}", count("status", "readyReplicas"), count("spec", "replicas")).into(),
            count("status", "updatedReplicas").into(),
            count("status", "availableReplicas").into(),
            cells::age(deployment, now),
            containers,
            images,
            table::selector(deployment),
        ]
    }
}

fn default_strategy(spec: &mut Map<String, Value>) {
    json_defaults::value(spec, "strategy", json!({}));
    let Some(strategy) = json_defaults::object(spec, "strategy") else { return };
    json_defaults::text(strategy, "type", ROLLING_UPDATE);
    if strategy.get("type").is_some_and(|kind| kind == ROLLING_UPDATE) {
        json_defaults::value(strategy, "rollingUpdate", json!({}));
        if let Some(rolling) = json_defaults::object(strategy, "rollingUpdate") {
            json_defaults::value(rolling, "maxUnavailable", "25%");
            json_defaults::value(rolling, "maxSurge", "25%");
        }
    }
}

fn strategy(strategy: &Value, path: &Path, errors: &mut FieldErrors) {
    let rolling = workload::given(strategy, "rollingUpdate");
    let at = path.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        (RECREATE, None) => {}
        (RECREATE, Some(_)) => {
            errors.forbidden(&at, "may not be specified when strategy `type` is 'Recreate'");
        }
        (ROLLING_UPDATE, None) => errors.required(&at, "this should be defaulted and never be nil"),
        (ROLLING_UPDATE, Some(rolling)) => rolling_update(rolling, &at, errors),
        _ => errors.not_supported_shown(path, &STRATEGY.show(Some(strategy)), &[RECREATE, ROLLING_UPDATE]),
    }
}

fn rolling_update(rolling: &Value, path: &Path, errors: &mut FieldErrors) {
    let zero = json!(0);
    let unavailable = workload::given(rolling, "maxUnavailable").unwrap_or(&zero);
    let surge = workload::given(rolling, "maxSurge").unwrap_or(&zero);
    let at = path.child("maxUnavailable");
    percent::validate(unavailable, &at, errors);
    percent::validate(surge, &path.child("maxSurge"), errors);
    if percent::amount(unavailable) == 0 && percent::amount(surge) == 0 {
        errors.invalid(&at, unavailable.clone(), "may not be 0 when `maxSurge` is 0");
    }
    percent::at_most_all(unavailable, &at, errors);
}

#[cfg(test)]
mod tests;
