//! The structure of API types: the one description that decoding, field validation,
//! patches and the OpenAPI documents share, so that they cannot diverge.
//!
//! The structure comes from the JSON schemas of `k8s-openapi`; what those schemas do not contain
//! (which empty values upstream omits, merge keys, list types, protobuf field numbers) comes
//! from the tables in [`crate::facts`].

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde_json::Value;

/// A map by names that are compiled in or come from a definition. Each field of each object is looked up in one, so the hash is a fast one.
pub type ByName<T> = HashMap<String, T, RandomState>;
/// A map by protobuf field numbers.
pub type ByNumber<T> = HashMap<u32, T, RandomState>;

/// Index of a [`StructType`] in [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(pub(crate) u32);

/// All struct types that are reachable from the kinds, with every reference resolved.
#[derive(Debug, Default)]
pub struct Types {
    pub(crate) arena: Vec<StructType>,
    pub(crate) by_name: ByName<TypeId>,
}

impl Types {
    /// The type with this schema name, such as `io.k8s.api.core.v1.Pod`.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// The type with this id. Only this arena creates ids, so the lookup cannot fail.
    pub fn get(&self, id: TypeId) -> &StructType {
        &self.arena[id.0 as usize]
    }

    /// Every type, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &StructType> {
        self.arena.iter()
    }
}

/// A struct: named fields, and no others unless it is open.
#[derive(Debug)]
pub struct StructType {
    /// Schema name, such as `io.k8s.api.core.v1.Container`.
    pub name: String,
    /// The last part of the name, such as `Container`, for error messages.
    pub short_name: String,
    /// A description of the type, one paragraph, for `explain`.
    pub description: String,
    /// Fields by name.
    pub fields: ByName<Field>,
    /// The field names in a fixed (alphabetical) order.
    pub order: Vec<String>,
    /// The names of the [`Presence::Always`] fields, in alphabetical order.
    pub always: Vec<String>,
    /// Whether server-side apply owns values of this type as a whole.
    pub atomic: bool,
    /// The meaning of the type's protobuf field numbers.
    pub numbers: ByNumber<Numbered>,
    /// Whether undeclared fields are retained, as values of [`Shape::Deduced`].
    pub open: bool,
}

/// The meaning of a protobuf field number.
#[derive(Clone, Debug)]
pub enum Numbered {
    /// The field with this JSON name.
    Field(String),
    /// A nested message whose fields are in the type itself in JSON; by number within the message.
    Inline(ByNumber<Numbered>),
}

impl StructType {
    /// The field with this (case-sensitive) name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// The shape and merge rules of the field with this name: a declared field, or an undeclared one of an
    /// open struct.
    pub fn member(&self, name: &str) -> Option<(&Shape, Option<&Merge>)> {
        match self.fields.get(name) {
            Some(field) => Some((&field.shape, Some(&field.merge))),
            None if self.open => Some((&Shape::Deduced, None)),
            None => None,
        }
    }
}

/// One field of a struct.
#[derive(Debug)]
pub struct Field {
    /// JSON name.
    pub name: String,
    /// The shape of its value.
    pub shape: Shape,
    /// How an empty value is serialized.
    pub presence: Presence,
    /// For [`Presence::Always`]: whether the zero value is written as `null`.
    pub nullable: bool,
    /// How patches merge it if it is a list or a map.
    pub merge: Merge,
    /// Protobuf field number, if any; `kind` and `apiVersion` have none. For a field
    /// in a nested protobuf message, the number within that message (see [`StructType::numbers`]).
    pub number: Option<u32>,
    /// A description of the field.
    pub description: String,
    /// Whether the published schema marks it as required.
    pub required: bool,
    /// The default value, if the schema has one (custom kinds).
    pub default: Option<Value>,
}

/// The shape of a value.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A struct.
    Struct(TypeId),
    /// An object with arbitrary keys and values of one shape.
    Map(Box<Shape>),
    /// A list of values of one shape.
    List(Box<Shape>),
    /// A scalar.
    Scalar(Scalar),
    /// Any JSON (`RawExtension`, `FieldsV1`).
    Json,
    /// A struct, a list of such structs, or another type (`JSONSchemaPropsOrArray` and similar types).
    Either(TypeId),
    /// A struct that only this field uses: those of custom kinds are not in the arena.
    Inline(Arc<StructType>),
    /// Any JSON; server-side apply derives the ownership from the value: objects key by key, all other values as a
    /// whole.
    Deduced,
}

/// The scalars of the wire format (upstream: the types and their `UnmarshalJSON`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string.
    String,
    /// Padded standard base64.
    Bytes,
    /// `true` or `false`.
    Bool,
    /// 32 bit integer.
    Int32,
    /// 64 bit integer.
    Int64,
    /// Any number.
    Float,
    /// A quantity such as `5Gi`; read from a string or number, written as a canonical string.
    Quantity,
    /// An int32 or a string.
    IntOrString,
    /// RFC 3339 with whole seconds.
    Time,
    /// RFC 3339 with exactly six decimals.
    MicroTime,
}

/// How an empty value (`""`, `0`, `false`, `{}`, `[]`, `null`, absent) is serialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Omitted if empty: a plain field with `omitempty`. The most common case.
    OmitEmpty,
    /// Written if set, even if it is zero; omitted only if `null` or absent: a pointer.
    Pointer,
    /// Always written, as its zero value (`""`, `0`, `false`, `{}`, or `null` for lists, maps and
    /// times) if it is empty or absent.
    Always,
}

/// How strategic merge and server-side apply treat a list or map field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// Strategic merge patch.
    pub strategic: Strategic,
    /// With `retainKeys`, a patch drops the keys that it does not list.
    pub retain_keys: bool,
    /// Server-side apply list type; `None` for fields that are not lists.
    pub list_type: Option<ListType>,
    /// Server-side apply owns the whole map.
    pub atomic_map: bool,
    /// Server-side apply owns this field's members separately although its type is atomic.
    pub granular: bool,
}

/// Strategic merge of a list field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Strategic {
    /// The patch's list replaces the current one.
    #[default]
    Replace,
    /// A list of objects, merged by this key.
    MergeBy(String),
    /// A list of scalars, merged as a set.
    MergeSet,
}

/// Server-side apply list types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Owned as a whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// A list whose items are identified by these keys.
    Map(Vec<String>),
}
