//! Field-by-field differences between two states of an object. Lists of items with keys are compared by key, sets
//! by item, all other lists as a whole.

use std::collections::{BTreeSet, HashMap, HashSet};

use orlop_openapi::{ListType, Merge, Shape, Strategic, StructType};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::registry::KindRef;

/// A change to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Op {
    /// The field was added.
    Add,
    /// The field was removed.
    Remove,
    /// The value changed.
    Replace,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Change {
    /// Field names from the root; an item of a list with keys is `[name=web]`, an item of a set `[=value]`.
    pub(crate) path: Vec<String>,
    /// The kind of change.
    pub(crate) op: Op,
    /// The old value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Value>,
    /// The new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<Value>,
}

/// The differences between two states of an object, ordered by name. Excludes the managed fields, the
/// resourceVersion, kind and apiVersion. If the list would be too long, it contains the changed top-level members as a
/// whole.
pub(crate) fn changes(kind: KindRef, from: &Value, to: &Value) -> Vec<Change> {
    let ty = kind.struct_type();
    let known = ty.as_deref().map_or(KnownShape::Nothing, KnownShape::Struct);
    let mut found = ChangeCollector::default();
    found.compare(known, None, from, to);
    if !found.is_cut {
        return found.changes;
    }
    let mut whole = ChangeCollector::default();
    let member = |value: &'_ Value, name: &str| value.get(name).cloned();
    let names: BTreeSet<&String> =
        [from, to].into_iter().filter_map(Value::as_object).flatten().map(|m| m.0).collect();
    for name in names.into_iter().filter(|name| !whole.is_left_out(name)).collect::<Vec<_>>() {
        let (from, to) = (member(from, name), member(to, name));
        if from != to {
            whole.below(name.clone(), |found| found.push(from.as_ref(), to.as_ref()));
        }
    }
    whole.changes
}

/// The known shape of a value.
#[derive(Clone, Copy)]
enum KnownShape<'a> {
    Struct(&'a StructType),
    /// A map with values of this shape.
    Map(&'a Shape),
    /// A list with items of this shape.
    List(&'a Shape),
    Nothing,
}

impl<'a> KnownShape<'a> {
    fn of(shape: &'a Shape) -> Self {
        match shape {
            Shape::Struct(id) | Shape::Either(id) => KnownShape::Struct(orlop_openapi::types().get(*id)),
            Shape::Inline(ty) => KnownShape::Struct(ty),
            Shape::Map(values) => KnownShape::Map(values),
            Shape::List(items) => KnownShape::List(items),
            Shape::Scalar(_) | Shape::Json | Shape::Deduced => KnownShape::Nothing,
        }
    }

    fn member(self, name: &str) -> (Self, Option<&'a Merge>) {
        match self {
            KnownShape::Struct(ty) => match ty.member(name) {
                Some((shape, merge)) => (KnownShape::of(shape), merge),
                None => (KnownShape::Nothing, None),
            },
            KnownShape::Map(values) => (KnownShape::of(values), None),
            KnownShape::List(_) | KnownShape::Nothing => (KnownShape::Nothing, None),
        }
    }

    fn item(self) -> Self {
        match self {
            KnownShape::List(items) => KnownShape::of(items),
            KnownShape::Struct(_) | KnownShape::Map(_) | KnownShape::Nothing => KnownShape::Nothing,
        }
    }
}

/// How the items of a list are identified.
enum Items {
    ByKeys(Vec<String>),
    AsSet,
    Whole,
}

fn items(merge: Option<&Merge>) -> Items {
    let Some(merge) = merge else { return Items::Whole };
    match (&merge.list_type, &merge.strategic) {
        (Some(ListType::Map(keys)), _) => Items::ByKeys(keys.clone()),
        (_, Strategic::MergeBy(key)) => Items::ByKeys(vec![key.clone()]),
        (Some(ListType::Set), _) | (_, Strategic::MergeSet) => Items::AsSet,
        (Some(ListType::Atomic) | None, Strategic::Replace) => Items::Whole,
    }
}

#[derive(Default)]
struct ChangeCollector {
    path: Vec<String>,
    changes: Vec<Change>,
    /// The memory of the changes without their values, bytes.
    text: usize,
    /// Changes have been left out.
    is_cut: bool,
}

/// Maximum memory of the listed changes without their values, bytes: each contains its whole path, and a name near the
/// root can be as long as the object.
const MAX_TEXT: usize = 8 << 20;
/// The memory of a change besides its path and values, bytes.
const CHANGE_OVERHEAD: usize = 128;

impl ChangeCollector {
    fn push(&mut self, from: Option<&Value>, to: Option<&Value>) {
        let length: usize = self.path.iter().map(String::len).sum();
        self.text += length + CHANGE_OVERHEAD;
        if self.text > MAX_TEXT {
            self.is_cut = true;
            return;
        }
        let op = match (from, to) {
            (None, _) => Op::Add,
            (Some(_), None) => Op::Remove,
            (Some(_), Some(_)) => Op::Replace,
        };
        let kept = |value: Option<&Value>| value.map(|value| self.kept(value));
        self.changes.push(Change { path: self.path.clone(), op, from: kept(from), to: kept(to) });
    }

    /// A value that is added or removed as a whole, without its excluded fields.
    fn kept(&self, value: &Value) -> Value {
        match value {
            Value::Object(members) if self.path.len() < 2 => {
                let shown = members.iter().filter(|(name, _)| !self.is_left_out(name));
                Value::Object(shown.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            _ => value.clone(),
        }
    }

    fn below(&mut self, part: String, look: impl FnOnce(&mut Self)) {
        self.path.push(part);
        look(self);
        self.path.pop();
    }

    fn compare(&mut self, known: KnownShape<'_>, merge: Option<&Merge>, from: &Value, to: &Value) {
        if from == to {
            return;
        }
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => self.members(known, from, to),
            (Value::Array(old), Value::Array(new)) => {
                let itemized = match items(merge) {
                    Items::ByKeys(keys) => self.by_keys(known.item(), &keys, old, new),
                    Items::AsSet => self.as_set(old, new),
                    Items::Whole => false,
                };
                if !itemized {
                    self.push(Some(from), Some(to));
                }
            }
            _ => self.push(Some(from), Some(to)),
        }
    }

    fn members(&mut self, known: KnownShape<'_>, from: &Map<String, Value>, to: &Map<String, Value>) {
        let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for name in names {
            if self.is_left_out(name) {
                continue;
            }
            let (member, merge) = known.member(name);
            self.below(name.clone(), |found| match (from.get(name), to.get(name)) {
                (Some(from), Some(to)) => found.compare(member, merge, from, to),
                (from, to) => found.push(from, to),
            });
        }
    }

    fn is_left_out(&self, name: &str) -> bool {
        match self.path.as_slice() {
            [] => matches!(name, "kind" | "apiVersion"),
            [one] if one == "metadata" => matches!(name, "managedFields" | "resourceVersion"),
            _ => false,
        }
    }

    /// Compares items with the same keys. Returns false if the comparison yields no change: an item has no keys, two
    /// items have the same keys, or only the order differs.
    fn by_keys(&mut self, known: KnownShape<'_>, keys: &[String], from: &[Value], to: &[Value]) -> bool {
        let (Some(old), Some(new)) = (keyed(keys, from), keyed(keys, to)) else { return false };
        let before = self.changes.len();
        for (name, item) in &old.list {
            let other = new.by_name.get(name).copied();
            self.below(name.clone(), |found| match other {
                Some(other) => found.compare(known, None, item, other),
                None => found.push(Some(*item), None),
            });
        }
        for (name, item) in new.list.iter().filter(|(name, _)| !old.by_name.contains_key(name)) {
            self.below(name.clone(), |found| found.push(None, Some(*item)));
        }
        self.changes.len() > before
    }

    fn as_set(&mut self, from: &[Value], to: &[Value]) -> bool {
        let before = self.changes.len();
        let texts = |list: &[Value]| -> HashSet<String> { list.iter().map(Value::to_string).collect() };
        let (old, new) = (texts(from), texts(to));
        for item in from.iter().filter(|item| !new.contains(&item.to_string())) {
            self.below(format!("[={}]", text(item)), |found| found.push(Some(item), None));
        }
        for item in to.iter().filter(|item| !old.contains(&item.to_string())) {
            self.below(format!("[={}]", text(item)), |found| found.push(None, Some(item)));
        }
        self.changes.len() > before
    }
}

/// The items of a list, named by their keys.
struct Keyed<'a> {
    list: Vec<(String, &'a Value)>,
    by_name: HashMap<String, &'a Value>,
}

/// Returns `None` if an item has none of the keys or two items have the same keys.
fn keyed<'a>(keys: &[String], list: &'a [Value]) -> Option<Keyed<'a>> {
    let mut named =
        Keyed { list: Vec::with_capacity(list.len()), by_name: HashMap::with_capacity(list.len()) };
    for item in list {
        let item_keys = keys.iter().filter_map(|key| Some(format!("{key}={}", text(item.get(key)?))));
        let parts: Vec<String> = item_keys.collect();
        if parts.is_empty() {
            return None;
        }
        let name = format!("[{}]", parts.join(","));
        if named.by_name.insert(name.clone(), item).is_some() {
            return None;
        }
        named.list.push((name, item));
    }
    Some(named)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
