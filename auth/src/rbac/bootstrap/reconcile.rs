//! Reconciliation of a bootstrap object with the stored object: preserves an administrator's additions and restores missing
//! permissions.
//!
//! Upstream: `reconcile_role.go` and `reconcile_rolebindings.go` in `k8s.io/component-helpers/auth/rbac/reconciliation`,
//! and `Covers` in `policy_comparator.go` in `k8s.io/component-helpers/auth/rbac/validation`. The API server runs them
//! without the removal of extra permissions and subjects.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::AUTO_UPDATE;

/// The object to write, or `None` if there is nothing to write.
///
/// * Without a stored object, the bootstrap object.
/// * If the stored object has the annotation [`AUTO_UPDATE`] with the value `"false"`, nothing.
/// * For a role, the stored object with the missing labels, annotations, rules and aggregation selectors. Each missing rule
///   has one verb, group and resource. If the bootstrap role has no aggregation rule, neither has the result.
/// * For a binding, the stored object with the missing labels, annotations and subjects.
/// * For a binding of another role, the bootstrap object, without `uid` and `resourceVersion`. A `roleRef` is immutable:
///   delete the stored object, then create the result. [`must_recreate`] reports this case.
///
/// Labels and annotations of the stored object win over those of the bootstrap object.
pub fn reconcile(stored: Option<&Value>, expected: &Value) -> Option<Value> {
    let Some(stored) = stored else {
        return Some(expected.clone());
    };
    if is_protected(stored) {
        return None;
    }
    if must_recreate(stored, expected) {
        return Some(expected.clone());
    }
    let mut result = stored.clone();
    let mut changed = merge_metadata(&mut result, expected, "annotations");
    changed |= merge_metadata(&mut result, expected, "labels");
    if expected.get("roleRef").is_some() {
        changed |= add_missing(&mut result, "subjects", missing_subjects(stored, expected));
    } else {
        changed |= add_missing(&mut result, "rules", missing_rules(stored, expected));
        changed |= reconcile_aggregation(&mut result, expected);
    }
    changed.then_some(result)
}

/// Whether a stored binding refers to another role than the bootstrap binding. A protected binding stays as it is.
pub fn must_recreate(stored: &Value, expected: &Value) -> bool {
    let reference = |binding: &Value| {
        let role = binding.get("roleRef")?;
        Some(["apiGroup", "kind", "name"].map(|field| text(role, field).to_owned()))
    };
    !is_protected(stored) && reference(stored) != reference(expected)
}

/// Whether the object opts out of reconciliation.
fn is_protected(object: &Value) -> bool {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"))
        .is_some_and(|annotations| annotations.get(AUTO_UPDATE).and_then(Value::as_str) == Some("false"))
}

/// Adds the missing labels or annotations.
fn merge_metadata(object: &mut Value, expected: &Value, field: &str) -> bool {
    let wanted = expected.get("metadata").and_then(|metadata| metadata.get(field)?.as_object());
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
        return false;
    };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return false;
    };
    let present = object_entry(metadata, field);
    let mut changed = false;
    for (key, value) in wanted {
        if !present.contains_key(key) {
            present.insert(key.clone(), value.clone());
            changed = true;
        }
    }
    changed
}

/// Appends items to a list.
fn add_missing(object: &mut Value, field: &str, missing: Vec<Value>) -> bool {
    let Some(object) = object.as_object_mut().filter(|_| !missing.is_empty()) else {
        return false;
    };
    list_entry(object, field).extend(missing);
    true
}

/// The subjects of the bootstrap binding that the stored binding lacks.
fn missing_subjects(stored: &Value, expected: &Value) -> Vec<Value> {
    let mut present: HashSet<[String; 4]> = list(stored, "subjects").iter().map(subject_key).collect();
    list(expected, "subjects")
        .iter()
        .filter(|subject| present.insert(subject_key(subject)))
        .cloned()
        .collect()
}

/// The fields that identify a subject.
fn subject_key(subject: &Value) -> [String; 4] {
    ["kind", "apiGroup", "name", "namespace"].map(|field| text(subject, field).to_owned())
}

/// Merges the selectors of the aggregation rule.
fn reconcile_aggregation(role: &mut Value, expected: &Value) -> bool {
    let Some(role) = role.as_object_mut() else {
        return false;
    };
    let Some(wanted) = expected.get("aggregationRule").filter(|rule| !rule.is_null()) else {
        return role.remove("aggregationRule").is_some_and(|rule| !rule.is_null());
    };
    let present = role.get("aggregationRule").map_or(&[][..], |rule| list(rule, SELECTORS));
    let missing: Vec<Value> = list(wanted, SELECTORS)
        .iter()
        .filter(|selector| !present.iter().any(|other| same_selector(other, selector)))
        .cloned()
        .collect();
    if missing.is_empty() {
        return false;
    }
    list_entry(object_entry(role, "aggregationRule"), SELECTORS).extend(missing);
    true
}

const SELECTORS: &str = "clusterRoleSelectors";

/// Whether two label selectors are equal. An absent part equals an empty one.
fn same_selector(one: &Value, other: &Value) -> bool {
    let labels = |selector: &Value| {
        selector.get("matchLabels").and_then(Value::as_object).cloned().unwrap_or_default()
    };
    labels(one) == labels(other) && list(one, "matchExpressions") == list(other, "matchExpressions")
}

/// A permission with at most one value in each list.
struct Permission<'a> {
    verb: &'a str,
    target: Target<'a>,
}

/// The resource or the non-resource endpoint of a permission.
enum Target<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path(&'a str),
}

/// The permissions of the bootstrap role that no single rule of the stored role covers.
fn missing_rules(stored: &Value, expected: &Value) -> Vec<Value> {
    let owned = list(stored, "rules");
    let wanted = list(expected, "rules").iter().flat_map(break_down);
    wanted
        .filter(|permission| !owned.iter().any(|rule| covers(rule, permission)))
        .map(|permission| permission.rule())
        .collect()
}

/// The permissions of a rule. Upstream: `BreakdownRule`.
fn break_down(rule: &Value) -> Vec<Permission<'_>> {
    let mut all = Vec::new();
    for group in strings(rule, "apiGroups") {
        for resource in strings(rule, "resources") {
            for verb in strings(rule, "verbs") {
                let mut add = |name| {
                    all.push(Permission { verb, target: Target::Resource { group, resource, name } });
                };
                if list(rule, "resourceNames").is_empty() {
                    add(None);
                }
                strings(rule, "resourceNames").for_each(|name| add(Some(name)));
            }
        }
    }
    for path in strings(rule, "nonResourceURLs") {
        all.extend(strings(rule, "verbs").map(|verb| Permission { verb, target: Target::Path(path) }));
    }
    all
}

/// Whether a rule grants a permission. Upstream: `ruleCovers`.
fn covers(rule: &Value, permission: &Permission<'_>) -> bool {
    let has = |field: &str, wanted: &str| strings(rule, field).any(|value| value == "*" || value == wanted);
    if !has("verbs", permission.verb) {
        return false;
    }
    let any_name = list(rule, "resourceNames").is_empty();
    match permission.target {
        Target::Resource { group, resource, name } => {
            let subresource = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
            has("apiGroups", group)
                && (has("resources", resource) || subresource.is_some_and(|any| has("resources", &any)))
                && (any_name || name.is_some_and(|name| strings(rule, "resourceNames").any(|it| it == name)))
        }
        Target::Path(path) => {
            let covers = |owned: &str| {
                owned == path || (owned.ends_with('*') && path.starts_with(owned.trim_end_matches('*')))
            };
            any_name && strings(rule, "nonResourceURLs").any(covers)
        }
    }
}

impl Permission<'_> {
    /// The rule that grants only this permission.
    fn rule(&self) -> Value {
        match self.target {
            Target::Resource { group, resource, name: None } => {
                json!({ "verbs": [self.verb], "apiGroups": [group], "resources": [resource] })
            }
            Target::Resource { group, resource, name: Some(name) } => json!({
                "verbs": [self.verb],
                "apiGroups": [group],
                "resources": [resource],
                "resourceNames": [name],
            }),
            Target::Path(path) => json!({ "verbs": [self.verb], "nonResourceURLs": [path] }),
        }
    }
}

/// A list field. An absent field is an empty list.
fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

/// The strings of a list field.
fn strings<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    list(object, field).iter().filter_map(Value::as_str)
}

/// A string field. An absent field is an empty string.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A list field to extend. Creates an absent list.
fn list_entry<'a>(object: &'a mut Map<String, Value>, field: &str) -> &'a mut Vec<Value> {
    let entry = object.entry(field).or_insert_with(|| json!([]));
    if !entry.is_array() {
        *entry = json!([]);
    }
    entry.as_array_mut().expect("the entry is a list")
}

/// An object field to extend. Creates an absent object.
fn object_entry<'a>(object: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let entry = object.entry(field).or_insert_with(|| json!({}));
    if !entry.is_object() {
        *entry = json!({});
    }
    entry.as_object_mut().expect("the entry is an object")
}
