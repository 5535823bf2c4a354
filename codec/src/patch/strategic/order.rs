//! Sorts a merged list. The items in the patch stay in the patch's order, and the others in the live order.
//! The two sequences are interleaved by position in the live list: an item of the patch precedes another item
//! unless it follows that item in the live list. Items that are new to the live list precede the items they
//! are compared with.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::{Fault, go_text};

/// The identity of an item: its merge key, or the item itself in a list of scalars.
pub(super) fn identity<'v>(item: &'v Value, by: Option<&str>) -> Result<&'v Value, Fault> {
    let Some(by) = by else { return Ok(item) };
    let Value::Object(members) = item else { return Err(Fault::kind("map[string]interface {}", item)) };
    members.get(by).ok_or_else(|| Fault::NoMergeKey { map: go_text::shown(item), key: by.to_owned() })
}

/// The position of each identity in a list: of the first item that has it.
pub(super) type Places = HashMap<String, usize>;

/// The positions of the items of a list.
pub(super) fn places(list: &[Value], by: Option<&str>) -> Result<Places, Fault> {
    let mut places = HashMap::with_capacity(list.len());
    for (at, item) in list.iter().enumerate() {
        places.entry(identity(item, by)?.to_string()).or_insert(at);
    }
    Ok(places)
}

/// Sorts a merged list by the orders of the patch and the live list.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch: &Places,
    live: &Places,
    by: Option<&str>,
) -> Result<Vec<Value>, Fault> {
    // Each item with its position in the patch or, if it is not in the patch, in the live list.
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let identity = identity(&item, by)?.to_string();
        let in_live = live.get(&identity).copied();
        match patch.get(&identity) {
            Some(at) => named.push((*at, in_live, item)),
            None => others.push((in_live, item)),
        }
    }
    named.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(at, _)| at.unwrap_or(usize::MAX));

    let mut named: VecDeque<(Option<usize>, Value)> =
        named.into_iter().map(|(_, at, item)| (at, item)).collect();
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    for (at, item) in others {
        while let Some((named_at, named_item)) = named.pop_front() {
            if matches!((at, named_at), (Some(at), Some(named_at)) if at < named_at) {
                named.push_front((named_at, named_item));
                break;
            }
            arranged.push(named_item);
        }
        arranged.push(item);
    }
    arranged.extend(named.into_iter().map(|(_, item)| item));
    Ok(arranged)
}
