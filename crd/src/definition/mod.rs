//! Defaults, validation rules and conditions of definitions: names, versions, immutable fields and deletion.
//!
//! Upstream: apiextensions-apiserver `pkg/apis/apiextensions/validation`.

use orlop_api::object::Object;
use orlop_api::validate::{FieldErrors, Path};
use serde_json::{Value, json};

use crate::{columns, structural};

/// Upstream's messages about names.
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const IMMUTABLE: &str = "field is immutable";
/// Maximum number of selectable fields.
const MAX_SELECTABLE: usize = 8;
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
    let stored: Vec<Value> = storage_version(object).into_iter().map(Value::from).collect();
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
    if object.name() != format!("{plural}.{group}") {
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
    match object.str_at(&["spec", "scope"]) {
        "" => errors.required(&spec.child("scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported(&spec.child("scope"), other, &["Cluster", "Namespaced"]),
    }
    if object.at(&["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true)) {
        errors.invalid(&spec.child("preserveUnknownFields"), true, "must be false");
    }
    validate_versions(object, old, &spec.child("versions"), errors);
    validate_names(object, &spec.child("names"), errors);
    match object.str_at(&["spec", "conversion", "strategy"]) {
        "None" => {}
        // No conversion webhook is ever called; accepting this strategy would return wrong objects.
        other => errors.not_supported(&spec.child("conversion").child("strategy"), other, &["None"]),
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
}

fn validate_versions(object: &Object, old: Option<&Object>, path: &Path, errors: &mut FieldErrors) {
    let versions = versions(object);
    for (at, version) in versions.iter().enumerate() {
        let path = path.index(at);
        let name = version["name"].as_str().unwrap_or_default();
        if !is_label_1035(name) {
            errors.invalid(&path.child("name"), name, LABEL_1035);
        }
        let known = old.map(self::versions).into_iter().flatten().find(|known| known["name"] == name);
        validate_version(version, known, &path, errors);
    }
    let whole = || Value::from(versions);
    let mut names: Vec<&str> = versions.iter().filter_map(|version| version["name"].as_str()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        errors.invalid(path, whole(), "must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        errors.invalid(path, whole(), "must have exactly one version marked as storage version");
    }
}

fn validate_version(version: &Value, known: Option<&Value>, path: &Path, errors: &mut FieldErrors) {
    let schema_path = path.child("schema").child("openAPIV3Schema");
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        errors.required(&schema_path, "schemas are required");
    } else if known.is_none_or(|known| known["schema"] != version["schema"]) {
        structural::validate(schema, &schema_path, errors);
    }
    let warning = version["deprecationWarning"].as_str();
    if let Some(warning) = warning {
        let path = path.child("deprecationWarning");
        if version["deprecated"] != true {
            errors.invalid(&path, warning, "can only be set for deprecated versions");
        }
        if warning.is_empty() || warning.len() > 256 || warning.chars().any(char::is_control) {
            errors.invalid(&path, warning, "must be 1 to 256 printable UTF-8 characters");
        }
    }
    let scale = &version["subresources"]["scale"];
    if scale.is_object() {
        let path = path.child("subresources").child("scale");
        for (name, roots, is_required) in [
            ("specReplicasPath", &[".spec."][..], true),
            ("statusReplicasPath", &[".status."], true),
            ("labelSelectorPath", &[".status.", ".spec."], false),
        ] {
            let path = path.child(name);
            let given = scale[name].as_str().unwrap_or_default();
            let under = roots.iter().any(|root| given.starts_with(root));
            if given.is_empty() {
                if is_required {
                    errors.required(&path, "");
                }
            } else if columns::simple_path(given).is_none() {
                errors.invalid(&path, given, "should be a simple json path, such as .spec.replicas");
            } else if !under {
                let roots: Vec<&str> = roots.iter().map(|root| root.trim_end_matches('.')).collect();
                let either = if roots.len() > 1 { "either " } else { "" };
                errors.invalid(
                    &path,
                    given,
                    &format!("should be a json path under {either}{}", roots.join(" or ")),
                );
            }
        }
    }
    let list = |name: &str| version[name].as_array().map_or(&[][..], Vec::as_slice);
    for (at, column) in list("additionalPrinterColumns").iter().enumerate() {
        validate_column(column, &path.child("additionalPrinterColumns").index(at), errors);
    }
    let selectable = list("selectableFields");
    let selectable_path = path.child("selectableFields");
    if selectable.len() > MAX_SELECTABLE {
        errors.too_many(&selectable_path, selectable.len(), MAX_SELECTABLE);
    }
    for (at, field) in selectable.iter().enumerate() {
        let path = selectable_path.index(at).child("jsonPath");
        let given = field["jsonPath"].as_str().unwrap_or_default();
        if selectable[..at].iter().any(|other| other["jsonPath"] == given) {
            errors.duplicate(&path, given);
        }
        validate_selectable(given, schema, &path, errors);
    }
}

fn validate_column(column: &Value, path: &Path, errors: &mut FieldErrors) {
    let text = |name: &str| column[name].as_str().unwrap_or_default();
    if text("name").is_empty() {
        errors.required(&path.child("name"), "");
    }
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    match text("type") {
        "" => errors.required(&path.child("type"), "must be one of boolean,date,integer,number,string"),
        ty if TYPES.contains(&ty) => {}
        ty => errors.invalid(&path.child("type"), ty, "must be one of boolean,date,integer,number,string"),
    }
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let format = text("format");
    if !format.is_empty() && !FORMATS.contains(&format) {
        let why = format!("must be one of {}", FORMATS.join(","));
        errors.invalid(&path.child("format"), format, &why);
    }
    match text("jsonPath") {
        "" => errors.required(&path.child("jsonPath"), ""),
        given => {
            if let Err(why) = columns::JsonPath::parse(given) {
                errors.invalid(&path.child("jsonPath"), given, &why);
            }
        }
    }
}

/// Checks that a selectable field is a string, an integer or a boolean at a simple path.
fn validate_selectable(given: &str, schema: &Value, path: &Path, errors: &mut FieldErrors) {
    if given.is_empty() {
        return errors.required(path, "");
    }
    let Some(steps) = columns::simple_path(given) else {
        return errors.invalid(
            path,
            given,
            "is an invalid path: must be a simple json path, such as .spec.color",
        );
    };
    if steps.first().is_some_and(|first| first == "metadata") {
        return errors.invalid(path, given, "must not point to fields in metadata");
    }
    let found = steps.iter().try_fold(schema, |schema, step| schema["properties"].get(step));
    let Some(found) = found else {
        return errors.invalid(path, given, "is an invalid path: does not refer to a valid field");
    };
    let ty = found["type"].as_str().unwrap_or_default();
    if !matches!(ty, "string" | "boolean" | "integer") {
        let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                   formats are allowed.";
        errors.invalid(path, given, why);
    }
}

fn validate_names(object: &Object, path: &Path, errors: &mut FieldErrors) {
    let text = |name: &str| object.str_at(&["spec", "names", name]);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(name).is_empty() {
            errors.required(&path.child(name), "");
        }
    }
    for name in ["plural", "singular"] {
        if !text(name).is_empty() && !is_label_1035(text(name)) {
            errors.invalid(&path.child(name), text(name), LABEL_1035);
        }
    }
    for name in ["kind", "listKind"] {
        if !text(name).is_empty() && !is_label_1035(&text(name).to_lowercase()) {
            let why = format!("may have mixed case, but should otherwise match: {LABEL_1035}");
            errors.invalid(&path.child(name), text(name), &why);
        }
    }
    for name in ["shortNames", "categories"] {
        let list = object.at(&["spec", "names", name]).and_then(Value::as_array);
        for (at, given) in list.into_iter().flatten().filter_map(Value::as_str).enumerate() {
            if !is_label_1035(given) {
                errors.invalid(&path.child(name).index(at), given, LABEL_1035);
            }
        }
    }
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        errors.invalid(&path.child("listKind"), text("listKind"), "kind and listKind may not be the same");
    }
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

/// Checks that every stored version is still defined.
pub(crate) fn validate_stored_versions(object: &Object, errors: &mut FieldErrors) {
    let path = Path::new("status.storedVersions");
    let stored = object.at(&["status", "storedVersions"]).and_then(Value::as_array);
    let stored: Vec<&str> = stored.into_iter().flatten().filter_map(Value::as_str).collect();
    if stored.is_empty() {
        errors.invalid(&path, json!([]), "must have at least one stored version");
        return;
    }
    for (at, name) in stored.iter().enumerate() {
        if !versions(object).iter().any(|version| version["name"] == *name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            errors.invalid(&path.index(at), *name, &why);
        }
    }
    if let Some(storage) = storage_version(object)
        && !stored.contains(&storage.as_str())
    {
        let why = format!("must have the storage version {storage}");
        errors.invalid(&path, Value::from(stored), &why);
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

fn is_label_1035(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|last| last.is_ascii_lowercase() || last.is_ascii_digit())
        && bytes.iter().all(|c| inner(*c))
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
