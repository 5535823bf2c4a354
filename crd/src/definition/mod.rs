//! Defaults, validation rules and conditions of definitions: names, versions, immutable fields and deletion.
//!
//! Upstream: apiextensions-apiserver `pkg/apis/apiextensions/validation`.

use std::collections::{BTreeSet, HashSet};

use orlop_api::object::Object;
use orlop_api::validate::{FieldErrors, Path};
use serde_json::{Value, json};

use crate::format;

mod name;
mod part;
mod reserved;
mod version;
mod version_format;

use version::Versions;

pub(crate) use name::MAX_NAMES;
pub(crate) use reserved::{can_be_served, prefix};

/// Upstream's message about names of groups.
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const IMMUTABLE: &str = "field is immutable";
/// The annotation that approves a definition in one of Kubernetes' own groups.
pub const APPROVED: &str = "api-approved.kubernetes.io";

/// The finalizer that retains a definition until its objects are deleted.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in the fields that a client may omit.
pub fn defaults(object: &mut Object) {
    let kind = object.str_at(&["spec", "names", "kind"]).to_owned();
    if object.str_at(&["spec", "names", "singular"]).is_empty() && !kind.is_empty() {
        object.set(&["spec", "names", "singular"], kind.to_lowercase());
    }
    if object.str_at(&["spec", "names", "listKind"]).is_empty() && !kind.is_empty() {
        object.set(&["spec", "names", "listKind"], format!("{kind}List"));
    }
    if object.str_at(&["spec", "conversion", "strategy"]).is_empty() {
        object.set(&["spec", "conversion", "strategy"], "None");
    }
}

/// Sets the status of a definition that no controller has processed yet.
pub fn first_status(object: &mut Object) {
    let stored = storage_version(object).map_or(Value::Null, |version| json!([version]));
    let status = json!({
        "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored,
    });
    object.set(&["status"], status);
}

/// Adds the storage version to the stored versions.
pub(crate) fn keep_stored_versions(object: &mut Object) {
    let Some(version) = storage_version(object) else { return };
    let stored = object.object_at(&["status"]).entry("storedVersions").or_insert_with(|| json!([]));
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let Value::Array(stored) = stored
        && !stored.contains(&Value::from(version.as_str()))
    {
        stored.push(version.into());
    }
}

fn storage_version(object: &Object) -> Option<String> {
    let storage = versions(object).iter().find(|version| version["storage"] == true)?;
    storage["name"].as_str().map(str::to_owned)
}

fn versions(object: &Object) -> &[Value] {
    object.at(&["spec", "versions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether a group belongs to Kubernetes.
pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|own| group == *own || group.ends_with(&format!(".{own}")))
}

/// Validates a definition.
pub(crate) fn validate(object: &Object, old: Option<&Object>, errors: &mut FieldErrors) {
    let group = object.str_at(&["spec", "group"]);
    let plural = object.str_at(&["spec", "names", "plural"]);
    // A change of the group or the plural has an error of its own.
    if old.is_none() && object.name() != format!("{plural}.{group}") {
        errors.invalid(
            &Path::new("metadata.name"),
            object.name(),
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
    let spec = Path::new("spec");
    if group.is_empty() {
        errors.required(&spec.child("group"), "");
    } else if !is_subdomain(group) {
        errors.invalid(&spec.child("group"), group, SUBDOMAIN);
    } else if !group.contains('.') {
        errors.invalid(&spec.child("group"), group, "should be a domain with at least one dot");
    }
    // Both are immutable, and the finalizers of definitions that exist must stay removable.
    if old.is_none() {
        reserved::validate(group, plural, &spec, errors);
    }
    match object.str_at(&["spec", "scope"]) {
        "" => errors.required(&spec.child("scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported(&spec.child("scope"), other, &["Cluster", "Namespaced"]),
    }
    let mut versions = Versions::of(object, old);
    versions.validate_each(&spec.child("versions"), errors);
    name::validate(object, &spec.child("names"), errors);
    name::validate_room(object, old, &spec, errors);
    versions.validate_shared(&spec, errors);
    validate_conversion(object, &spec.child("conversion"), errors);
    if old.is_none() {
        validate_stored_versions(object, errors);
    }
    let is_new_group = old.is_none_or(|old| old.str_at(&["spec", "group"]) != group);
    if is_protected(group) && is_new_group && object.annotation(APPROVED).is_none_or(str::is_empty) {
        errors.required(
            &Path::new("metadata.annotations").key(APPROVED),
            &format!(
                "protected groups must have approval annotation {APPROVED:?}, see \
                 https://github.com/kubernetes/enhancements/pull/1111"
            ),
        );
    }
    let is_pruning =
        |object: &Object| object.at(&["spec", "preserveUnknownFields"]) != Some(&Value::Bool(true));
    if !is_pruning(object) && old.is_none_or(is_pruning) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                   spec.versions[*].schema instead";
        errors.invalid(&spec.child("preserveUnknownFields"), true, why);
    }
}

fn validate_conversion(object: &Object, path: &Path, errors: &mut FieldErrors) {
    let webhook = object.at(&["spec", "conversion", "webhook"]);
    let member = |name: &str| webhook.and_then(|webhook| webhook.get(name)).filter(|value| !value.is_null());
    let review_versions =
        member("conversionReviewVersions").and_then(Value::as_array).filter(|list| !list.is_empty());
    let (config_path, versions_path) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    match object.str_at(&["spec", "conversion", "strategy"]) {
        "None" => {
            let why = "should not be set when strategy is not set to Webhook";
            if member("clientConfig").is_some() {
                errors.forbidden(&config_path, why);
            }
            if review_versions.is_some() {
                errors.forbidden(&versions_path, why);
            }
        }
        "Webhook" if member("clientConfig").is_none() || review_versions.is_none() => {
            if member("clientConfig").is_none() {
                errors.required(&config_path, "required when strategy is set to Webhook");
            }
            if review_versions.is_none() {
                errors.required(&versions_path, "");
            }
        }
        // No conversion webhook is ever called; accepting this strategy would return wrong objects.
        "Webhook" => errors.not_supported(&path.child("strategy"), "Webhook", &["None"]),
        other => errors.not_supported(&path.child("strategy"), other, &["None", "Webhook"]),
    }
}

/// Warnings about the formats of a definition that no server validates, except those of the stored definition.
pub(crate) fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let known = old.map(unrecognized_formats).unwrap_or_default();
    let new = unrecognized_formats(object).into_iter().filter(|format| !known.contains(format));
    new.map(|format| format!("unrecognized format {format:?}")).collect()
}

fn unrecognized_formats(object: &Object) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let schemas = versions(object).iter().map(|version| &version["schema"]["openAPIV3Schema"]);
    let mut todo: Vec<&Value> = schemas.collect();
    while let Some(schema) = todo.pop() {
        let text = |name: &str| schema[name].as_str().unwrap_or_default();
        if !text("format").is_empty() && !format::is_recognized(text("type"), text("format")) {
            found.insert(text("format").to_owned());
        }
        for name in ["items", "additionalProperties", "not"] {
            todo.extend(schema.get(name).filter(|inner| inner.is_object()));
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            todo.extend(schema[name].as_array().into_iter().flatten());
        }
        todo.extend(schema["properties"].as_object().into_iter().flat_map(serde_json::Map::values));
    }
    found
}

/// Validates an update of a definition.
pub(crate) fn validate_update(object: &Object, old: &Object, errors: &mut FieldErrors) {
    let spec = Path::new("spec");
    let mut fixed = |path: &[&str]| {
        let (new, stored) = (object.str_at(path), old.str_at(path));
        if new != stored {
            let path = path[1..].iter().fold(spec.clone(), |path, step| path.child(step));
            errors.invalid(&path, new, IMMUTABLE);
        }
    };
    if is_established(old) {
        fixed(&["spec", "scope"]);
        fixed(&["spec", "names", "kind"]);
    }
    fixed(&["spec", "group"]);
    fixed(&["spec", "names", "plural"]);
    validate_stored_versions(object, errors);
}

/// Validates an update of the status of a definition.
pub(crate) fn validate_status(object: &Object, old: &Object, errors: &mut FieldErrors) {
    validate_stored_versions(object, errors);
    name::validate_accepted_room(object, old, errors);
}

/// Checks that every stored version is still defined.
pub(crate) fn validate_stored_versions(object: &Object, errors: &mut FieldErrors) {
    let path = Path::new("status.storedVersions");
    let given = object.at(&["status", "storedVersions"]).cloned().unwrap_or_default();
    let stored: Vec<&str> = given.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if stored.is_empty() {
        errors.invalid(&path, given, "must have at least one stored version");
        return;
    }
    let known: HashSet<&str> = stored.iter().copied().collect();
    for version in versions(object).iter().filter(|version| version["storage"] == true) {
        let name = version["name"].as_str().unwrap_or_default();
        if !known.contains(name) && !errors.is_full() {
            errors.invalid(&path, given.clone(), &format!("must have the storage version {name}"));
        }
    }
    let defined: HashSet<&str> =
        versions(object).iter().filter_map(|version| version["name"].as_str()).collect();
    for (at, name) in stored.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        if !defined.contains(name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            errors.invalid(&path.index(at), *name, &why);
        }
    }
}

/// Returns the status of a condition, `""` if the condition is missing.
pub fn condition<'o>(object: &'o Object, ty: &str) -> &'o str {
    let all = object.at(&["status", "conditions"]).and_then(Value::as_array);
    let found = all.into_iter().flatten().find(|condition| condition["type"] == ty);
    found.and_then(|found| found["status"].as_str()).unwrap_or_default()
}

/// Whether the kind of the definition is served.
pub fn is_established(object: &Object) -> bool {
    condition(object, "Established") == "True"
}

/// Adds or replaces the condition of a type. Its transition time changes only with its status.
pub fn set_condition(object: &mut Object, ty: &str, status: &str, reason: &str, message: &str, now: &Value) {
    let conditions = object.object_at(&["status"]).entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    let known = conditions.iter_mut().find(|condition| condition["type"] == ty);
    let since = match &known {
        Some(known) if known["status"] == status => known["lastTransitionTime"].clone(),
        Some(_) | None => now.clone(),
    };
    let condition = json!({
        "type": ty, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

fn is_subdomain(text: &str) -> bool {
    crate::format::fits("k8s-long-name", text)
}

/// Marks a definition as terminating; the deletion of its objects follows.
pub fn begin_delete(object: &mut Object) {
    if condition(object, "Terminating") == "True" {
        return;
    }
    let now = object.at(&["metadata", "deletionTimestamp"]).cloned().unwrap_or_default();
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(object, "Terminating", "True", "InstanceDeletionPending", message, &now);
}

#[cfg(test)]
mod tests;
