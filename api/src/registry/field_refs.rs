//! References to fields and resources, which environment variables share with the files of the downward API, and
//! validation of relative file paths.

use k8s_openapi::api::core::v1 as api;
use serde_json::{Map, Value};

use super::checks;
use super::json_defaults::{object, text as default_text};
use crate::validate::{FieldErrors, Path};

/// Fields that a reference may use, besides labels and annotations.
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Resources that a reference may use.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Defaults the API version of a `fieldRef` in an environment variable or a file of the downward API.
pub(super) fn default_api_version(holder: &mut Map<String, Value>) {
    if let Some(reference) = object(holder, "fieldRef") {
        default_text(reference, "apiVersion", "v1");
    }
}

fn text(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}

/// A reference to a field of the pod; `fields` are those supported in this context.
pub(super) fn field_ref(
    reference: &api::ObjectFieldSelector,
    fields: &[&str],
    path: &Path,
    errors: &mut FieldErrors,
) {
    let at = path.child("fieldPath");
    if !checks::required(errors, &path.child("apiVersion"), text(&reference.api_version))
        || !checks::required(errors, &at, &reference.field_path)
    {
        return;
    }
    let field = reference.field_path.as_str();
    let problem = if text(&reference.api_version) != "v1" {
        Some(format!("unsupported pod version: {}", text(&reference.api_version)))
    } else {
        match subscript(field) {
            Some(("metadata.annotations" | "metadata.labels", _)) => None,
            Some(_) => Some(format!("field label does not support subscript: {field}")),
            None if KNOWN_FIELDS.contains(&field) || field == "spec.host" => None,
            None => Some(format!("field label not supported: {field}")),
        }
    };
    if let Some(problem) = problem {
        errors.invalid(&at, field, &format!("error converting fieldPath: {problem}"));
        return;
    }
    match subscript(field) {
        Some(("metadata.annotations", key)) => checks::qualified_name(errors, path, &key.to_lowercase()),
        Some((_, key)) => checks::qualified_name(errors, path, key),
        None => {
            // The field's name before v1.
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            checks::one_of(errors, &at, Some(field), fields);
        }
    }
}

/// Splits `metadata.labels['a']` into the path and the key.
fn subscript(field: &str) -> Option<(&str, &str)> {
    let (path, key) = field.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// A reference to a resource of a container; a file's reference must name the container.
pub(super) fn resource_field_ref(
    reference: &api::ResourceFieldSelector,
    in_file: bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let resource = reference.resource.as_str();
    let is_huge =
        ["requests.hugepages-", "limits.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if in_file && text(&reference.container_name).is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if checks::required(errors, &path.child("resource"), resource) && !is_huge {
        checks::one_of(errors, &path.child("resource"), Some(resource), &RESOURCES);
    }
    let divisor = reference.divisor.as_ref().map_or("0", |divisor| divisor.0.as_str());
    if divisor == "0" {
        return;
    }
    let (known, what): (&[&str], _) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "cpu"),
        "limits.memory" | "requests.memory" => (&SIZES, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (&SIZES, "local ephemeral storage"),
        _ if is_huge => (&SIZES, "hugepages"),
        _ => return,
    };
    if !known.contains(&divisor) {
        let values = if what == "cpu" { "1m and 1".to_owned() } else { SIZES.join(", ") };
        let text = format!("only divisor's values {values} are supported with the {what} resource");
        errors.invalid(&path.child("divisor"), resource, &text);
    }
}

/// Divisors of sizes.
const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// A path below a directory: relative, without `..`.
pub(super) fn descending_path(value: &str, path: &Path, errors: &mut FieldErrors) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    if value.split('/').any(|part| part == "..") {
        errors.invalid(path, value, "must not contain '..'");
    }
}

/// A descending path that does not start with `..` either; the kubelet reserves those names.
pub(super) fn local_path(value: &str, path: &Path, errors: &mut FieldErrors) {
    descending_path(value, path, errors);
    if value.starts_with("..") && value != ".." && !value.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}
