//! Determines how a value is owned: as a whole, field by field, key by key, or item by item.
//!
//! Atomic structs, maps and lists are leaves, like scalars.

use orlop_openapi::{ListType, Merge, Presence, Scalar, Shape, StructType, types};
use serde_json::Value;

use super::fields_v1::atom;
use super::set::{Atom, Element};

/// The type of a value: its shape, and the merge rules of the enclosing field.
#[derive(Clone, Copy)]
pub(crate) struct Ty<'t> {
    pub shape: &'t Shape,
    pub merge: Option<&'t Merge>,
}

/// How values of a type are owned.
#[derive(Clone, Copy)]
pub(crate) enum Owned<'t> {
    /// As a whole.
    Whole,
    /// Field by field.
    Struct(&'t StructType),
    /// Key by key; the values have this shape.
    Map(&'t Shape),
    /// Item by item.
    List(Items<'t>),
}

/// A list of items with an identity.
#[derive(Clone, Copy)]
pub(crate) struct Items<'t> {
    pub shape: &'t Shape,
    /// The key fields; `None` for a set of scalars.
    keys: Option<&'t [String]>,
}

impl<'t> Ty<'t> {
    /// The type of a struct's member, if the member exists.
    pub(crate) fn of_member(ty: &'t StructType, name: &str) -> Option<Self> {
        ty.member(name).map(|(shape, merge)| Ty { shape, merge })
    }

    pub(crate) fn of_shape(shape: &'t Shape) -> Self {
        Ty { shape, merge: None }
    }

    pub(crate) fn owned(self) -> Owned<'t> {
        let atomic = self.merge.is_some_and(|merge| merge.atomic_map);
        let granular = self.merge.is_some_and(|merge| merge.granular);
        match self.shape {
            Shape::Struct(_) | Shape::Inline(_) => {
                let Some(ty) = struct_of(self.shape) else { return Owned::Whole };
                if (atomic || ty.atomic) && !granular { Owned::Whole } else { Owned::Struct(ty) }
            }
            // A value that is not an object is a leaf where an object is expected.
            Shape::Deduced => Owned::Map(&Shape::Deduced),
            Shape::Map(_) if atomic => Owned::Whole,
            Shape::Map(inner) => Owned::Map(inner),
            Shape::List(inner) => match self.merge.and_then(|merge| merge.list_type.as_ref()) {
                Some(ListType::Set) => Owned::List(Items { shape: inner, keys: None }),
                Some(ListType::Map(keys)) => Owned::List(Items { shape: inner, keys: Some(keys) }),
                Some(ListType::Atomic) | None => Owned::Whole,
            },
            Shape::Scalar(_) | Shape::Json | Shape::Either(_) => Owned::Whole,
        }
    }

    /// The item type of an associative list or set, whatever the type of its items.
    pub(crate) fn items(self) -> Option<Items<'t>> {
        match self.owned() {
            Owned::List(items) => Some(items),
            Owned::Whole | Owned::Struct(_) | Owned::Map(_) => None,
        }
    }
}

impl<'t> Items<'t> {
    pub(crate) fn ty(self) -> Ty<'t> {
        Ty::of_shape(self.shape)
    }

    /// Returns the identity of an item. The error describes an invalid item.
    pub(crate) fn element(self, item: &Value) -> Result<Element, String> {
        let Some(keys) = self.keys else {
            return match item {
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                item => atom(item).map(Element::Value).ok_or_else(|| {
                    "associative list without keys has an element that's a map type".to_owned()
                }),
            };
        };
        let map = match item {
            Value::Object(map) => map,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err("associative list with keys may not have non-map elements".to_owned());
            }
        };
        let mut pairs = Vec::with_capacity(keys.len());
        for key in keys {
            // A null key counts as omitted, as in the decoder: applying the same configuration twice must match the
            // stored item.
            let given = map.get(key).filter(|value| !value.is_null());
            let given = given.map(|value| atom(value).unwrap_or(Atom::Null));
            if let Some(value) = given.or_else(|| self.default(key)) {
                pairs.push((Box::from(key.as_str()), value));
            }
        }
        if pairs.is_empty() {
            let quoted: Vec<String> = keys.iter().map(|key| Value::from(key.as_str()).to_string()).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
                 default values for any key fields)",
                quoted.join(" ")
            ));
        }
        pairs.sort();
        Ok(Element::Key(pairs.into()))
    }

    /// The default of an omitted key, as in the published schemas: for protocols, and for fields that are always
    /// written.
    fn default(self, key: &str) -> Option<Atom> {
        let field = struct_of(self.shape)?.field(key)?;
        if let Some(default) = &field.default {
            return atom(default);
        }
        if matches!(self.shape, Shape::Inline(_)) {
            return None;
        }
        if key == "protocol" {
            return Some(Atom::Text("TCP".into()));
        }
        let Shape::Scalar(scalar) = field.shape else { return None };
        if field.presence != Presence::Always || field.nullable {
            return None;
        }
        match scalar {
            Scalar::String | Scalar::Bytes | Scalar::Quantity => Some(Atom::Text("".into())),
            Scalar::Bool => Some(Atom::Bool(false)),
            Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString => Some(Atom::Int(0)),
            Scalar::Float | Scalar::Time | Scalar::MicroTime => None,
        }
    }
}

/// The struct type of a shape.
pub(crate) fn struct_of(shape: &Shape) -> Option<&StructType> {
    match shape {
        Shape::Struct(id) => Some(types().get(*id)),
        Shape::Inline(ty) => Some(ty),
        Shape::Map(_)
        | Shape::List(_)
        | Shape::Scalar(_)
        | Shape::Json
        | Shape::Either(_)
        | Shape::Deduced => None,
    }
}

/// Whether a value contains no fields or items that a manager could own: it is absent, `null`, or an empty container.
pub(crate) fn is_hollow(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
    }
}
