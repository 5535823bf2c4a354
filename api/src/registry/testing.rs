//! Helpers for the tests of kinds.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::Object;
use crate::validate::FieldErrors;

/// An object from JSON.
pub(super) fn object(value: Value) -> Object {
    Object::from_value(value)
}

/// The current time in tests: one minute into 2026.
pub(super) fn kind_now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().expect("a time")
}

/// A cause that can be compared with a row of reason, path and message.
#[derive(Debug)]
pub(super) struct ReportedCause(String, String, String);

impl PartialEq<(&str, &str, &str)> for ReportedCause {
    fn eq(&self, other: &(&str, &str, &str)) -> bool {
        (self.0.as_str(), self.1.as_str(), self.2.as_str()) == *other
    }
}

/// The errors of a rule: reason, path and message of each cause.
pub(super) fn causes(rule: impl FnOnce(&mut FieldErrors)) -> Vec<ReportedCause> {
    let mut errors = FieldErrors::new();
    rule(&mut errors);
    errors
        .causes()
        .iter()
        .map(|cause| ReportedCause(cause.reason.to_owned(), cause.field.clone(), cause.message.clone()))
        .collect()
}
