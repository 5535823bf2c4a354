//! Applies `$retainKeys` and `$setElementOrder`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use orlop_openapi::Strategic;

use super::rules::Rules;
use super::{DELETE_FROM_LIST, Fault, PATCH, RETAIN_KEYS, SET_ORDER, go_text, lists, order};

/// Removes every live member that the directive does not list. The list must include all members that the patch
/// sets.
pub(super) fn retain_keys(
    live: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), Fault> {
    let Some(list) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(list) = list else { return Err(Fault::Format("retainKeys")) };
    let list: HashSet<&str> = list.iter().filter_map(Value::as_str).collect();
    let listed = |key: &str| list.contains(key);
    let unlisted = patch.iter().any(|(key, value)| {
        let directive = key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
        !value.is_null() && !directive && !listed(key)
    });
    if unlisted {
        return Err(Fault::Unprocessable);
    }
    live.retain(|key, _| listed(key));
    Ok(())
}

/// Merges and sorts every list for which the patch specifies an order, and removes these lists and their
/// directives from the patch.
pub(super) fn set_order<'a, R: Rules<'a>>(
    live: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    rules: R,
) -> Result<(), Fault> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let wanted = list_of(patch.remove(&directive).unwrap_or_default())?;
        let key = directive
            .strip_prefix(SET_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or(Fault::Format("setElementOrder list"))?;
        // An item that the patch repeats would otherwise copy and sort its lists each time.
        let length = |list: Option<&Value>| list.and_then(Value::as_array).map_or(0, Vec::len);
        rules.take_steps(length(live.get(key)) + wanted.len())?;
        let old = live.remove(key).map(list_of).transpose()?;
        let new = patch.remove(key).map(list_of).transpose()?;
        let (below, strategy) = rules.member(key)?;
        let by = match strategy {
            // The patch replaces the list, so there is nothing to sort.
            Strategic::Replace => None,
            Strategic::MergeSet => Some(None),
            Strategic::MergeBy(by) => Some(Some(by.as_str())),
        };
        if let Some(new) = &new {
            check(new, &wanted, strategy)?;
        }
        let of_live = by.map(|by| order::places(old.as_deref().unwrap_or_default(), by));
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(super::plain).collect(),
            (Some(old), Some(new)) => lists::merge(old, new, below, strategy, false)?,
        };
        let sorted = match by.zip(of_live) {
            None => merged,
            Some((by, of_live)) => order::arrange(merged, &order::places(&wanted, by)?, &of_live?, by)?,
        };
        live.insert(key.to_owned(), Value::Array(sorted));
    }
    Ok(())
}

fn list_of(value: Value) -> Result<Vec<Value>, Fault> {
    match value {
        Value::Array(list) => Ok(list),
        other => Err(Fault::kind("[]interface {}", &other)),
    }
}

/// Checks that all items of a patch are in the specified order. Items with their own directive are ignored.
fn check(patch: &[Value], wanted: &[Value], strategy: &Strategic) -> Result<(), Fault> {
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let by = match strategy {
        Strategic::MergeBy(key) => Some(key.as_str()),
        Strategic::MergeSet => None,
        Strategic::Replace => return Ok(()),
    };
    let mut rest = wanted.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let identity = order::identity(item, by)?;
        let mut found = false;
        for one in rest.by_ref() {
            if order::identity(one, by)? == identity {
                found = true;
                break;
            }
        }
        if !found {
            return Err(Fault::Order {
                patch: go_text::shown_list(patch),
                order: go_text::shown_list(wanted),
            });
        }
    }
    Ok(())
}
