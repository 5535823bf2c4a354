//! `ControllerRevision`: a revision of a StatefulSet or DaemonSet for rollbacks.

use jiff::Timestamp;
use serde_json::Value;

use super::{cells, checks};
use crate::kind::{Column, Kind, Names, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `ControllerRevision` kind.
pub(super) struct ControllerRevision;

const NAMES: Names = Names {
    group: "apps",
    version: "v1",
    kind: "ControllerRevision",
    plural: "controllerrevisions",
    singular: "controllerrevision",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.apps.v1.ControllerRevision",
};

impl Kind for ControllerRevision {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/controllerrevisions/"
    }

    fn validate(&self, revision: &Object, errors: &mut FieldErrors) {
        let number = revision.at(&["revision"]).and_then(Value::as_i64).unwrap_or_default();
        checks::non_negative(errors, &Path::new("revision"), number);
    }

    fn validate_create(&self, revision: &Object, errors: &mut FieldErrors) {
        let path = Path::new("data");
        match revision.at(&["data"]) {
            None | Some(Value::Null) => errors.required(&path, "data is mandatory"),
            Some(Value::Object(_)) => {}
            Some(_) => errors.required(&path, "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, revision: &Object, old: &Object, errors: &mut FieldErrors) {
        checks::immutable(errors, &Path::new("data"), revision.at(&["data"]), old.at(&["data"]));
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Controller", "Object that the revision is of."),
            cells::text("Revision", "Number of the revision; later ones have greater numbers."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, revision: &Object, now: Timestamp) -> Vec<Value> {
        let number = revision.at(&["revision"]).and_then(Value::as_i64).unwrap_or_default();
        vec![cells::name(revision), controller(revision).into(), number.into(), cells::age(revision, now)]
    }
}

/// The controller of a revision, such as `statefulset.apps/web`.
fn controller(revision: &Object) -> String {
    let owners = revision.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let is_controller = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let Some(owner) = owners.into_iter().flatten().find(is_controller) else {
        return "<none>".to_owned();
    };
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind").to_lowercase();
    match text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text("name")),
        None => format!("{kind}/{}", text("name")),
    }
}

#[cfg(test)]
mod tests;
