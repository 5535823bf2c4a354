//! Validation of environment variables.

use k8s_openapi::api::core::v1 as api;
use orlop_apimachinery::names;

use super::text;
use crate::registry::checks;
use crate::registry::field_refs::{field_ref, local_path, resource_field_ref};
use crate::validate::{FieldErrors, Path};

/// Fields of the pod that a variable may refer to.
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

/// The ConfigMaps and Secrets whose entries become variables of a container.
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
        // Upstream uses the path of the whole list here.
        match given {
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}
