//! Applies strategic merge patches: like merge patches, except that lists with a merge key are merged item by
//! item, and directives (members that start with `$`) express changes that values cannot.
//! Upstream: apimachinery `pkg/util/strategicpatch`.
//!
//! Reading order: `rules` is the type information for a merge, this file merges maps, `directives` implements
//! `$retainKeys` and `$setElementOrder`, `lists` merges lists, and `order` sorts them.

mod directives;
mod fault;
mod lists;
mod order;
mod rules;

#[cfg(test)]
mod tests;

use orlop_api::status::ApiError;
use orlop_apimachinery::steps::Steps;
use orlop_openapi::{TypeId, Types};
use serde_json::{Map, Value};

use self::fault::{Fault, STEPS_MAX};
use self::rules::Rules;
use super::{body, go_text};

const PATCH: &str = "$patch";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";
const RETAIN_KEYS: &str = "$retainKeys";

/// Applies a strategic merge patch to a document of the type `ty`.
pub(super) fn apply(document: Value, patch: &[u8], types: &Types, ty: TypeId) -> Result<Value, ApiError> {
    let patch = read(patch).map_err(ApiError::bad_request)?;
    let Value::Object(document) = document else { return Ok(document) };
    let steps = Steps::new(STEPS_MAX);
    let rules = rules::Declared::of(types, ty, &steps);
    merge(document, patch, rules).map(Value::Object).map_err(Fault::answer)
}

/// Parses a patch; `null` is an empty one.
fn read(patch: &[u8]) -> Result<Map<String, Value>, String> {
    match body::read(patch)? {
        Value::Object(patch) => Ok(patch),
        Value::Null => Ok(Map::new()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            let kind = body::kind(&other);
            Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
        }
    }
}

/// Merges a patch into an object or map.
fn merge<'a, R: Rules<'a>>(
    mut live: Map<String, Value>,
    mut patch: Map<String, Value>,
    rules: R,
) -> Result<Map<String, Value>, Fault> {
    match patch.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
        None => {}
        Some("replace") => {
            patch.remove(PATCH);
            return Ok(patch);
        }
        Some("delete") => return Ok(Map::new()),
        Some("merge") => {
            patch.remove(PATCH);
        }
        Some(_) => return Err(unknown_directive(patch)),
    }
    directives::retain_keys(&mut live, &mut patch)?;
    directives::set_order(&mut live, &mut patch, rules)?;
    for (key, value) in patch {
        merge_member(&mut live, key, value, rules)?;
    }
    Ok(live)
}

fn unknown_directive(patch: Map<String, Value>) -> Fault {
    let directive = patch.get(PATCH).map(go_text::shown).unwrap_or_default();
    Fault::UnknownDirective { directive, map: go_text::shown(&Value::Object(patch)) }
}

fn merge_member<'a, R: Rules<'a>>(
    live: &mut Map<String, Value>,
    key: String,
    value: Value,
    rules: R,
) -> Result<(), Fault> {
    let (key, deletes) = match key.strip_prefix(DELETE_FROM_LIST) {
        Some(list) => (list.strip_prefix('/').ok_or(Fault::Format("primitive list"))?.to_owned(), true),
        None => (key, false),
    };
    if value.is_null() {
        live.remove(&key);
        return Ok(());
    }
    let merged = match (live.remove(&key), value) {
        (Some(Value::Object(old)), Value::Object(patch)) if !deletes => {
            let (below, _) = rules.member(&key)?;
            Some(Value::Object(merge(old, patch, below)?))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            let (below, strategy) = rules.member(&key)?;
            Some(Value::Array(lists::merge(old, patch, below, strategy, deletes)?))
        }
        // There is no live list to delete items from.
        (old, _) if deletes => old,
        (_, value) => plain(value),
    };
    if let Some(merged) = merged {
        live.insert(key, merged);
    }
    Ok(())
}

/// Converts a patch value that has no live value to merge with: nulls and directives inside are dropped. `None`
/// if the value itself is a directive.
fn plain(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(PATCH) => None,
        Value::Object(members) => Some(Value::Object(
            members
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .filter_map(|(key, value)| Some((key, plain(value)?)))
                .collect(),
        )),
        Value::Array(items) => Some(items.into_iter().filter_map(plain).collect()),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Some(scalar),
    }
}
