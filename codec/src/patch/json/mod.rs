//! Applies JSON patches (RFC 6902) with the semantics of upstream's library (evanphx/json-patch v4). Clients rely
//! on its deviations from the RFC: `replace` of a missing member adds it, an absent `value` is null, a missing
//! member passes a `test` for null, and negative indexes count from the end. The operations are therefore
//! implemented here instead of with a crate.

#[cfg(test)]
mod tests;

use orlop_api::status::ApiError;
use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::{Map, Value};

use super::{Patched, body};
use crate::decode::weigh;

const OPERATIONS_MAX: usize = 10_000;
/// Maximum total size of copied values in one patch, bytes of JSON (upstream: JSONPatchMaxCopyBytes). Each copy
/// can double the document.
const COPIED_MAX: usize = 3 << 20;
/// Maximum total weight of copied values in one patch ([`estimate_weight`](crate::decode::estimate_weight)). In memory, a
/// value may be a hundred times as large as its text. Clients copy a few labels or containers.
pub(super) const COPIED_WEIGHT_MAX: u64 = 50_000;
/// Maximum nesting depth of the document during a patch. Each operation can add as many levels as the longest
/// path.
const DEPTH_MAX: usize = 256;
/// Maximum number of steps of one patch: list items that insertions and removals move, and values that are visited
/// to measure the depth. A list of 1,500,000 items fits in a body, and 10,000 insertions at its front would
/// otherwise take minutes.
const STEPS_MAX: u64 = 50_000_000;

/// Why an operation cannot be applied.
enum Impossible {
    /// Like upstream, the response does not identify the operation or the reason.
    Unprocessable,
    /// A `test` operation fails.
    TestFailed,
    /// The patch needs more than [`STEPS_MAX`] steps.
    OutOfSteps,
    /// The copied values weigh more than [`COPIED_WEIGHT_MAX`].
    CopiesTooMuch,
}

impl From<OutOfSteps> for Impossible {
    fn from(OutOfSteps: OutOfSteps) -> Self {
        Impossible::OutOfSteps
    }
}

impl Impossible {
    fn answer(self) -> ApiError {
        match self {
            Impossible::Unprocessable | Impossible::TestFailed => ApiError::unprocessable(),
            Impossible::OutOfSteps => ApiError::too_large(format!(
                "Request entity too large: the JSON patch needs more than {STEPS_MAX} steps; insert and remove fewer \
                 items of long lists"
            )),
            Impossible::CopiesTooMuch => ApiError::too_large(format!(
                "Request entity too large: the JSON patch copies too many values: an object counts as 8, any other value as 1, \
                 the limit is {COPIED_WEIGHT_MAX}; add the values instead"
            )),
        }
    }
}

/// Applies a JSON patch. The warnings list unknown members of operations.
pub(super) fn apply(document: Value, patch: &[u8]) -> Result<Patched, ApiError> {
    let undecodable = |why: &str| ApiError::bad_request(format!("error decoding patch: {why}"));
    let patch = body::read(patch).map_err(|error| undecodable(&error))?;
    let operations = match patch {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            let kind = body::kind(&other);
            return Err(undecodable(&format!(
                "json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp"
            )));
        }
    };
    if operations.len() > OPERATIONS_MAX {
        return Err(ApiError::too_large(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is \
             {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut warnings = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        check(i, operation, &mut warnings).map_err(|error| undecodable(&error))?;
    }
    match run_all(document, operations) {
        Ok(document) => Ok(Patched { document, warnings }),
        Err(impossible) => Err(impossible.answer()),
    }
}

/// Whether one of the operations copies or moves a value.
pub(super) fn copies(patch: &[u8]) -> bool {
    let operations = body::read(patch).unwrap_or_default();
    let mut operations = operations.as_array().into_iter().flatten();
    operations.any(|operation| matches!(operation["op"].as_str(), Some("copy" | "move")))
}

/// Applies the operations of an admission policy or webhook, within the limits of a client's patch. `None` if a `test` operation
/// fails.
///
/// # Errors
/// Why the operations cannot be applied.
pub fn apply_operations(document: Value, operations: Vec<Value>) -> Result<Option<Value>, String> {
    if operations.len() > OPERATIONS_MAX {
        return Err(format!("JSON Patch: more than {OPERATIONS_MAX} operations"));
    }
    for (i, operation) in operations.iter().enumerate() {
        check(i, operation, &mut Vec::new()).map_err(|error| format!("JSON Patch: {error}"))?;
    }
    match run_all(document, operations) {
        Ok(document) => Ok(Some(document)),
        Err(Impossible::TestFailed) => Ok(None),
        Err(
            impossible @ (Impossible::Unprocessable | Impossible::OutOfSteps | Impossible::CopiesTooMuch),
        ) => Err(format!("JSON Patch: {}", impossible.answer().message)),
    }
}

fn run_all(document: Value, operations: Vec<Value>) -> Result<Value, Impossible> {
    let mut work = Work {
        deepest: depth(&document),
        document,
        copied: 0,
        copied_weight: Steps::new(COPIED_WEIGHT_MAX),
        steps: Steps::new(STEPS_MAX),
    };
    for operation in operations {
        work.run(operation)?;
    }
    Ok(work.document)
}

/// The state of a document during a patch.
struct Work {
    document: Value,
    /// Total size of copied values, bytes of JSON.
    copied: usize,
    /// The weight that further copied values may have.
    copied_weight: Steps,
    /// Upper bound on the depth of the document.
    deepest: usize,
    steps: Steps,
}

impl Work {
    fn run(&mut self, mut operation: Value) -> Result<(), Impossible> {
        let (document, steps_left) = (&mut self.document, &self.steps);
        let value = operation.get_mut("value").map(Value::take).unwrap_or_default();
        let text =
            |member: &str| operation.get(member).and_then(Value::as_str).ok_or(Impossible::Unprocessable);
        match text("op")? {
            "add" => {
                let depth = depth(&value);
                Location::find(document, text("path")?)?.add(value, steps_left)?;
                self.grown(text("path")?, depth)
            }
            "remove" => Location::find(document, text("path")?)?.remove(steps_left).map(drop),
            "replace" => {
                let depth = depth(&value);
                Location::find(document, text("path")?)?.replace(value)?;
                self.grown(text("path")?, depth)
            }
            "move" => {
                let value = Location::find(document, text("from")?)?.remove(steps_left)?;
                Location::find(document, text("path")?)?.add(value, steps_left)?;
                self.grown(text("path")?, self.deepest.saturating_sub(steps(text("from")?)))
            }
            "copy" => {
                let value = Location::find(document, text("from")?)?.get()?.unwrap_or(&Value::Null);
                self.copied = measured(value, self.copied)?;
                weigh(value, &self.copied_weight).map_err(|OutOfSteps| Impossible::CopiesTooMuch)?;
                let value = value.clone();
                Location::find(document, text("path")?)?.add(value, steps_left)?;
                self.grown(text("path")?, self.deepest.saturating_sub(steps(text("from")?)))
            }
            "test" => {
                let found = match text("path")? {
                    "" => Some(&*document),
                    path => Location::find(document, path)?.get()?,
                };
                // A missing value equals null.
                if found.unwrap_or(&Value::Null) == &value { Ok(()) } else { Err(Impossible::TestFailed) }
            }
            _ => Err(Impossible::Unprocessable),
        }
    }

    /// Updates the depth after a value of at most the specified depth was added at a path.
    fn grown(&mut self, path: &str, depth_of_value: usize) -> Result<(), Impossible> {
        self.deepest = self.deepest.max(steps(path) + depth_of_value);
        if self.deepest > DEPTH_MAX {
            // `deepest` is only an upper bound; compute the exact depth.
            self.deepest = measured_depth(&self.document, &self.steps)?;
        }
        if self.deepest > DEPTH_MAX { Err(Impossible::Unprocessable) } else { Ok(()) }
    }
}

/// The length of a value as JSON, added to `before`; an error beyond [`COPIED_MAX`].
fn measured(value: &Value, before: usize) -> Result<usize, Impossible> {
    struct Counter(usize);

    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            if self.0 > COPIED_MAX { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(before);
    serde_json::to_writer(&mut counter, value).map_err(|_| Impossible::Unprocessable)?;
    Ok(counter.0)
}

/// The number of segments in a path.
fn steps(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

/// The nesting depth of a value.
fn depth(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Like [`depth`], one step for each list and object.
fn measured_depth(value: &Value, steps: &Steps) -> Result<usize, OutOfSteps> {
    let mut deepest = 0;
    match value {
        Value::Array(items) => {
            steps.take(items.len())?;
            for item in items {
                deepest = deepest.max(measured_depth(item, steps)?);
            }
        }
        Value::Object(members) => {
            steps.take(members.len())?;
            for member in members.values() {
                deepest = deepest.max(measured_depth(member, steps)?);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(1 + deepest)
}

/// Checks the types of an operation's members, and adds a warning for each unknown member.
fn check(i: usize, operation: &Value, warnings: &mut Vec<String>) -> Result<(), String> {
    let members = match operation {
        Value::Object(members) => members,
        // An operation without members; applying it fails later.
        Value::Null => return Ok(()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            let kind = body::kind(other);
            return Err(format!("json: cannot unmarshal {kind} into Go value of type handlers.jsonPatchOp"));
        }
    };
    for (member, value) in members {
        match (member.as_str(), value) {
            ("op" | "path" | "from", Value::String(_) | Value::Null) | ("value", _) => {}
            ("op" | "path" | "from", other) => {
                let kind = body::kind(other);
                return Err(format!(
                    "json: cannot unmarshal {kind} into Go struct field jsonPatchOp.{member} of type string"
                ));
            }
            _ => warnings.push(format!("json patch unknown field \"[{i}].{member}\"")),
        }
    }
    Ok(())
}

/// A location in a document, possibly without a value.
enum Location<'a> {
    Member(&'a mut Map<String, Value>, String),
    Item(&'a mut Vec<Value>, String),
}

impl<'a> Location<'a> {
    /// Resolves a pointer to a location. Text before the first slash is ignored; a pointer without a slash is an
    /// error.
    fn find(document: &'a mut Value, pointer: &str) -> Result<Self, Impossible> {
        let (_, pointer) = pointer.split_once('/').ok_or(Impossible::Unprocessable)?;
        let mut parts = pointer.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
        let mut key = parts.next().ok_or(Impossible::Unprocessable)?;
        let mut container = document;
        for next in parts {
            container = match container {
                Value::Object(members) => members.get_mut(&key).ok_or(Impossible::Unprocessable)?,
                Value::Array(items) => {
                    let at = index(&key, items.len())?;
                    items.get_mut(at).ok_or(Impossible::Unprocessable)?
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    return Err(Impossible::Unprocessable);
                }
            };
            key = next;
        }
        match container {
            Value::Object(members) => Ok(Location::Member(members, key)),
            Value::Array(items) => Ok(Location::Item(items, key)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Err(Impossible::Unprocessable)
            }
        }
    }

    /// Returns the value at the location. A missing member is `None`; a missing item is an error.
    fn get(self) -> Result<Option<&'a Value>, Impossible> {
        match self {
            Location::Member(members, key) => Ok(members.get(&key)),
            Location::Item(items, key) => {
                let at = index(&key, items.len())?;
                items.get(at).map(Some).ok_or(Impossible::Unprocessable)
            }
        }
    }

    /// Inserts a value; one step for each item that moves.
    fn add(self, value: Value, steps: &Steps) -> Result<(), Impossible> {
        match self {
            Location::Member(members, key) => {
                members.insert(key, value);
            }
            Location::Item(items, key) if key == "-" => items.push(value),
            Location::Item(items, key) => {
                // An insertion has one more possible position than there are items, also when counted from the end.
                let at = index(&key, items.len() + 1)?;
                steps.take(items.len() - at)?;
                items.insert(at, value);
            }
        }
        Ok(())
    }

    fn replace(self, value: Value) -> Result<(), Impossible> {
        match self {
            Location::Member(members, key) => {
                members.insert(key, value);
            }
            Location::Item(items, key) => {
                let at = index(&key, items.len())?;
                items[at] = value;
            }
        }
        Ok(())
    }

    /// Removes the value; one step for each item that moves.
    fn remove(self, steps: &Steps) -> Result<Value, Impossible> {
        match self {
            Location::Member(members, key) => members.remove(&key).ok_or(Impossible::Unprocessable),
            Location::Item(items, key) => {
                let at = index(&key, items.len())?;
                steps.take(items.len() - at)?;
                Ok(items.remove(at))
            }
        }
    }
}

/// Parses an index below `len`; negative indexes count from the end.
fn index(key: &str, len: usize) -> Result<usize, Impossible> {
    let at: i64 = key.parse().map_err(|_| Impossible::Unprocessable)?;
    let at = match usize::try_from(at) {
        Ok(at) => Some(at),
        Err(_) => len.checked_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    at.filter(|at| *at < len).ok_or(Impossible::Unprocessable)
}
