//! Merging lists: of objects by their merge key, of scalars as sets.

use orlop_openapi::Strategic;
use serde_json::{Map, Value};

use super::rules::Rules;
use super::{Fault, PATCH, go_text, order};

/// Merges a list of a patch into the live one. With `deletes` the patch lists what is to go.
pub(super) fn merge<'a, R: Rules<'a>>(
    live: Vec<Value>,
    patch: Vec<Value>,
    rules: R,
    strategy: &Strategic,
    deletes: bool,
) -> Result<Vec<Value>, Fault> {
    let by = match strategy {
        Strategic::Replace => return Ok(patch),
        Strategic::MergeSet => None,
        Strategic::MergeBy(key) => Some(key.as_str()),
    };
    let of_objects = match item_type(&live, &patch)? {
        None => return Ok(live),
        Some(kind) => kind == "map[string]interface {}",
    };
    match (of_objects, by) {
        (false, _) if deletes => Ok(live.into_iter().filter(|item| !patch.contains(item)).collect()),
        (false, _) => merge_scalars(live, patch),
        (true, None) => Err(Fault::NoKeyDeclared(rules.name().to_owned())),
        (true, Some(by)) => merge_objects(live, patch, rules, by),
    }
}

/// The type that all items have; `None` when there are no items at all.
fn item_type(live: &[Value], patch: &[Value]) -> Result<Option<&'static str>, Fault> {
    let mut kinds = live.iter().chain(patch).map(go_text::type_name);
    let Some(first) = kinds.next() else { return Ok(None) };
    if first == "[]interface {}" {
        return Err(Fault::Unprocessable);
    }
    if kinds.any(|kind| kind != first) {
        let shown = |list: &[Value]| go_text::shown(&Value::from(list.to_vec()));
        return Err(Fault::Mixed(shown(live), shown(patch)));
    }
    Ok(Some(first))
}

fn merge_scalars(live: Vec<Value>, patch: Vec<Value>) -> Result<Vec<Value>, Fault> {
    let mut merged: Vec<Value> = Vec::with_capacity(live.len() + patch.len());
    for item in live.iter().chain(&patch) {
        if !merged.contains(item) {
            merged.push(item.clone());
        }
    }
    order::arrange(merged, &patch, &live, None)
}

fn merge_objects<'a, R: Rules<'a>>(
    live: Vec<Value>,
    patch: Vec<Value>,
    rules: R,
    by: &str,
) -> Result<Vec<Value>, Fault> {
    let (live, patch) = carry_out_directives(live, patch, by)?;
    let mut merged = live.clone();
    for item in &patch {
        let identity = order::identity(item, Some(by))?;
        // Live items without the key are not the one that is meant.
        let at = merged.iter().position(|one| one.get(by) == Some(identity));
        match at.map(|at| (at, merged[at].take())) {
            Some((at, old)) => {
                merged[at] = Value::Object(super::merge(object(old)?, object(item.clone())?, rules)?);
            }
            None => merged.extend(super::plain(item.clone())),
        }
    }
    order::arrange(merged, &patch, &live, Some(by))
}

/// Carries out `$patch` in items. Gives the live list and the ordinary items of the patch.
fn carry_out_directives(
    mut live: Vec<Value>,
    patch: Vec<Value>,
    by: &str,
) -> Result<(Vec<Value>, Vec<Value>), Fault> {
    let mut ordinary = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        match item.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => ordinary.push(item),
            Some("delete") => {
                let identity = order::identity(&item, Some(by))?;
                live.retain(|one| one.get(by) != Some(identity));
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(Fault::MergeInList),
            Some(_) => return Err(super::unknown_directive(object(item)?)),
        }
    }
    if replace { Ok((ordinary, Vec::new())) } else { Ok((live, ordinary)) }
}

fn object(value: Value) -> Result<Map<String, Value>, Fault> {
    match value {
        Value::Object(members) => Ok(members),
        other => Err(Fault::kind("map[string]interface {}", &other)),
    }
}
