//! Compares two versions of an object: which paths have a new value and which were removed.
//!
//! Structs that are always present (such as the spec) must be present on both sides, as after decoding. An
//! empty one therefore equals a missing one, and only its content is compared.

use orlop_openapi::StructType;
use serde_json::{Map, Value};

use super::set::{Element, Node, Set};
use super::typed::{Items, Owned, Ty, is_hollow};

/// The paths that differ.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// Paths that are new or have a different value.
    pub written: Set,
    /// Paths that were removed.
    pub removed: Set,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.removed.is_empty()
    }

    /// Removes these paths and everything below them.
    pub(crate) fn subtract_deep(&mut self, paths: &Set) {
        self.written.subtract_deep(paths);
        self.removed.subtract_deep(paths);
    }

    /// Removes exactly these paths.
    pub(crate) fn subtract(&mut self, paths: &Set) {
        self.written.subtract(paths);
        self.removed.subtract(paths);
    }
}

/// Compares two objects of a type.
pub(crate) fn compare(ty: &StructType, old: &Map<String, Value>, new: &Map<String, Value>) -> Changes {
    let mut level = Level::default();
    fields(ty, Some(old), Some(new), &mut level);
    level.finish()
}

/// How one path changed.
#[derive(Clone, Copy, PartialEq)]
enum PathChange {
    Same,
    Written,
    Removed,
}

/// The nodes of the level being compared.
#[derive(Default)]
struct Level {
    written: Vec<Node>,
    removed: Vec<Node>,
    /// Whether the level is in a list that differs. Lists within it are not compared as a whole first: in nested lists,
    /// a difference at the bottom would be searched for at each level.
    in_changed_list: bool,
}

impl Level {
    /// An empty level below this one.
    fn below(&self) -> Level {
        Level { in_changed_list: self.in_changed_list, ..Level::default() }
    }

    fn finish(self) -> Changes {
        Changes { written: Set::from_nodes(self.written), removed: Set::from_nodes(self.removed) }
    }

    /// Adds the change of an element, and the changes below it, to this level. Unchanged elements, usually
    /// the majority, get no node.
    fn hang(&mut self, element: impl Fn() -> Element, mark: PathChange, below: Level) {
        for (nodes, below, own) in [
            (&mut self.written, below.written, PathChange::Written),
            (&mut self.removed, below.removed, PathChange::Removed),
        ] {
            if mark == own || !below.is_empty() {
                nodes.push(Node { element: element(), member: mark == own, below: Set::from_nodes(below) });
            }
        }
    }
}

/// The change of a path that is compared as a whole.
fn whole(old: Option<&Value>, new: Option<&Value>) -> PathChange {
    match (old, new) {
        (None, None) => PathChange::Same,
        (None, Some(_)) => PathChange::Written,
        (Some(_), None) => PathChange::Removed,
        (Some(old), Some(new)) if old == new => PathChange::Same,
        (Some(_), Some(_)) => PathChange::Written,
    }
}

/// Compares two values, at least one of which is present.
fn value(ty: Ty, old: Option<&Value>, new: Option<&Value>, below: &mut Level) -> PathChange {
    let owned = ty.owned();
    if matches!(owned, Owned::Whole) || (is_hollow(old) && is_hollow(new)) {
        return whole(old, new);
    }
    let map = |value: Option<&'_ Value>| value.is_none_or(|value| value.is_object() || value.is_null());
    let list = |value: Option<&'_ Value>| value.is_none_or(|value| value.is_array() || value.is_null());
    match owned {
        Owned::Struct(ty) if map(old) && map(new) => {
            fields(ty, old.and_then(Value::as_object), new.and_then(Value::as_object), below);
        }
        Owned::Map(inner) if map(old) && map(new) => {
            let ty = Ty::of_shape(inner);
            let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            members(old, new, |_| Some(ty), below);
        }
        Owned::List(kind) if list(old) && list(new) => {
            items(kind, old.and_then(Value::as_array), new.and_then(Value::as_array), below);
        }
        Owned::Whole | Owned::Struct(_) | Owned::Map(_) | Owned::List(_) => return whole(old, new),
    }
    match (old, new) {
        (None, _) => PathChange::Written,
        (_, None) => PathChange::Removed,
        (Some(_), Some(_)) => PathChange::Same,
    }
}

fn fields(
    ty: &StructType,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    level: &mut Level,
) {
    members(old, new, |name| Ty::of_member(ty, name), level);
}

fn members<'t>(
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    ty: impl Fn(&str) -> Option<Ty<'t>>,
    level: &mut Level,
) {
    let mut one = |name: &str, old: Option<&Value>, new: Option<&Value>| {
        let Some(ty) = ty(name) else { return };
        let mut below = level.below();
        let mark = value(ty, old, new, &mut below);
        level.hang(|| Element::field(name), mark, below);
    };
    for (name, before) in old.into_iter().flatten() {
        one(name, Some(before), new.and_then(|new| new.get(name)));
    }
    for (name, after) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(name)) {
            one(name, None, Some(after));
        }
    }
}

/// The items of a list, sorted by their identity. Items without a valid identity are omitted.
fn sorted<'v>(kind: Items, list: Option<&'v Vec<Value>>) -> Vec<(Element, &'v Value)> {
    let items = list.into_iter().flatten();
    let mut sorted: Vec<(Element, &'v Value)> =
        items.filter_map(|item| Some((kind.element(item).ok()?, item))).collect();
    // The sort is stable: duplicate items stay in order.
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    sorted
}

fn items(kind: Items, old: Option<&Vec<Value>>, new: Option<&Vec<Value>>, level: &mut Level) {
    if !level.in_changed_list && old == new {
        return;
    }
    let (old, new) = (sorted(kind, old), sorted(kind, new));
    let (mut old, mut new) = (old.as_slice(), new.as_slice());
    loop {
        let first = match (old.first(), new.first()) {
            (Some(a), Some(b)) => (&a.0).min(&b.0),
            (Some(one), None) | (None, Some(one)) => &one.0,
            (None, None) => return,
        };
        let before = run(&mut old, first);
        let after = run(&mut new, first);
        let mut below = Level { in_changed_list: true, ..Level::default() };
        let mark = match (before, after) {
            ([] | [_], [] | [_]) => {
                value(kind.ty(), before.first().map(|i| i.1), after.first().map(|i| i.1), &mut below)
            }
            // Duplicate items are owned together, as a whole.
            ([_, _, ..], [_, _, ..]) => {
                let same = before.iter().map(|i| i.1).eq(after.iter().map(|i| i.1));
                if same { PathChange::Same } else { PathChange::Written }
            }
            ([_, _, ..], _) => {
                if let [(_, one)] = after {
                    let mark = value(kind.ty(), None, Some(one), &mut below);
                    level.hang(|| first.clone(), mark, std::mem::take(&mut below));
                }
                PathChange::Removed
            }
            (_, [_, _, ..]) => {
                if let [(_, one)] = before {
                    let mark = value(kind.ty(), Some(one), None, &mut below);
                    level.hang(|| first.clone(), mark, std::mem::take(&mut below));
                }
                PathChange::Written
            }
        };
        level.hang(|| first.clone(), mark, below);
    }
}

/// Removes the items with this element from the front.
fn run<'a, 'v>(items: &mut &'a [(Element, &'v Value)], element: &Element) -> &'a [(Element, &'v Value)] {
    let len = items.iter().take_while(|item| item.0 == *element).count();
    let (taken, rest) = items.split_at(len);
    *items = rest;
    taken
}

#[cfg(test)]
mod tests;
