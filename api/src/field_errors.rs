//! Validation errors of an object's fields: path, reason and message. They become the causes of a `Status`
//! with reason `Invalid` (422).

use std::fmt::{self, Display, Write};
use std::sync::Arc;

use serde_json::Value;

use crate::go_json;

/// The path of a field: `spec.containers[0].name`, `spec.capacity[storage]`. A step points to the path above it, so the
/// items of a list below a long key do not copy that key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Option<Arc<Step>>);

#[derive(Debug, PartialEq, Eq)]
struct Step {
    above: Path,
    name: StepName,
}

#[derive(Debug, PartialEq, Eq)]
enum StepName {
    Field(Box<str>),
    Index(usize),
    Key(Box<str>),
}

impl Path {
    /// The path of a top-level field; may contain dots.
    pub fn new(root: &str) -> Self {
        if root.is_empty() { Path(None) } else { Path(None).child(root) }
    }

    /// A field below this one.
    pub fn child(&self, name: &str) -> Self {
        self.step(StepName::Field(name.into()))
    }

    /// An item of this list.
    pub fn index(&self, index: usize) -> Self {
        self.step(StepName::Index(index))
    }

    /// An entry of this map.
    pub fn key(&self, key: &str) -> Self {
        self.step(StepName::Key(key.into()))
    }

    fn step(&self, name: StepName) -> Self {
        Path(Some(Arc::new(Step { above: self.clone(), name })))
    }
}

impl Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = Vec::new();
        let mut at = self;
        while let Some(step) = &at.0 {
            steps.push(&step.name);
            at = &step.above;
        }
        if steps.is_empty() {
            // Upstream prints the root of an object as `<nil>`.
            return f.write_str("<nil>");
        }
        for (at, name) in steps.into_iter().rev().enumerate() {
            match name {
                StepName::Field(name) if at == 0 => f.write_str(name)?,
                StepName::Field(name) => write!(f, ".{name}")?,
                StepName::Index(index) => write!(f, "[{index}]")?,
                StepName::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
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
/// The total length of the errors, bytes, after which none is added. Each contains a path and mostly a value, and
/// either can be as long as a body.
const MOST_TEXT: usize = 1 << 20;

/// Validation errors in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub struct FieldErrors {
    causes: Vec<Cause>,
    warnings: Vec<String>,
    /// The total length of the causes and the warnings, bytes.
    text: usize,
}

impl FieldErrors {
    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the collection is empty.
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    /// The number of errors.
    pub fn len(&self) -> usize {
        self.causes.len()
    }

    /// The causes.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// The errors that do not make the object invalid; the response contains them as warnings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Appends the errors of another collection.
    pub fn extend(&mut self, other: FieldErrors) {
        other.causes.into_iter().for_each(|cause| self.add(cause));
    }

    /// Appends the errors of another collection as warnings.
    pub fn extend_warnings(&mut self, other: FieldErrors) {
        for cause in other.causes {
            if self.is_full() {
                return;
            }
            let warning = format!("{}: {}", cause.field, cause.message);
            self.text += warning.len();
            self.warnings.push(warning);
        }
    }

    /// Appends the errors of a part that was validated separately; their fields are relative to `path`.
    pub fn extend_below(&mut self, path: &Path, other: FieldErrors) {
        for mut cause in other.causes {
            if self.is_full() {
                return;
            }
            cause.field = match cause.field.as_str() {
                // The part itself.
                "<nil>" => path.to_string(),
                field if field.starts_with('[') => format!("{path}{field}"),
                field => path.child(field).to_string(),
            };
            self.add(cause);
        }
    }

    /// Sorts the errors by field and message.
    pub fn sort(&mut self) {
        self.causes.sort_by_cached_key(|cause| format!("{}: {}", cause.field, cause.message));
    }

    /// Whether no more errors are added. Validation of a long list may stop here.
    pub fn is_full(&self) -> bool {
        self.causes.len() + self.warnings.len() >= MOST || self.text > MOST_TEXT
    }

    /// The message is made only if the error is added.
    fn push(&mut self, reason: &'static str, path: &Path, message: impl FnOnce() -> String) {
        if !self.is_full() {
            self.add(Cause { reason, message: message(), field: path.to_string() });
        }
    }

    fn add(&mut self, cause: Cause) {
        if !self.is_full() {
            self.text += cause.field.len() + cause.message.len();
            self.causes.push(cause);
        }
    }

    /// A required value is missing. `detail` may be empty.
    pub fn required(&mut self, path: &Path, detail: &str) {
        self.push("FieldValueRequired", path, || with_detail("Required value".into(), detail));
    }

    /// A value is invalid.
    pub fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: &str) {
        self.push("FieldValueInvalid", path, || {
            with_detail(format!("Invalid value: {}", go_json::display(&value.into())), detail)
        });
    }

    /// A value is invalid, and too long to be printed.
    pub fn invalid_unshown(&mut self, path: &Path, detail: &str) {
        self.push("FieldValueInvalid", path, || with_detail("Invalid value".into(), detail));
    }

    /// A value has the wrong type.
    pub fn type_invalid(&mut self, path: &Path, value: impl Into<Value>, detail: &str) {
        self.push("FieldValueTypeInvalid", path, || {
            with_detail(format!("Invalid value: {}", go_json::display(&value.into())), detail)
        });
    }

    /// A value is invalid, and upstream prints it in a special format: a Go struct with its fields in order.
    /// `shown` is copied to the message unchanged.
    pub fn invalid_shown(&mut self, path: &Path, shown: &str, detail: &str) {
        self.push("FieldValueInvalid", path, || with_detail(format!("Invalid value: {shown}"), detail));
    }

    /// A value is not in the list of supported values. The message lists them in the given order.
    pub fn not_supported(&mut self, path: &Path, value: impl Into<Value>, supported: &[&str]) {
        if !self.is_full() {
            self.not_supported_shown(path, &go_json::display(&value.into()), supported);
        }
    }

    /// Like [`FieldErrors::not_supported`], for a value that upstream prints in a special format.
    pub fn not_supported_shown(&mut self, path: &Path, shown: &str, supported: &[&str]) {
        self.push("FieldValueNotSupported", path, || {
            let mut list = String::new();
            for (i, one) in supported.iter().enumerate() {
                let _ = write!(list, "{}{one:?}", if i == 0 { "" } else { ", " });
            }
            format!("Unsupported value: {shown}: supported values: {list}")
        });
    }

    /// A value may not be set or may not be changed.
    pub fn forbidden(&mut self, path: &Path, detail: &str) {
        self.push("FieldValueForbidden", path, || with_detail("Forbidden".into(), detail));
    }

    /// A value occurs twice.
    pub fn duplicate(&mut self, path: &Path, value: impl Into<Value>) {
        self.push("FieldValueDuplicate", path, || {
            format!("Duplicate value: {}", go_json::display(&value.into()))
        });
    }

    /// A value occurs twice, and is too long to be printed.
    pub fn duplicate_unshown(&mut self, path: &Path) {
        self.push("FieldValueDuplicate", path, || "Duplicate value".into());
    }

    /// Like [`FieldErrors::duplicate`], for a value that upstream prints in a special format. See
    /// [`FieldErrors::invalid_shown`].
    pub fn duplicate_shown(&mut self, path: &Path, shown: &str) {
        self.push("FieldValueDuplicate", path, || format!("Duplicate value: {shown}"));
    }

    /// A value refers to something that the same object does not contain.
    pub fn not_found(&mut self, path: &Path, value: impl Into<Value>) {
        self.push("FieldValueNotFound", path, || format!("Not found: {}", go_json::display(&value.into())));
    }

    /// A value is longer than `max` bytes.
    pub fn too_long(&mut self, path: &Path, max: usize) {
        self.push("FieldValueTooLong", path, || format!("Too long: may not be more than {max} bytes"));
    }

    /// A list has more than `max` items.
    pub fn too_many(&mut self, path: &Path, actual: usize, max: usize) {
        self.push("FieldValueTooMany", path, || format!("Too many: {actual}: must have at most {max} items"));
    }
}

fn with_detail(text: String, detail: &str) -> String {
    if detail.is_empty() { text } else { format!("{text}: {detail}") }
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

    #[test]
    fn errors_of_a_part_are_below_its_path() {
        let mut part = FieldErrors::new();
        part.required(&Path::new("b").child("c"), "");
        part.required(&Path::default(), "");
        part.required(&Path::default().index(1), "");
        part.sort();
        let mut errors = FieldErrors::new();
        errors.extend_below(&Path::new("a"), part);
        let fields: Vec<&str> = errors.causes().iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["a", "a[1]", "a.b.c"]);
    }

    #[test]
    fn warnings_are_no_causes() {
        let mut part = FieldErrors::new();
        part.duplicate_unshown(&Path::new("a"));
        let mut errors = FieldErrors::new();
        errors.extend_warnings(part);
        assert!(errors.is_empty());
        assert_eq!(errors.warnings(), ["a: Duplicate value"]);
    }

    #[test]
    fn total_length_of_errors_is_limited() {
        let mut errors = FieldErrors::new();
        let long = "x".repeat(MOST_TEXT / 2);
        for _ in 0..10 {
            errors.invalid(&Path::new("a"), long.as_str(), "why");
        }
        assert_eq!(errors.len(), 2, "errors are added until the text is long enough");
    }

    #[test]
    fn paths_are_printed_like_upstream() {
        let path = Path::new("spec.items").index(1).key("a/b").child("c");
        assert_eq!(path.to_string(), "spec.items[1][a/b].c");
        assert_eq!(Path::new("").to_string(), "<nil>");
        assert_eq!(Path::new("").child("a").child("").to_string(), "a.");
        assert_eq!(Path::new("").index(0).to_string(), "[0]");
    }
}
