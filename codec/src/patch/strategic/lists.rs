//! Merges lists: objects by their merge key, scalars as sets.

use std::collections::{HashMap, HashSet};

use orlop_openapi::Strategic;
use serde_json::{Map, Value};

use super::order::{self, Places};
use super::rules::Rules;
use super::{Fault, PATCH, go_text};

/// Merges a list of a patch into the live one. With `deletes`, the patch lists the items to delete.
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
    rules.take_steps(live.iter().chain(&patch).map(|item| weight(item, by)).sum())?;
    let of_objects = match item_type(&live, &patch)? {
        None => return Ok(live),
        Some(kind) => kind == "map[string]interface {}",
    };
    match (of_objects, by) {
        (false, _) if deletes => {
            let gone: HashSet<String> = patch.iter().map(Value::to_string).collect();
            Ok(live.into_iter().filter(|item| !gone.contains(&item.to_string())).collect())
        }
        (false, _) => merge_scalars(live, patch),
        (true, None) => Err(Fault::NoKeyDeclared(rules.name().to_owned())),
        (true, Some(by)) => merge_objects(live, patch, rules, by),
    }
}

/// The common type of all items, or `None` if there are no items.
fn item_type(live: &[Value], patch: &[Value]) -> Result<Option<&'static str>, Fault> {
    let mut kinds = live.iter().chain(patch).map(go_text::type_name);
    let Some(first) = kinds.next() else { return Ok(None) };
    if first == "[]interface {}" {
        return Err(Fault::Unprocessable);
    }
    if kinds.any(|kind| kind != first) {
        return Err(Fault::Mixed(go_text::shown_list(live), go_text::shown_list(patch)));
    }
    Ok(Some(first))
}

fn merge_scalars(live: Vec<Value>, patch: Vec<Value>) -> Result<Vec<Value>, Fault> {
    let (of_patch, of_live) = (order::places(&patch, None)?, order::places(&live, None)?);
    let mut merged: Vec<Value> = Vec::with_capacity(live.len() + patch.len());
    let mut seen = HashSet::new();
    for item in live.into_iter().chain(patch) {
        if seen.insert(item.to_string()) {
            merged.push(item);
        }
    }
    order::arrange(merged, &of_patch, &of_live, None)
}

/// The steps for one item: one, and one for each 64 bytes of its identity, which is copied.
fn weight(item: &Value, by: Option<&str>) -> usize {
    let identity = by.map_or(Some(item), |by| item.get(by));
    1 + identity.and_then(Value::as_str).map_or(0, |text| text.len() / 64)
}

fn merge_objects<'a, R: Rules<'a>>(
    live: Vec<Value>,
    patch: Vec<Value>,
    rules: R,
    by: &str,
) -> Result<Vec<Value>, Fault> {
    let (mut merged, patch) = carry_out_directives(live, patch, by)?;
    // A map of positions avoids quadratic time for long lists. Live items without the key never match.
    let mut places: Places = HashMap::new();
    for (at, item) in merged.iter().enumerate() {
        if let Some(identity) = item.get(by) {
            places.entry(identity.to_string()).or_insert(at);
        }
    }
    let of_live = places.clone();
    let lacks_key = merged.iter().position(|item| item.get(by).is_none());
    let keyless = lacks_key.map(|at| order::identity(&merged[at], Some(by)).map(drop));
    for item in &patch {
        let identity = order::identity(item, Some(by))?.to_string();
        match places.get(&identity) {
            Some(at) => {
                let old = merged[*at].take();
                merged[*at] = Value::Object(super::merge(object(old)?, object(item.clone())?, rules)?);
            }
            None => {
                let Some(new) = super::plain(item.clone()) else { continue };
                if let Some(identity) = new.get(by) {
                    places.insert(identity.to_string(), merged.len());
                }
                merged.push(new);
            }
        }
    }
    // As in upstream, an item without the key is an error only here.
    if let Some(fault) = keyless {
        fault?;
    }
    order::arrange(merged, &order::places(&patch, Some(by))?, &of_live, Some(by))
}

/// Applies the `$patch` directives in items. Returns the live list and the remaining items of the patch.
fn carry_out_directives(
    mut live: Vec<Value>,
    patch: Vec<Value>,
    by: &str,
) -> Result<(Vec<Value>, Vec<Value>), Fault> {
    let mut ordinary = Vec::with_capacity(patch.len());
    let mut replace = false;
    let mut gone = HashSet::new();
    for item in patch {
        match item.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => ordinary.push(item),
            Some("delete") => {
                gone.insert(order::identity(&item, Some(by))?.to_string());
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(Fault::MergeInList),
            Some(_) => return Err(super::unknown_directive(object(item)?)),
        }
    }
    if !gone.is_empty() {
        live.retain(|one| one.get(by).is_none_or(|identity| !gone.contains(&identity.to_string())));
    }
    if replace { Ok((ordinary, Vec::new())) } else { Ok((live, ordinary)) }
}

fn object(value: Value) -> Result<Map<String, Value>, Fault> {
    match value {
        Value::Object(members) => Ok(members),
        other => Err(Fault::kind("map[string]interface {}", &other)),
    }
}
