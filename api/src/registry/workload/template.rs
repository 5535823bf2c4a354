//! The pod template of a workload: defaults, and validation beyond that of its pod spec.

use orlop_apimachinery::labels::Selector;
use serde_json::{Map, Value, json};

use super::{given, text};
use crate::registry::json_defaults;
use crate::registry::pod_owner::Owner;
use crate::registry::pod_spec::{self, defaults, warnings};
use crate::registry::pod_update;
use crate::validate::label_selector::validate_labels;
use crate::validate::meta::validate_annotations;
use crate::validate::{FieldErrors, Path};

/// Defaults the fields that the template of a spec omits.
pub(in crate::registry) fn fill(spec: &mut Map<String, Value>) {
    let Some(template) = json_defaults::object(spec, "template") else { return };
    json_defaults::value(template, "metadata", json!({}));
    json_defaults::value(template, "spec", json!({}));
    if let Some(pod) = json_defaults::object(template, "spec") {
        defaults::pod_spec(pod, Owner::Template);
    }
}

/// Validates a template.
pub(in crate::registry) fn validate(template: &Value, path: &Path, errors: &mut FieldErrors) {
    validate_metadata(template, path, errors);
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    let at = path.child("spec");
    pod_spec::validate(&spec, Owner::Template, &at, errors);
    let ephemeral = spec.get("ephemeralContainers").and_then(Value::as_array);
    if ephemeral.is_some_and(|list| !list.is_empty()) {
        errors
            .forbidden(&at.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// Validates a template's labels and annotations. As in upstream, their paths omit
/// `metadata`.
pub(in crate::registry) fn validate_metadata(template: &Value, path: &Path, errors: &mut FieldErrors) {
    validate_labels(texts(template, "labels"), &path.child("labels"), errors);
    let at = path.child("annotations");
    validate_annotations(texts(template, "annotations"), &at, errors);
    let node = template.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
    let annotation =
        |key: &str| texts(template, "annotations").find(|(known, _)| *known == key).map(|(_, value)| value);
    pod_update::annotation_rules(annotation, node, &at, errors);
}

fn texts<'a>(template: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    let map = template.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Validates that the workload's selector matches the template's pods.
pub(in crate::registry) fn is_selected(
    template: &Value,
    selector: &Selector,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let labels = template.pointer("/metadata/labels");
    if selector.is_everything() || matches(labels, selector) {
        return;
    }
    let path = path.child("metadata").child("labels");
    let shown = labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty()));
    errors.invalid(&path, shown.cloned().unwrap_or_default(), "`selector` does not match template `labels`");
}

/// Whether labels, if present, match a selector.
pub(in crate::registry) fn matches(labels: Option<&Value>, selector: &Selector) -> bool {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    selector.matches(labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))))
}

/// Validates that the pods of a workload run indefinitely: they restart, and they have no deadline. `kind` is the
/// kind in the error message.
pub(in crate::registry) fn runs_for_ever(
    template: &Value,
    kind: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("spec");
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if given(spec, "activeDeadlineSeconds").is_some() {
        let text = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), &text);
    }
}

/// Warnings about the template of a spec.
pub(in crate::registry) fn warn(spec: &Value) -> Vec<String> {
    match spec.pointer("/template/spec") {
        Some(pod) => warnings::pod_spec(pod, &Path::new("spec.template.spec")),
        None => Vec::new(),
    }
}
