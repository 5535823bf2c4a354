//! Validation errors of an object's fields: path, reason and message. They become the causes of a `Status`
//! with reason `Invalid` (422).

use std::fmt::{self, Display, Write};

use serde_json::Value;

/// The path of a field: `spec.containers[0].name`, `spec.capacity[storage]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// The path of a top-level field; may contain dots.
    pub fn new(root: &str) -> Self {
        Path(root.to_owned())
    }

    /// A field below this one.
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// An item of this list.
    pub fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    /// An entry of this map.
    pub fn key(&self, key: &str) -> Self {
        Path(format!("{}[{key}]", self.0))
    }
}

impl Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Upstream prints the root of an object as `<nil>`.
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// One cause of an invalid object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Upstream's cause type, such as `FieldValueRequired`.
    pub reason: &'static str,
    /// The message without the field.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

/// The largest number of errors that are reported: a response lists each of them twice, and a body of 3 MiB
/// can contain several hundred thousand.
const MOST: usize = 1000;

/// Validation errors in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub struct FieldErrors(Vec<Cause>);

impl FieldErrors {
    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the collection is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of errors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The causes.
    pub fn causes(&self) -> &[Cause] {
        &self.0
    }

    /// Appends the errors of another collection.
    pub fn extend(&mut self, other: FieldErrors) {
        other.0.into_iter().for_each(|cause| self.add(cause));
    }

    /// Appends the errors of a part that was validated separately; their fields are relative to `path`.
    pub fn extend_below(&mut self, path: &Path, other: FieldErrors) {
        for mut cause in other.0 {
            cause.field = path.child(&cause.field).to_string();
            self.add(cause);
        }
    }

    fn push(&mut self, reason: &'static str, path: &Path, message: String) {
        self.add(Cause { reason, message, field: path.to_string() });
    }

    fn add(&mut self, cause: Cause) {
        if self.0.len() < MOST {
            self.0.push(cause);
        }
    }

    /// A required value is missing. `detail` may be empty.
    pub fn required(&mut self, path: &Path, detail: &str) {
        self.push("FieldValueRequired", path, with_detail("Required value".into(), detail));
    }

    /// A value is invalid.
    pub fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: &str) {
        self.push(
            "FieldValueInvalid",
            path,
            with_detail(format!("Invalid value: {}", show(&value.into())), detail),
        );
    }

    /// A value is invalid, and too long to be printed.
    pub fn invalid_unshown(&mut self, path: &Path, detail: &str) {
        self.push("FieldValueInvalid", path, with_detail("Invalid value".into(), detail));
    }

    /// A value has the wrong type.
    pub fn type_invalid(&mut self, path: &Path, value: impl Into<Value>, detail: &str) {
        let text = format!("Invalid value: {}", show(&value.into()));
        self.push("FieldValueTypeInvalid", path, with_detail(text, detail));
    }

    /// A value is invalid, and upstream prints it in a special format: a Go struct with its fields in order.
    /// `shown` is copied to the message unchanged.
    pub fn invalid_shown(&mut self, path: &Path, shown: &str, detail: &str) {
        self.push("FieldValueInvalid", path, with_detail(format!("Invalid value: {shown}"), detail));
    }

    /// A value is not in the list of supported values. The message lists them in the given order.
    pub fn not_supported(&mut self, path: &Path, value: impl Into<Value>, supported: &[&str]) {
        self.not_supported_shown(path, &show(&value.into()), supported);
    }

    /// Like [`FieldErrors::not_supported`], for a value that upstream prints in a special format.
    pub fn not_supported_shown(&mut self, path: &Path, shown: &str, supported: &[&str]) {
        let mut list = String::new();
        for (i, one) in supported.iter().enumerate() {
            let _ = write!(list, "{}{one:?}", if i == 0 { "" } else { ", " });
        }
        let text = format!("Unsupported value: {shown}: supported values: {list}");
        self.push("FieldValueNotSupported", path, text);
    }

    /// A value may not be set or may not be changed.
    pub fn forbidden(&mut self, path: &Path, detail: &str) {
        self.push("FieldValueForbidden", path, with_detail("Forbidden".into(), detail));
    }

    /// A value occurs twice.
    pub fn duplicate(&mut self, path: &Path, value: impl Into<Value>) {
        self.push("FieldValueDuplicate", path, format!("Duplicate value: {}", show(&value.into())));
    }

    /// Like [`FieldErrors::duplicate`], for a value that upstream prints in a special format. See
    /// [`FieldErrors::invalid_shown`].
    pub fn duplicate_shown(&mut self, path: &Path, shown: &str) {
        self.push("FieldValueDuplicate", path, format!("Duplicate value: {shown}"));
    }

    /// A value refers to something that the same object does not contain.
    pub fn not_found(&mut self, path: &Path, value: impl Into<Value>) {
        self.push("FieldValueNotFound", path, format!("Not found: {}", show(&value.into())));
    }

    /// A value is longer than `max` bytes.
    pub fn too_long(&mut self, path: &Path, max: usize) {
        self.push("FieldValueTooLong", path, format!("Too long: may not be more than {max} bytes"));
    }

    /// A list has more than `max` items.
    pub fn too_many(&mut self, path: &Path, actual: usize, max: usize) {
        self.push("FieldValueTooMany", path, format!("Too many: {actual}: must have at most {max} items"));
    }
}

fn with_detail(text: String, detail: &str) -> String {
    if detail.is_empty() { text } else { format!("{text}: {detail}") }
}

/// A value as upstream prints it: strings in quotes, everything else as JSON.
fn show(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_errors_are_limited() {
        let mut errors = FieldErrors::new();
        for number in 0..2 * MOST {
            errors.invalid(&Path::new("a").index(number), "x", "why");
        }
        assert_eq!(errors.len(), MOST);
        let mut more = FieldErrors::new();
        more.required(&Path::new("b"), "");
        errors.extend(more.clone());
        errors.extend_below(&Path::new("c"), more.clone());
        assert_eq!(errors.len(), MOST);
        more.extend(errors);
        assert_eq!((more.len(), more.causes()[0].field.as_str()), (MOST, "b"));
    }
}
