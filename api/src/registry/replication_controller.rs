//! `ReplicationController`: the predecessor of ReplicaSet and Deployment.

use jiff::Timestamp;
use orlop_apimachinery::labels::Selector;
use serde_json::{Map, Value};

use super::replica_set::{COLUMNS, empty_status, row, warnings};
use super::workload::{self, counts, given, spec, status_numbers, table, template};
use crate::kind::{
    Column, Generation, Kind, Names, Policy, ScalePaths, ScaleSelector, Scope, StatusSubresource,
    Subresource, UnknownField,
};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `ReplicationController` kind.
pub(super) struct ReplicationController;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "ReplicationController",
    plural: "replicationcontrollers",
    singular: "replicationcontroller",
    short: &["rc"],
    categories: &["all"],
    schema: "io.k8s.api.core.v1.ReplicationController",
};

impl Kind for ReplicationController {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        // Upstream's name from before other controllers existed.
        "/registry/controllers/"
    }

    fn policy(&self) -> Policy {
        Policy { status: StatusSubresource::WithMetadata, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn subresources(&self) -> &'static [Subresource] {
        workload::SCALE
    }

    fn scale(&self) -> Option<ScalePaths<'_>> {
        Some(ScalePaths {
            selector: ScaleSelector::Labels(vec!["spec", "selector"]),
            ..workload::scale_paths()
        })
    }

    fn orphans_by_default(&self) -> bool {
        true
    }

    fn defaults(&self, controller: &mut Object) {
        let labels = controller.at(&["spec", "template", "metadata", "labels"]).and_then(Value::as_object);
        if let Some(labels) = labels.cloned().filter(|labels| !labels.is_empty()) {
            // An empty selector and empty labels default to the labels of the template.
            for path in [["spec", "selector"], ["metadata", "labels"]] {
                if controller.at(&path).and_then(Value::as_object).is_none_or(Map::is_empty) {
                    controller.set(&path, labels.clone());
                }
            }
        }
        controller.set_default(&["spec", "replicas"], 1);
        template::fill(controller.object_at(&["spec"]));
    }

    fn prepare_create(&self, controller: &mut Object, _now: Timestamp) {
        empty_status(controller);
    }

    fn validate(&self, controller: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let spec = spec(controller);
        counts(spec, &["minReadySeconds"], &path, errors);
        let empty = Map::new();
        let labels = spec.get("selector").and_then(Value::as_object).unwrap_or(&empty);
        if labels.is_empty() {
            errors.required(&path.child("selector"), "");
        }
        counts(spec, &["replicas"], &path, errors);
        let path = path.child("template");
        let Some(template) = given(spec, "template") else {
            errors.required(&path, "");
            return;
        };
        template::is_selected(template, &exact(labels), &path, errors);
        template::validate(template, &path, errors);
        template::runs_for_ever(template, "ReplicationController", &path, errors);
    }

    fn validate_status(&self, controller: &Object, _old: &Object, errors: &mut FieldErrors) {
        let status = controller.at(&["status"]).unwrap_or(&Value::Null);
        let counted =
            ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
        let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        status_numbers(status, &counted, &parts, "readyReplicas", errors);
    }

    fn warnings(&self, controller: &Object, old: Option<&Object>) -> Vec<String> {
        warnings(controller, old)
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn field(&self, controller: &Object, _name: &str) -> String {
        table::number(controller, &["status", "replicas"]).to_string()
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupported
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, controller: &Object, now: Timestamp) -> Vec<Value> {
        row(controller, table::labels(controller, &["spec", "selector"]), now)
    }
}

/// The selector for a map of labels. Invalid labels select nothing.
fn exact(labels: &Map<String, Value>) -> Selector {
    let match_labels =
        labels.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
    let selector = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
        match_labels: Some(match_labels.collect()),
        match_expressions: None,
    };
    Selector::from_label_selector(&selector).unwrap_or_else(|_| Selector::nothing())
}
