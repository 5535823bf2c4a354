//! Shared validation of roles and bindings: rules, subjects, and the role that a binding refers to.
//!
//! Upstream: pkg/apis/rbac/validation. Each function validates one part at its path.

use orlop_apimachinery::labels::Selector;
use orlop_apimachinery::names;
use serde_json::Value;

use super::checks;
use super::go_format::Shape;
use super::volume_rules::{items, text};
use crate::object::Object;
use crate::validate::label_selector::validate_label_selector;
use crate::validate::{FieldErrors, Path};

/// The API group of roles, bindings, users and groups.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

const ROLE_REF: Shape = Shape::Struct(&[
    ("APIGroup", "apiGroup", Shape::Text),
    ("Kind", "kind", Shape::Text),
    ("Name", "name", Shape::Text),
]);

/// The rules of a role; those of a namespaced role cannot contain non-resource URLs.
pub(super) fn rules(role: &Object, namespaced: bool, errors: &mut FieldErrors) {
    let rules = role.at(&["rules"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (i, one) in rules.iter().enumerate() {
        rule(one, namespaced, &Path::new("rules").index(i), errors);
    }
}

fn rule(rule: &Value, namespaced: bool, path: &Path, errors: &mut FieldErrors) {
    let is_empty = |key: &str| items(rule, key).is_empty();
    if is_empty("verbs") {
        errors.required(&path.child("verbs"), "verbs must contain at least one value");
    }
    let urls = items(rule, "nonResourceURLs");
    if !urls.is_empty() {
        let path = path.child("nonResourceURLs");
        if namespaced {
            errors.invalid(&path, urls, "namespaced rules cannot apply to non-resource URLs");
        }
        if !(is_empty("apiGroups") && is_empty("resources") && is_empty("resourceNames")) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&path, urls, why);
        }
        return;
    }
    if is_empty("apiGroups") {
        errors.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if is_empty("resources") {
        errors.required(&path.child("resources"), "resource rules must supply at least one resource");
    }
    if !is_empty("resourceNames") && items(rule, "resources").len() > 1 {
        errors.required(&path.child("resourceNames"), "resource names cannot apply to multiple resources");
    }
}

/// The cluster roles whose rules are aggregated into this one.
pub(super) fn aggregation(role: &Object, errors: &mut FieldErrors) {
    let Some(rule) = role.at(&["aggregationRule"]).filter(|rule| !rule.is_null()) else { return };
    let path = Path::new("aggregationRule.clusterRoleSelectors");
    let selectors = items(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        errors.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (i, selector) in selectors.iter().enumerate() {
        if let Some(selector) = super::volume_rules::typed(selector) {
            let path = path.index(i);
            validate_label_selector(&selector, &path, errors);
            // Upstream shows the result of the failed conversion.
            if Selector::from_label_selector(&selector).is_err() {
                errors.invalid(&path, Value::Null, "invalid label selector.");
            }
        }
    }
}

/// Defaults the API groups of a binding's role and subjects.
pub(super) fn default_binding(binding: &mut Object) {
    let unset = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().is_empty();
    if unset(binding.at(&["roleRef", "apiGroup"])) {
        binding.set(&["roleRef", "apiGroup"], GROUP);
    }
    let subjects = binding.0.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        if matches!(text(subject, "kind"), "User" | "Group")
            && unset(subject.get("apiGroup"))
            && let Some(subject) = subject.as_object_mut()
        {
            subject.insert("apiGroup".to_owned(), GROUP.into());
        }
    }
}

/// The role that a binding refers to, and its subjects.
pub(super) fn binding(binding: &Object, namespaced: bool, errors: &mut FieldErrors) {
    let path = Path::new("roleRef");
    let group = binding.str_at(&["roleRef", "apiGroup"]);
    checks::one_of(errors, &path.child("apiGroup"), Some(group), &[GROUP]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    checks::one_of(errors, &path.child("kind"), Some(binding.str_at(&["roleRef", "kind"])), kinds);
    let name = binding.str_at(&["roleRef", "name"]);
    if checks::required(errors, &path.child("name"), name) {
        checks::each(errors, &path.child("name"), name, names::path_segment(name));
    }
    let subjects = binding.at(&["subjects"]).and_then(Value::as_array);
    for (i, one) in subjects.into_iter().flatten().enumerate() {
        subject(one, namespaced, &Path::new("subjects").index(i), errors);
    }
}

fn subject(subject: &Value, namespaced: bool, path: &Path, errors: &mut FieldErrors) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    checks::required(errors, &path.child("name"), name);
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                checks::subdomain(errors, &path.child("name"), name);
            }
            if !group.is_empty() {
                errors.not_supported(&path.child("apiGroup"), group, &[""]);
            }
            if !namespaced {
                checks::required(errors, &path.child("namespace"), text(subject, "namespace"));
            }
        }
        kind @ ("User" | "Group") => {
            if name.is_empty() {
                let why = format!("{} name cannot be empty", kind.to_lowercase());
                errors.invalid(&path.child("name"), name, &why);
            }
            checks::one_of(errors, &path.child("apiGroup"), Some(group), &[GROUP]);
        }
        other => {
            errors.not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]);
        }
    }
}

/// The role of a binding is immutable.
pub(super) fn same_role(new: &Object, old: &Object, errors: &mut FieldErrors) {
    let differs = |name: &&str| new.str_at(&["roleRef", name]) != old.str_at(&["roleRef", name]);
    if ["apiGroup", "kind", "name"].iter().any(differs) {
        let shown = ROLE_REF.show(new.at(&["roleRef"]));
        errors.invalid_shown(&Path::new("roleRef"), &shown, "cannot change roleRef");
    }
}

/// The cells of a binding besides its name: the role, the age, and the subjects.
pub(super) fn binding_cells(binding: &Object, now: jiff::Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", binding.str_at(&["roleRef", "kind"]), binding.str_at(&["roleRef", "name"]));
    let subjects = binding.at(&["subjects"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of = |kind: &str| -> Value {
        let shown = |subject: &Value| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
            _ => text(subject, "name").to_owned(),
        };
        let names: Vec<String> = subjects.iter().filter(|one| text(one, "kind") == kind).map(shown).collect();
        names.join(", ").into()
    };
    vec![
        super::cells::name(binding),
        role.into(),
        super::cells::age(binding, now),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}

/// The columns of bindings.
pub(super) const BINDING_COLUMNS: &[crate::kind::Column] = &[
    super::cells::NAME,
    super::cells::text("Role", "The role that is given."),
    super::cells::AGE,
    super::cells::wide("Users", "Users that have the role."),
    super::cells::wide("Groups", "Groups whose members have the role."),
    super::cells::wide("ServiceAccounts", "Service accounts that have the role."),
];

#[cfg(test)]
mod tests;
