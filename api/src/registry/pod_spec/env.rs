//! Rules of environment variables, and of the references to fields that they share with files of
//! the downward API.

use k8s_openapi::api::core::v1 as api;
use orlop_apimachinery::names;

use super::text;
use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// Fields that a variable may show.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields that a reference may name at all; besides labels and annotations.
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

/// Resources that a reference may name.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// The variables of a container.
pub(super) fn variables(variables: &[api::EnvVar], path: &Path, errors: &mut FieldErrors) {
    for (i, variable) in variables.iter().enumerate() {
        let path = path.index(i);
        if checks::required(errors, &path.child("name"), &variable.name) {
            checks::each(errors, &path.child("name"), &variable.name, names::env_var_name(&variable.name));
        }
        if let Some(from) = &variable.value_from {
            value_from(from, text(&variable.value), &path.child("valueFrom"), errors);
        }
    }
}

fn value_from(from: &api::EnvVarSource, value: &str, path: &Path, errors: &mut FieldErrors) {
    let mut sources = 0;
    if let Some(reference) = &from.field_ref {
        sources += 1;
        field_ref(reference, &VARIABLE_FIELDS, &path.child("fieldRef"), errors);
    }
    if let Some(reference) = &from.resource_field_ref {
        sources += 1;
        resource_field_ref(reference, false, &path.child("resourceFieldRef"), errors);
    }
    if let Some(reference) = &from.config_map_key_ref {
        sources += 1;
        key_ref(&reference.name, &reference.key, &path.child("configMapKeyRef"), errors);
    }
    if let Some(reference) = &from.secret_key_ref {
        sources += 1;
        key_ref(&reference.name, &reference.key, &path.child("secretKeyRef"), errors);
    }
    if let Some(reference) = &from.file_key_ref {
        sources += 1;
        let path = path.child("fileKeyRef");
        if checks::required(errors, &path.child("key"), &reference.key) {
            checks::each(errors, &path.child("key"), &reference.key, names::env_var_name(&reference.key));
        }
        checks::required(errors, &path.child("volumeName"), &reference.volume_name);
        if checks::required(errors, &path.child("path"), &reference.path) {
            local_path(&reference.path, &path.child("path"), errors);
        }
    }
    if sources == 0 {
        let text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "", text);
    } else if !value.is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// A key of a ConfigMap or Secret.
fn key_ref(name: &str, key: &str, path: &Path, errors: &mut FieldErrors) {
    checks::subdomain(errors, &path.child("name"), name);
    if checks::required(errors, &path.child("key"), key) {
        checks::config_key(errors, &path.child("key"), key);
    }
}

/// The ConfigMaps and Secrets that a container takes all variables from.
pub(super) fn sources(sources: &[api::EnvFromSource], path: &Path, errors: &mut FieldErrors) {
    for (i, source) in sources.iter().enumerate() {
        let at = path.index(i);
        let prefix = text(&source.prefix);
        if !prefix.is_empty() {
            checks::each(errors, &at.child("prefix"), prefix, names::env_var_name(prefix));
        }
        let references = [
            ("configMapRef", source.config_map_ref.as_ref().map(|reference| reference.name.as_str())),
            ("secretRef", source.secret_ref.as_ref().map(|reference| reference.name.as_str())),
        ];
        let mut given = 0;
        for (field, name) in references {
            let Some(name) = name else { continue };
            given += 1;
            let path = at.child(field).child("name");
            if checks::required(errors, &path, name) {
                checks::subdomain(errors, &path, name);
            }
        }
        // Upstream gives the path of the whole list here.
        match given {
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}

/// A reference to a field of the pod; `fields` are those that may be shown here.
pub(in crate::registry) fn field_ref(
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
            // The name that the field had before v1.
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            checks::one_of(errors, &at, Some(field), fields);
        }
    }
}

/// `metadata.labels['a']` as the path and the key.
fn subscript(field: &str) -> Option<(&str, &str)> {
    let (path, key) = field.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// A reference to a resource of a container; files must name the container.
pub(in crate::registry) fn resource_field_ref(
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

/// A path below some directory: relative, without steps back.
pub(in crate::registry) fn descending_path(value: &str, path: &Path, errors: &mut FieldErrors) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    if value.split('/').any(|part| part == "..") {
        errors.invalid(path, value, "must not contain '..'");
    }
}

/// A descending path that does not begin with two dots either; those names are the kubelet's.
pub(in crate::registry) fn local_path(value: &str, path: &Path, errors: &mut FieldErrors) {
    descending_path(value, path, errors);
    if value.starts_with("..") && value != ".." && !value.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}
