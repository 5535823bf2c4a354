//! Migrates from client-side to server-side apply: kubectl's annotation contains the previously applied
//! configuration, so the first server-side apply with kubectl does not conflict with it.

use orlop_api::object::Object;
use orlop_api::validate::meta::ANNOTATIONS_MAX;
use orlop_openapi::StructType;
use serde_json::{Map, Value};

use super::compare::compare;
use super::config::{misfits, paths};
use super::set::Set;
use super::update::{Conflict, Writer};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The only manager that may use the annotation.
const MANAGER: &str = "kubectl";

/// Removes conflicts about fields that the live object still has as the annotation sets them. Also returns
/// whether no conflict remains.
pub(super) fn forgive(
    writer: &Writer<'_>,
    ty: &StructType,
    live: Option<&Object>,
    mut found: Vec<Conflict>,
) -> (Vec<Conflict>, bool) {
    let Some(allowed) = allowed(writer, ty, live) else { return (found, false) };
    found.retain(|conflict| !allowed.has(&conflict.elements));
    let forgiven = found.is_empty();
    (found, forgiven)
}

/// The paths in the annotation with unchanged values in the live object.
fn allowed(writer: &Writer<'_>, ty: &StructType, live: Option<&Object>) -> Option<Set> {
    if writer.manager != MANAGER {
        return None;
    }
    let live = live?;
    let mut last: Map<String, Value> = serde_json::from_str(live.annotation(ANNOTATION)?).ok()?;
    last.remove("kind");
    let version = last.remove("apiVersion")?;
    if version != writer.kind.names().api_version() || !misfits(ty, &last).is_empty() {
        return None;
    }
    let changes = compare(ty, &last, &live.0);
    let mut allowed = paths(ty, &last);
    allowed.subtract(&changes.written);
    allowed.subtract(&changes.removed);
    Some(allowed)
}

/// Writes the applied configuration into the annotation, if present, so that client-side apply continues to
/// work.
pub(super) fn keep_up(
    writer: &Writer<'_>,
    object: &mut Object,
    api_version: &str,
    kind: &str,
    config: &Map<String, Value>,
) {
    if writer.manager != MANAGER || object.annotation(ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = config.clone();
    applied.insert("apiVersion".to_owned(), api_version.into());
    applied.insert("kind".to_owned(), kind.into());
    let annotations = applied.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{}\n", Value::Object(applied));
    let others: usize = object
        .at(&["metadata", "annotations"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != ANNOTATION)
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum();
    if others + ANNOTATION.len() + text.len() > ANNOTATIONS_MAX {
        object.remove(&["metadata", "annotations", ANNOTATION]);
    } else {
        object.set(&["metadata", "annotations", ANNOTATION], text);
    }
}
