//! Merges an applied configuration into the live object, and removes paths that are no longer applied.

use orlop_openapi::{Shape, StructType, types};
use serde_json::{Map, Value};

use super::set::{Element, Node, Set};
use super::typed::{Items, Owned, Ty, is_hollow};

// === Merging ===

/// Returns the live object merged with the applied one. Nothing is removed, and applied values take precedence.
/// Lists stay in their order unless the applied list has a different one.
pub(crate) fn merge(
    ty: &StructType,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Map<String, Value> {
    members(live, applied, |name| Ty::of_member(ty, name))
}

fn members<'t>(
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
    ty: impl Fn(&str) -> Option<Ty<'t>>,
) -> Map<String, Value> {
    // Each live value is copied at most once: copies of applied members at every level would multiply the object.
    let mut merged: Map<String, Value> = (live.iter().filter(|(name, _)| !applied.contains_key(*name)))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for (name, value) in applied {
        let value = match (live.get(name), ty(name)) {
            (Some(live), Some(ty)) => both(ty, live, value),
            (None, _) | (_, None) => value.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

fn both(ty: Ty, live: &Value, applied: &Value) -> Value {
    if is_hollow(Some(live)) {
        return applied.clone();
    }
    match (ty.owned(), live, applied) {
        (Owned::Struct(ty), Value::Object(live), Value::Object(applied)) => {
            Value::Object(merge(ty, live, applied))
        }
        (Owned::Map(inner), Value::Object(live), Value::Object(applied)) => {
            Value::Object(members(live, applied, |_| Some(Ty::of_shape(inner))))
        }
        (Owned::List(kind), Value::Array(live), Value::Array(applied)) => {
            Value::Array(items(kind, live, applied))
        }
        // No fields below are applied, so the live value stays.
        (Owned::Struct(_) | Owned::Map(_) | Owned::List(_), live, Value::Null) => live.clone(),
        (Owned::Whole | Owned::Struct(_) | Owned::Map(_) | Owned::List(_), _, applied) => applied.clone(),
    }
}

/// Merges two lists by item: items in only one list stay near their neighbors, and items in both follow the
/// order of the applied list.
fn items(kind: Items, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let index = |list: &[Value]| -> Vec<Option<Element>> {
        list.iter().map(|item| kind.element(item).ok()).collect()
    };
    let (left, right) = (index(live), index(applied));
    let sorted = |elements: &[Option<Element>]| {
        let mut places: Vec<(Element, usize)> =
            elements.iter().enumerate().filter_map(|(i, e)| Some((e.clone()?, i))).collect();
        places.sort();
        places
    };
    let (left_places, right_places) = (sorted(&left), sorted(&right));
    let places = |places: &[(Element, usize)], element: &Option<Element>| -> (usize, usize) {
        let Some(element) = element else { return (0, 0) };
        let start = places.partition_point(|place| place.0 < *element);
        let count = places[start..].iter().take_while(|place| place.0 == *element).count();
        (start, count)
    };
    let is_applied = |element: &Option<Element>| places(&right_places, element).1 > 0;
    let is_live = |element: &Option<Element>| places(&left_places, element).1 > 0;
    // Merges the applied item with the live item of the same identity, unless the live list has duplicates.
    let merged = |r: usize| match places(&left_places, &right[r]) {
        (start, 1) => both(kind.ty(), &live[left_places[start].1], &applied[r]),
        _ => applied[r].clone(),
    };
    let mut shared = (0..right.len()).filter(|r| is_live(&right[*r])).peekable();
    let mut done = vec![false; right.len()];
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if l < left.len() && r < right.len() {
            if left[l] == right[r] {
                out.push(merged(r));
                done[r] = true;
                shared.next();
                l += 1;
                r += 1;
                continue;
            }
            // In both lists but not next in the applied order: it is emitted at its applied position.
            if is_applied(&left[l]) && shared.peek().is_some_and(|next| right[*next] != left[l]) {
                l += 1;
                continue;
            }
        }
        if l < left.len() {
            if !is_applied(&left[l]) {
                out.push(live[l].clone());
                l += 1;
                continue;
            }
            let (start, _) = places(&right_places, &left[l]);
            if done[right_places[start].1] {
                l += 1;
            }
        }
        if r < right.len() {
            out.push(merged(r));
            done[r] = true;
            if shared.peek().is_some_and(|next| *next == r) {
                shared.next();
            }
            r += 1;
        }
    }
    out
}

// === Removing ===

/// Returns the object without these paths.
pub(crate) fn remove(ty: &StructType, object: &Map<String, Value>, paths: &Set) -> Map<String, Value> {
    without(object, paths, |name| Ty::of_member(ty, name))
}

fn without<'t>(
    map: &Map<String, Value>,
    paths: &Set,
    ty: impl Fn(&str) -> Option<Ty<'t>>,
) -> Map<String, Value> {
    let mut left = Map::new();
    for (name, value) in map {
        let value = match paths.get(&Element::field(name)) {
            Some(node) if node.member => continue,
            Some(node) => ty(name).map_or_else(|| value.clone(), |ty| value_without(ty, value, &node.below)),
            None => value.clone(),
        };
        left.insert(name.clone(), value);
    }
    left
}

/// Removes paths from a value. A container that becomes empty is replaced by `null`, so that its own path can
/// still be owned.
fn value_without(ty: Ty, value: &Value, paths: &Set) -> Value {
    match (ty.owned(), value) {
        (Owned::Struct(ty), Value::Object(map)) => some(remove(ty, map, paths)),
        (Owned::Map(inner), Value::Object(map)) => some(without(map, paths, |_| Some(Ty::of_shape(inner)))),
        (Owned::List(kind), Value::Array(list)) => {
            let left: Vec<Value> = list.iter().filter_map(|item| item_without(kind, item, paths)).collect();
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        (Owned::Whole | Owned::Struct(_) | Owned::Map(_) | Owned::List(_), value) => value.clone(),
    }
}

fn item_without(kind: Items, item: &Value, paths: &Set) -> Option<Value> {
    let node = kind.element(item).ok().and_then(|element| paths.get(&element));
    match node {
        Some(node) if node.member => None,
        Some(node) => Some(value_without(kind.ty(), item, &node.below)),
        None => Some(item.clone()),
    }
}

fn some(map: Map<String, Value>) -> Value {
    if map.is_empty() { Value::Null } else { Value::Object(map) }
}

// === Parent fields ===

/// Returns the set extended by the struct fields above its paths. Sets normally omit such parent fields, so an
/// emptied struct would otherwise never be removed.
pub(crate) fn with_fields_above(ty: &StructType, paths: &Set) -> Set {
    above_struct(ty, paths)
}

fn above_struct(ty: &StructType, paths: &Set) -> Set {
    let nodes = paths.nodes().iter().map(|node| {
        let field = match &node.element {
            Element::Field(name) => ty.member(name).map(|(shape, _)| shape),
            Element::Key(_) | Element::Value(_) | Element::Index(_) => None,
        };
        let is_above = field.is_some() && !node.below.is_empty();
        Node {
            element: node.element.clone(),
            member: node.member || is_above,
            below: field.map_or_else(|| node.below.clone(), |shape| above(shape, &node.below)),
        }
    });
    Set::from_nodes(nodes.collect())
}

fn above(shape: &Shape, paths: &Set) -> Set {
    let inner = match shape {
        Shape::Struct(id) => return above_struct(types().get(*id), paths),
        Shape::Inline(ty) => return above_struct(ty, paths),
        Shape::Map(inner) | Shape::List(inner) => inner,
        Shape::Scalar(_) | Shape::Json | Shape::Either(_) | Shape::Deduced => return paths.clone(),
    };
    let nodes = paths.nodes().iter().map(|node| {
        let fits = matches!(
            (shape, &node.element),
            (Shape::Map(_), Element::Field(_)) | (Shape::List(_), Element::Key(_))
        );
        let below = if fits { above(inner, &node.below) } else { node.below.clone() };
        Node { element: node.element.clone(), member: node.member, below }
    });
    Set::from_nodes(nodes.collect())
}

#[cfg(test)]
mod tests;
