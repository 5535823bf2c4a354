//! What a value of an API type looks like: the one description that decoding, field validation,
//! patches and the OpenAPI documents share, so that they cannot drift apart.
//!
//! The structure comes from the JSON schemas of `k8s-openapi`; what those schemas do not say
//! (which empty values upstream leaves out, merge keys, list types, protobuf field numbers) comes
//! from the tables in [`crate::facts`].

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// Index of a [`StructType`] in [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(pub(crate) u32);

/// All struct types that are reachable from the kinds, with every reference resolved.
#[derive(Debug, Default)]
pub struct Types {
    pub(crate) arena: Vec<StructType>,
    pub(crate) by_name: HashMap<String, TypeId>,
}

impl Types {
    /// The type of that schema name, such as `io.k8s.api.core.v1.Pod`.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// The type behind an id. Ids are only made by this arena, so the lookup cannot miss.
    pub fn get(&self, id: TypeId) -> &StructType {
        &self.arena[id.0 as usize]
    }

    /// Every type, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &StructType> {
        self.arena.iter()
    }
}

/// A struct: named fields, and nothing else allowed unless it is open.
#[derive(Debug)]
pub struct StructType {
    /// Schema name, such as `io.k8s.api.core.v1.Container`.
    pub name: String,
    /// The last part of the name, such as `Container`; error texts show it.
    pub short_name: String,
    /// What the type is for, one paragraph, for `explain`.
    pub description: String,
    /// Fields by name.
    pub fields: HashMap<String, Field>,
    /// The field names in a fixed (alphabetical) order.
    pub order: Vec<String>,
    /// Names of the fields of [`Presence::Always`], in alphabetical order.
    pub always: Vec<String>,
    /// Whether server-side apply owns values of this type as a whole.
    pub atomic: bool,
    /// What the protobuf field numbers of the type mean.
    pub numbers: HashMap<u32, Numbered>,
    /// Whether members that are no fields are kept, as values of [`Shape::Deduced`].
    pub open: bool,
}

/// What a protobuf field number stands for.
#[derive(Clone, Debug)]
pub enum Numbered {
    /// The field of that JSON name.
    Field(String),
    /// A nested message whose fields JSON has in the type itself; by number within the message.
    Inline(HashMap<u32, String>),
}

impl StructType {
    /// The field of that (case-sensitive) name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// What a member of that name holds, and how patches treat it: a field, or what an open struct
    /// takes besides its fields.
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
    /// What it holds.
    pub shape: Shape,
    /// What an empty value of it becomes on the wire.
    pub presence: Presence,
    /// For [`Presence::Always`]: the zero value that is written is `null`.
    pub nullable: bool,
    /// How patches treat it when it is a list or a map.
    pub merge: Merge,
    /// Protobuf field number, where there is one; `kind` and `apiVersion` have none. For a field
    /// that protobuf keeps in a nested message, the number there (see [`StructType::numbers`]).
    pub number: Option<u32>,
    /// What the field is for.
    pub description: String,
    /// Whether the published schema calls it required.
    pub required: bool,
    /// What the field is when it is left out, where the schema says so (custom kinds).
    pub default: Option<Value>,
}

/// The shape of a value.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A struct.
    Struct(TypeId),
    /// An object with free keys and values of one shape.
    Map(Box<Shape>),
    /// A list of values of one shape.
    List(Box<Shape>),
    /// One of the scalar forms.
    Scalar(Scalar),
    /// Any JSON (`RawExtension`, `FieldsV1`).
    Json,
    /// A struct, a list of such, or something else (`JSONSchemaPropsOrArray` and its like).
    Either(TypeId),
    /// A struct that belongs to this place alone: those of custom kinds are in no arena.
    Inline(Arc<StructType>),
    /// Any JSON, that server-side apply owns by what it is: objects key by key, all else as a whole.
    Deduced,
}

/// The scalar forms on the wire (upstream: the types and their `UnmarshalJSON`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
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
    /// A quantity such as `5Gi`; string or number in, canonical string out.
    Quantity,
    /// An int32 or a string.
    IntOrString,
    /// RFC 3339 with whole seconds.
    Time,
    /// RFC 3339 with exactly six decimals.
    MicroTime,
}

/// What happens to an empty value (`""`, `0`, `false`, `{}`, `[]`, `null`, absent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Left out when empty: a plain field with `omitempty`. The common case.
    OmitEmpty,
    /// Kept when given, even when it is zero; only `null` and absence leave it out: a pointer.
    Pointer,
    /// Always written, as its zero value (`""`, `0`, `false`, `{}`, or `null` for lists, maps and
    /// times) when it is empty or absent.
    Always,
}

/// How strategic merge and server-side apply treat a list or map field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// Strategic merge patch.
    pub strategic: Strategic,
    /// The values of a map given with `retainKeys` are dropped when not listed.
    pub retain_keys: bool,
    /// Server-side apply list type; `None` for fields that are no lists.
    pub list_type: Option<ListType>,
    /// Server-side apply owns the whole map.
    pub atomic_map: bool,
    /// Server-side apply owns this field's members one by one although its type is atomic.
    pub granular: bool,
}

/// Strategic merge of a list field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Strategic {
    /// The patch's list takes the place of the live one.
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
    /// Items are told apart by these keys.
    Map(Vec<String>),
}
