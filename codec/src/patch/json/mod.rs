//! JSON patches, RFC 6902, as upstream's library (evanphx/json-patch v4) understands them. It is
//! more generous than the RFC, and clients rely on that: `replace` of a missing member adds it, an
//! absent `value` is null, a missing member passes a `test` for null, and negative indexes count
//! from the end. That is why the operations are carried out here and not by a crate.

#[cfg(test)]
mod tests;

use orlop_api::status::ApiError;
use serde_json::{Map, Value};

use super::{Patched, body};

const OPERATIONS_MAX: usize = 10_000;
/// All that is copied by one patch, bytes of JSON (upstream: JSONPatchMaxCopyBytes). Each copy can
/// double the document.
const COPIED_MAX: usize = 3 << 20;
/// Levels of the document while it is patched. Each operation can add what the longest path has.
const DEPTH_MAX: usize = 256;

/// An operation that cannot be carried out. Upstream's answer does not tell which, or why.
struct Impossible;

/// Applies a JSON patch. The warnings name unknown members of operations.
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
    let mut warnings = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        check(i, operation, &mut warnings).map_err(|error| undecodable(&error))?;
    }
    if operations.len() > OPERATIONS_MAX {
        return Err(ApiError::too_large(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is \
             {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut work = Work { deepest: depth(&document), document, copied: 0 };
    for operation in operations {
        work.run(operation).map_err(|Impossible| ApiError::unprocessable())?;
    }
    Ok(Patched { document: work.document, warnings })
}

/// A document while it is patched.
struct Work {
    document: Value,
    /// Bytes of JSON that were copied.
    copied: usize,
    /// No value stands deeper.
    deepest: usize,
}

impl Work {
    fn run(&mut self, mut operation: Value) -> Result<(), Impossible> {
        let document = &mut self.document;
        let value = operation.get_mut("value").map(Value::take).unwrap_or_default();
        let text = |member: &str| operation.get(member).and_then(Value::as_str).ok_or(Impossible);
        match text("op")? {
            "add" => {
                let depth = depth(&value);
                Location::find(document, text("path")?)?.add(value)?;
                self.grown(text("path")?, depth)
            }
            "remove" => Location::find(document, text("path")?)?.remove().map(drop),
            "replace" => {
                let depth = depth(&value);
                Location::find(document, text("path")?)?.replace(value)?;
                self.grown(text("path")?, depth)
            }
            "move" => {
                let value = Location::find(document, text("from")?)?.remove()?;
                Location::find(document, text("path")?)?.add(value)?;
                self.grown(text("path")?, self.deepest.saturating_sub(steps(text("from")?)))
            }
            "copy" => {
                let value = Location::find(document, text("from")?)?.get()?.cloned().unwrap_or_default();
                self.copied += value.to_string().len();
                if self.copied > COPIED_MAX {
                    return Err(Impossible);
                }
                Location::find(document, text("path")?)?.add(value)?;
                self.grown(text("path")?, self.deepest.saturating_sub(steps(text("from")?)))
            }
            "test" => {
                let found = match text("path")? {
                    "" => Some(&*document),
                    path => Location::find(document, path)?.get()?,
                };
                // What is missing equals null.
                if found.unwrap_or(&Value::Null) == &value { Ok(()) } else { Err(Impossible) }
            }
            _ => Err(Impossible),
        }
    }

    /// Notes that a value of at most that depth was put at a path.
    fn grown(&mut self, path: &str, depth_of_value: usize) -> Result<(), Impossible> {
        self.deepest = self.deepest.max(steps(path) + depth_of_value);
        if self.deepest > DEPTH_MAX {
            // It is only known to be no deeper; now it must be known.
            self.deepest = depth(&self.document);
        }
        if self.deepest > DEPTH_MAX { Err(Impossible) } else { Ok(()) }
    }
}

/// How many names a path has.
fn steps(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

/// How many values stand in each other.
fn depth(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Whether an operation has the members of one, of the right kinds.
fn check(i: usize, operation: &Value, warnings: &mut Vec<String>) -> Result<(), String> {
    let members = match operation {
        Value::Object(members) => members,
        // An operation without any members; it fails later.
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

/// A place in a document, which may be empty.
enum Location<'a> {
    Member(&'a mut Map<String, Value>, String),
    Item(&'a mut Vec<Value>, String),
}

impl<'a> Location<'a> {
    /// The place that a pointer names. What stands before the first slash does not count; without
    /// any slash it names nothing.
    fn find(document: &'a mut Value, pointer: &str) -> Result<Self, Impossible> {
        let (_, pointer) = pointer.split_once('/').ok_or(Impossible)?;
        let mut parts = pointer.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
        let mut key = parts.next().ok_or(Impossible)?;
        let mut container = document;
        for next in parts {
            container = match container {
                Value::Object(members) => members.get_mut(&key).ok_or(Impossible)?,
                Value::Array(items) => {
                    let at = index(&key, items.len())?;
                    items.get_mut(at).ok_or(Impossible)?
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Err(Impossible),
            };
            key = next;
        }
        match container {
            Value::Object(members) => Ok(Location::Member(members, key)),
            Value::Array(items) => Ok(Location::Item(items, key)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(Impossible),
        }
    }

    /// What is there; a missing member is none, a missing item an error.
    fn get(self) -> Result<Option<&'a Value>, Impossible> {
        match self {
            Location::Member(members, key) => Ok(members.get(&key)),
            Location::Item(items, key) => {
                let at = index(&key, items.len())?;
                items.get(at).map(Some).ok_or(Impossible)
            }
        }
    }

    fn add(self, value: Value) -> Result<(), Impossible> {
        match self {
            Location::Member(members, key) => {
                members.insert(key, value);
            }
            Location::Item(items, key) if key == "-" => items.push(value),
            Location::Item(items, key) => {
                // One more place than there are items, also when counted from the end.
                let at = index(&key, items.len() + 1)?;
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

    fn remove(self) -> Result<Value, Impossible> {
        match self {
            Location::Member(members, key) => members.remove(&key).ok_or(Impossible),
            Location::Item(items, key) => {
                let at = index(&key, items.len())?;
                Ok(items.remove(at))
            }
        }
    }
}

/// An index below `len`; negative ones count from the end.
fn index(key: &str, len: usize) -> Result<usize, Impossible> {
    let at: i64 = key.parse().map_err(|_| Impossible)?;
    let at = match usize::try_from(at) {
        Ok(at) => Some(at),
        Err(_) => len.checked_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    at.filter(|at| *at < len).ok_or(Impossible)
}
