//! The rules of a FlowSchema: subjects, and the requests that they make.

use orlop_apimachinery::names;
use serde_json::Value;

use super::items;
use crate::registry::checks;
use crate::registry::workload::{given, text};
use crate::validate::{FieldErrors, Path};

/// Matches everything.
const ALL: &str = "*";
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// The kinds of subjects with the fields that describe them, in the order in which upstream reports fields of other kinds.
const SUBJECTS: [(&str, &str); 3] =
    [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

/// Validates one rule.
pub(super) fn validate(rule: &Value, path: &Path, errors: &mut FieldErrors) {
    let (subjects, at) = (items(rule, "subjects"), path.child("subjects"));
    if subjects.is_empty() {
        errors.required(&at, "subjects must contain at least one value");
    }
    for (index, subject) in subjects.iter().enumerate() {
        validate_subject(subject, &at.index(index), errors);
    }
    let (resources, urls) = (items(rule, "resourceRules"), items(rule, "nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for (at, rule) in resources.iter().enumerate() {
        validate_resources(rule, &path.child("resourceRules").index(at), errors);
    }
    for (at, rule) in urls.iter().enumerate() {
        validate_urls(rule, &path.child("nonResourceRules").index(at), errors);
    }
}

fn validate_subject(subject: &Value, path: &Path, errors: &mut FieldErrors) {
    let kind = text(subject, "kind");
    let Some((_, field)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        return errors.not_supported(&path.child("kind"), kind, &["Group", "ServiceAccount", "User"]);
    };
    let at = path.child(field);
    match given(subject, field) {
        None => errors.required(&at, &format!("{field} is required when subject kind is '{kind}'")),
        Some(subject) => {
            let name = text(subject, "name");
            let is_present = checks::required(errors, &at.child("name"), name);
            if *field == "serviceAccount" {
                if is_present && name != ALL {
                    checks::subdomain(errors, &at.child("name"), name);
                }
                let (namespace, at) = (text(subject, "namespace"), at.child("namespace"));
                if namespace.is_empty() {
                    errors.required(&at, "must specify namespace for service account");
                } else {
                    checks::label(errors, &at, namespace);
                }
            }
        }
    }
    for (other, field) in SUBJECTS.iter().filter(|(other, _)| *other != kind) {
        if given(subject, field).is_some() {
            let why = format!("{field} is forbidden when subject kind is not '{other}'");
            errors.forbidden(&path.child(field), &why);
        }
    }
}

/// Whether a list contains the value that matches everything.
fn has_all(list: &[Value]) -> bool {
    list.iter().any(|one| one == ALL)
}

/// Validates that a list is not empty, and that a wildcard is its only item. Returns whether other items remain to be validated.
fn is_specific(list: &[Value], others: &str, missing: &str, path: &Path, errors: &mut FieldErrors) -> bool {
    if list.is_empty() {
        errors.required(path, missing);
        return false;
    }
    if !has_all(list) {
        return true;
    }
    if list.len() > 1 {
        let why = format!("if '*' is present, must not specify other {others}");
        errors.invalid(path, list.to_vec(), &why);
    }
    false
}

fn validate_verbs(rule: &Value, path: &Path, errors: &mut FieldErrors) {
    let (verbs, at) = (items(rule, "verbs"), path.child("verbs"));
    let is_known = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    if is_specific(verbs, "verbs", "verbs must contain at least one value", &at, errors)
        && !verbs.iter().all(is_known)
    {
        errors.not_supported(&at, verbs.to_vec(), &VERBS);
    }
}

fn validate_resources(rule: &Value, path: &Path, errors: &mut FieldErrors) {
    validate_verbs(rule, path, errors);
    for (field, others, missing) in [
        ("apiGroups", "api groups", "resource rules must supply at least one api group"),
        ("resources", "resources", "resource rules must supply at least one resource"),
    ] {
        is_specific(items(rule, field), others, missing, &path.child(field), errors);
    }
    let (namespaces, at) = (items(rule, "namespaces"), path.child("namespaces"));
    if namespaces.is_empty() && rule.get("clusterScope") == Some(&Value::Bool(true)) {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if is_specific(namespaces, "namespaces", missing, &at, errors) {
        for (index, namespace) in namespaces.iter().enumerate() {
            let namespace = namespace.as_str().unwrap_or_default();
            for problem in names::dns_label(namespace) {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                errors.invalid(&at.index(index), namespace, &why);
            }
        }
    }
}

fn validate_urls(rule: &Value, path: &Path, errors: &mut FieldErrors) {
    validate_verbs(rule, path, errors);
    let (urls, at) = (items(rule, "nonResourceURLs"), path.child("nonResourceURLs"));
    let missing = "nonResourceURLs must contain at least one value";
    if is_specific(urls, "non-resource URLs", missing, &at, errors) {
        for (index, url) in urls.iter().enumerate() {
            let url = url.as_str().unwrap_or_default();
            if let Some(why) = url_problem(url) {
                errors.invalid(&at.index(index), url, why);
            }
        }
    }
}

fn url_problem(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    if url.is_empty() {
        Some("must not be empty")
    } else if !url.starts_with('/') {
        Some("must start with slash")
    } else if url.contains(' ') {
        Some("must not contain white-space")
    } else if url.contains("//") {
        Some("must not contain double slash")
    } else if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}
