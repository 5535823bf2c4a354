//! Test helpers for the storage kinds: apply the steps of the verbs to objects from JSON.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Object;
use crate::validate::FieldErrors;

/// The current time in every test.
pub(super) fn now() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().expect("a time")
}

/// A copy with a merge patch applied.
pub(super) fn with(base: &Value, patch: &Value) -> Value {
    let mut merged = base.clone();
    json_patch::merge(&mut merged, patch);
    merged
}

/// An object after defaulting.
pub(super) fn defaulted(kind: &dyn Kind, value: &Value) -> Object {
    let mut object = Object::from_value(value.clone());
    kind.defaults(&mut object);
    object
}

/// The stored form of a created object.
pub(super) fn created(kind: &dyn Kind, value: &Value) -> Object {
    let mut object = defaulted(kind, value);
    kind.prepare_create(&mut object, now());
    object
}

fn texts(errors: &FieldErrors) -> Vec<String> {
    errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

/// The errors of a create.
pub(super) fn create_errors(kind: &dyn Kind, value: &Value) -> Vec<String> {
    let mut errors = FieldErrors::new();
    kind.validate(&created(kind, value), &mut errors);
    texts(&errors)
}

/// The errors of an update from one stored object to another, without those of a create.
/// The status of the new object is the stored one.
pub(super) fn update_errors(kind: &dyn Kind, old: &Value, new: &Value) -> Vec<String> {
    let old = defaulted(kind, old);
    let mut new = defaulted(kind, new);
    if old.at(&["status"]).is_some() {
        new.copy_member(&old, "status");
    }
    kind.prepare_update(&mut new, &old, now());
    let mut errors = FieldErrors::new();
    kind.validate_update(&new, &old, &mut errors);
    texts(&errors)
}

/// The errors of a status update.
pub(super) fn status_errors(kind: &dyn Kind, old: &Value, status: &Value) -> Vec<String> {
    let old = defaulted(kind, old);
    let mut new = old.clone();
    new.0.insert("status".to_owned(), status.clone());
    let mut errors = FieldErrors::new();
    kind.validate_status(&new, &old, &mut errors);
    texts(&errors)
}

/// The table row of an object that is ten seconds old.
pub(super) fn row(kind: &dyn Kind, value: &Value) -> Value {
    let created = json!({"metadata": {"creationTimestamp": "2026-01-02T03:03:55Z"}});
    let cells = kind.cells(&Object::from_value(with(value, &created)), now());
    assert_eq!(cells.len(), kind.columns().len(), "one cell per column");
    cells.into()
}

/// The warnings of a create.
pub(super) fn warnings(kind: &dyn Kind, value: &Value) -> Vec<String> {
    kind.warnings(&created(kind, value), None)
}

/// The values of all selectable fields, by name.
pub(super) fn fields(kind: &dyn Kind, value: &Value) -> Vec<(&'static str, String)> {
    let object = Object::from_value(value.clone());
    kind.selectable()
        .iter()
        .chain(kind.extra_selectable())
        .map(|name| (*name, kind.field(&object, name)))
        .collect()
}

/// The message about an invalid RFC 1123 subdomain.
pub(super) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The message about an invalid name part of a qualified name.
pub(super) const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Compares the results of one case.
pub(super) fn check<T: AsRef<str>>(case: &str, got: &[String], want: &[T]) {
    let want: Vec<&str> = want.iter().map(AsRef::as_ref).collect();
    assert_eq!(got, want, "{case}");
}
