//! Validates an applied configuration against its type and lists the paths it contains.

use std::collections::BTreeSet;

use orlop_openapi::{Merge, Scalar, Shape, StructType, types};
use serde_json::{Map, Value};

use super::fields_v1::step_text;
use super::set::{Element, Node, Set};
use super::typed::{Items, Owned, Ty};
use crate::decode::{MAX_FINDINGS, MAX_FINDINGS_TEXT};
use crate::patch::go_text::{shown, syntax, type_name};

// === Validation ===

/// Returns the errors of an applied object: unknown fields, values of wrong types, duplicate items. Each line
/// is a path and upstream's message. At most [`MAX_FINDINGS`] errors are returned, and none after
/// [`MAX_FINDINGS_TEXT`] bytes.
pub(crate) fn misfits(ty: &StructType, config: &Map<String, Value>) -> Vec<String> {
    let mut check = Check { path: Vec::new(), found: Vec::new(), text: 0 };
    check.fields(ty, config);
    check.found
}

struct Check {
    path: Vec<Element>,
    found: Vec<String>,
    /// Total length of `found`, bytes.
    text: usize,
}

impl Check {
    /// Records an error. The text is made only if the error is recorded: a key near the root may be as long as the body.
    fn note(&mut self, why: impl FnOnce() -> String) {
        if self.found.len() >= MAX_FINDINGS || self.text > MAX_FINDINGS_TEXT {
            return;
        }
        let path: String = self.path.iter().map(step_text).collect();
        let line = if path.is_empty() { why() } else { format!("{path}: {}", why()) };
        self.text += line.len();
        self.found.push(line);
    }

    fn below(&mut self, element: Element, check: impl FnOnce(&mut Self)) {
        self.path.push(element);
        check(self);
        self.path.pop();
    }

    fn fields(&mut self, ty: &StructType, map: &Map<String, Value>) {
        for (name, value) in map {
            let Some((shape, merge)) = ty.member(name) else {
                // Upstream does not check the rest of this struct.
                return self.below(Element::field(name), |check| {
                    check.note(|| "field not declared in schema".to_owned())
                });
            };
            self.below(Element::field(name), |check| check.value(shape, merge, value));
        }
    }

    fn value(&mut self, shape: &Shape, merge: Option<&Merge>, value: &Value) {
        match (shape, value) {
            (_, Value::Null) | (Shape::Json | Shape::Either(_) | Shape::Deduced, _) => {}
            (Shape::Struct(id), Value::Object(map)) => self.fields(types().get(*id), map),
            (Shape::Inline(ty), Value::Object(map)) => self.fields(ty, map),
            (Shape::Map(inner), Value::Object(map)) => {
                for (name, value) in map {
                    self.below(Element::field(name), |check| check.value(inner, None, value));
                }
            }
            (Shape::List(inner), Value::Array(list)) => {
                self.list(inner, (Ty { shape, merge }).items(), list);
            }
            (Shape::Scalar(scalar), value) => {
                if let Some(why) = misfit(*scalar, value) {
                    self.note(|| why);
                }
            }
            (Shape::Struct(_) | Shape::Inline(_) | Shape::Map(_), value) => {
                self.note(|| format!("expected map, got &{{{}}}", shown(value)));
            }
            (Shape::List(_), value) => self.note(|| format!("expected list, got &{{{}}}", shown(value))),
        }
    }

    fn list(&mut self, inner: &Shape, kind: Option<Items<'_>>, list: &[Value]) {
        let mut seen: BTreeSet<Element> = BTreeSet::new();
        for (i, item) in list.iter().enumerate() {
            let element = match kind.map(|kind| kind.element(item)) {
                None => Element::Index(i64::try_from(i).unwrap_or(i64::MAX)),
                Some(Ok(element)) => {
                    if !seen.insert(element.clone()) {
                        self.note(|| format!("duplicate entries for key {}", step_text(&element)));
                    }
                    element
                }
                Some(Err(why)) => return self.note(|| format!("element {i}: {why}")),
            };
            self.below(element, |check| check.value(inner, None, item));
        }
    }
}

fn misfit(scalar: Scalar, value: &Value) -> Option<String> {
    match scalar {
        Scalar::String | Scalar::Bytes => (!value.is_string())
            .then(|| format!("expected string, got &value.valueUnstructured{{Value:{}}}", syntax(value))),
        Scalar::Bool => (!value.is_boolean()).then(|| format!("expected boolean, got &{{{}}}", shown(value))),
        Scalar::Int32 | Scalar::Int64 | Scalar::Float => {
            (!value.is_number()).then(|| format!("expected numeric (int or float), got {}", type_name(value)))
        }
        Scalar::Quantity | Scalar::IntOrString | Scalar::Time | Scalar::MicroTime => {
            let is_scalar = value.is_string() || value.is_number() || value.is_boolean();
            (!is_scalar).then(|| format!("expected any scalar, got &{{{}}}", shown(value)))
        }
    }
}

// === Paths ===

/// The paths of an object: leaves, keys of maps, items of lists.
pub(crate) fn paths(ty: &StructType, object: &Map<String, Value>) -> Set {
    Set::from_nodes(field_nodes(ty, object))
}

fn field_nodes(ty: &StructType, map: &Map<String, Value>) -> Vec<Node> {
    let nodes = map.iter().filter_map(|(name, value)| {
        let mut node = node(Element::field(name), Ty::of_member(ty, name)?, value);
        // An undeclared field of an open struct is a key of a map.
        node.member |= is_bare(value) || ty.field(name).is_none();
        Some(node)
    });
    nodes.collect()
}

/// `null` or `{}`: set explicitly, with no paths below.
fn is_bare(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

fn node(element: Element, ty: Ty, value: &Value) -> Node {
    let below = match (ty.owned(), value) {
        (Owned::Whole, _) => return Node::leaf(element),
        (_, Value::Null) => Vec::new(),
        (Owned::Struct(ty), Value::Object(map)) => field_nodes(ty, map),
        (Owned::Map(inner), Value::Object(map)) => {
            let one = |(name, value): (&String, &Value)| {
                let mut node = node(Element::field(name), Ty::of_shape(inner), value);
                node.member = true;
                node
            };
            map.iter().map(one).collect()
        }
        (Owned::List(kind), Value::Array(list)) => item_nodes(kind, list),
        (Owned::Struct(_) | Owned::Map(_) | Owned::List(_), _) => return Node::leaf(element),
    };
    Node { element, member: false, below: Set::from_nodes(below) }
}

fn item_nodes(kind: Items, list: &[Value]) -> Vec<Node> {
    let mut items: Vec<(Element, &Value)> =
        list.iter().filter_map(|item| Some((kind.element(item).ok()?, item))).collect();
    items.sort_by(|a, b| a.0.cmp(&b.0));
    let mut nodes: Vec<Node> = Vec::with_capacity(items.len());
    for (element, item) in items {
        match nodes.last_mut().filter(|last| last.element == element) {
            // Duplicate items are owned together.
            Some(twice) => twice.below = Set::new(),
            None => {
                let mut node = node(element, kind.ty(), item);
                node.member = true;
                nodes.push(node);
            }
        }
    }
    nodes
}

#[cfg(test)]
mod tests;
