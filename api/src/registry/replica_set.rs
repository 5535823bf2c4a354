//! The `ReplicaSet` kind.

use jiff::Timestamp;
use serde_json::Value;

use super::workload::{self, counts, spec, status_numbers, table, template};
use super::{cells, checks};
use crate::kind::{
    Column, Generation, Kind, Names, Policy, ScalePaths, Scope, StatusSubresource, Subresource,
};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `ReplicaSet` kind.
pub(super) struct ReplicaSet;

const NAMES: Names = Names {
    group: "apps",
    version: "v1",
    kind: "ReplicaSet",
    plural: "replicasets",
    singular: "replicaset",
    short: &["rs"],
    categories: &["all"],
    schema: "io.k8s.api.apps.v1.ReplicaSet",
};

/// The counters of a status, which must not be negative.
const COUNTED: &[&str] = &[
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
];

/// The columns, shared with ReplicationController.
pub(super) const COLUMNS: &[Column] = &[
    cells::NAME,
    cells::typed("Desired", "integer", "Pods that there are to be."),
    cells::typed("Current", "integer", "Pods that there are."),
    cells::typed("Ready", "integer", "Pods that are ready."),
    cells::AGE,
    table::CONTAINERS,
    table::IMAGES,
    table::SELECTOR,
];

impl Kind for ReplicaSet {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/replicasets/"
    }

    fn policy(&self) -> Policy {
        Policy { status: StatusSubresource::WithMetadata, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn subresources(&self) -> &'static [Subresource] {
        workload::SCALE
    }

    fn scale(&self) -> Option<ScalePaths<'_>> {
        Some(workload::scale_paths())
    }

    fn defaults(&self, set: &mut Object) {
        set.set_default(&["spec", "replicas"], 1);
        template::fill(set.object_at(&["spec"]));
    }

    fn prepare_create(&self, set: &mut Object, _now: Timestamp) {
        empty_status(set);
    }

    fn validate(&self, set: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let spec = spec(set);
        counts(spec, &["replicas", "minReadySeconds"], &path, errors);
        // Upstream uses the name of the other kind here.
        if let Some(selector) =
            workload::selector(spec, "deployment", "invalid label selector", &path, errors)
        {
            let template = spec.get("template").unwrap_or(&Value::Null);
            let path = path.child("template");
            template::is_selected(template, &selector, &path, errors);
            template::validate(template, &path, errors);
            template::runs_for_ever(template, "ReplicaSet", &path, errors);
        }
    }

    fn validate_update(&self, set: &Object, old: &Object, errors: &mut FieldErrors) {
        let path = ["spec", "selector"];
        checks::immutable(errors, &Path::new("spec.selector"), set.at(&path), old.at(&path));
    }

    fn validate_status(&self, set: &Object, _old: &Object, errors: &mut FieldErrors) {
        let status = set.at(&["status"]).unwrap_or(&Value::Null);
        let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        status_numbers(status, COUNTED, &parts, "readyReplicas", errors);
    }

    fn warnings(&self, set: &Object, old: Option<&Object>) -> Vec<String> {
        warnings(set, old)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, set: &Object, now: Timestamp) -> Vec<Value> {
        row(set, table::selector(set), now)
    }
}

/// Sets the status of a new object: no replicas, regardless of the client's value.
pub(super) fn empty_status(object: &mut Object) {
    object.set(&["status"], serde_json::json!({"replicas": 0}));
}

/// Warnings: about the name on creation, and about the template on every change of the spec.
pub(super) fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    match old {
        None => {
            let mut found: Vec<String> = workload::name_warning(object).into_iter().collect();
            found.extend(template::warn(spec(object)));
            found
        }
        Some(old) if workload::has_new_generation(object, old) => template::warn(spec(object)),
        Some(_) => Vec::new(),
    }
}

/// The cells, with the selector already formatted.
pub(super) fn row(object: &Object, selector: Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = table::containers(object);
    vec![
        cells::name(object),
        table::number(object, &["spec", "replicas"]).into(),
        table::number(object, &["status", "replicas"]).into(),
        table::number(object, &["status", "readyReplicas"]).into(),
        cells::age(object, now),
        containers,
        images,
        selector,
    ]
}
