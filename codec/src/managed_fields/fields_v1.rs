//! Encodes sets of paths as FieldsV1, and paths as text for messages.
//!
//! FieldsV1 is a tree of JSON objects. A key is `f:NAME`, `k:{"name":"a"}`, `v:"x"` or `i:0`. The key `.`, or an
//! empty object, means that the path up to there is in the set.

use serde_json::{Map, Number, Value};

use super::set::{Atom, Element, Node, Set};

/// Maximum nesting depth; objects are never nested deeper.
const MAX_DEPTH: usize = 200;

/// Reads a set. `None` if a key is malformed; keys of unknown kinds are skipped.
pub(crate) fn parse(fields: &Value) -> Option<Set> {
    match fields {
        Value::Null => Some(Set::default()),
        Value::Object(map) => read(map, 0).map(|(set, _)| set),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

/// Returns the set below an object, and whether the object's own path is in the set.
fn read(map: &Map<String, Value>, depth: usize) -> Option<(Set, bool)> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut member = false;
    let mut nodes: Vec<Node> = Vec::with_capacity(map.len());
    for (key, value) in map {
        if key == "." {
            member = true;
            continue;
        }
        let Some(element) = element(key)? else { continue };
        let (below, is_member) = match value {
            Value::Object(map) => read(map, depth + 1)?,
            Value::Null => (Set::default(), true),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
        };
        nodes.push(Node { element, member: is_member, below });
    }
    // The same element may be spelled twice, for example with its keys in another order.
    let set = Set::from_nodes(nodes);
    member |= set.is_empty();
    Some((set, member))
}

/// Parses the element of a key; `Some(None)` for unknown kinds of elements.
fn element(key: &str) -> Option<Option<Element>> {
    let (kind, text) = key.split_at_checked(2)?;
    if !kind.ends_with(':') {
        return None;
    }
    Some(Some(match kind {
        "f:" => Element::field(text),
        "v:" => Element::Value(atom(&serde_json::from_str(text).ok()?)?),
        "i:" => Element::Index(text.parse().ok()?),
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(text).ok()?;
            let mut pairs = Vec::with_capacity(keys.len());
            for (name, value) in &keys {
                pairs.push((name.as_str().into(), atom(value)?));
            }
            pairs.sort();
            Element::Key(pairs.into())
        }
        _ => return Some(None),
    }))
}

/// Converts a scalar; `None` for lists and objects.
pub(crate) fn atom(value: &Value) -> Option<Atom> {
    Some(match value {
        Value::Null => Atom::Null,
        Value::Bool(value) => Atom::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(int) => Atom::Int(int),
            None => Atom::Float(number.as_f64()?.to_bits()),
        },
        Value::String(text) => Atom::Text(text.as_str().into()),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// Writes a set.
pub(crate) fn print(set: &Set) -> Value {
    Value::Object(write(set, false))
}

fn write(set: &Set, member: bool) -> Map<String, Value> {
    let mut map = Map::new();
    if member && !set.is_empty() {
        map.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for node in set.nodes() {
        map.insert(key(&node.element), Value::Object(write(&node.below, node.member)));
    }
    map
}

fn key(element: &Element) -> String {
    match element {
        Element::Field(name) => {
            // By far the most common case, so it avoids the formatting machinery.
            let mut text = String::with_capacity(name.len() + 2);
            text.push_str("f:");
            text.push_str(name);
            text
        }
        Element::Value(atom) => format!("v:{}", value(atom)),
        Element::Index(index) => format!("i:{index}"),
        Element::Key(pairs) => {
            let mut text = String::from("k:{");
            for (i, (name, atom)) in pairs.iter().enumerate() {
                let comma = if i == 0 { "" } else { "," };
                text.push_str(&format!("{comma}{}:{}", Value::from(&**name), value(atom)));
            }
            text.push('}');
            text
        }
    }
}

fn value(atom: &Atom) -> Value {
    match atom {
        Atom::Int(int) => (*int).into(),
        Atom::Float(bits) => Number::from_f64(f64::from_bits(*bits)).map_or(Value::Null, Value::Number),
        Atom::Text(text) => Value::from(&**text),
        Atom::Bool(value) => (*value).into(),
        Atom::Null => Value::Null,
    }
}

/// Formats a step for messages: `.name`, `[name="a",port=80]`, `[="x"]`, `[0]`.
pub(crate) fn step_text(element: &Element) -> String {
    match element {
        Element::Field(name) => format!(".{name}"),
        Element::Value(atom) => format!("[={}]", value(atom)),
        Element::Index(index) => format!("[{index}]"),
        Element::Key(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(name, atom)| format!("{name}={}", value(atom))).collect();
            format!("[{}]", pairs.join(","))
        }
    }
}

/// Formats a path for messages: `.spec.containers[name="a"].image`.
pub(crate) fn path_text(path: &[&Element]) -> String {
    path.iter().map(|element| step_text(element)).collect()
}
