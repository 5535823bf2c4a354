//! The sizes of values that a schema declares.
//!
//! Upstream: apiserver `pkg/cel/common/schemas.go`.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use serde_json::Value;

use super::kind::Kind;
use crate::program::escape;
use crate::schema::{Schema, Type};

/// The size of the largest request, bytes.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;
/// Sizes of JSON texts, bytes.
const MIN_TEXT: u64 = 2;
const MIN_BOOL: u64 = 4;
const MIN_NUMBER: u64 = 1;
const MIN_DURATION: u64 = 3;
const MAX_DURATION: u64 = 32;
const DATE: u64 = 12;
const MIN_TIME: u64 = 21;
const MAX_TIME: u64 = 32;
/// The members that every object has.
const OBJECT_META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The declared type of a value.
#[derive(Debug)]
pub(crate) struct Decl {
    pub(super) kind: Kind,
    /// The size of the largest value: bytes of a text, entries of a list or map; 0 for other values.
    pub(super) max_elements: u64,
    /// The length of the shortest JSON of a value.
    min_bytes: u64,
    /// The items of a list, or the values of a map.
    element: Option<Rc<Decl>>,
    /// The members of an object, by the names that expressions use.
    fields: BTreeMap<String, Rc<Decl>>,
}

impl Decl {
    fn plain(kind: Kind, min_bytes: u64, max_elements: u64) -> Self {
        Decl { kind, max_elements, min_bytes, element: None, fields: BTreeMap::new() }
    }

    /// The declaration of a value; `None` if expressions cannot use it. The root of an object, and an embedded object, have
    /// `apiVersion`, `kind` and the names in `metadata` even if the schema does not declare them.
    pub(crate) fn of(schema: &Schema, is_root: bool) -> Option<Self> {
        let limits = &schema.limits;
        let text_length = || limits.max_length.map(|length| length.saturating_mul(4));
        if schema.int_or_string {
            return Some(Decl::plain(Kind::Dyn, 1, text_length().unwrap_or(MAX_REQUEST - 2)));
        }
        match schema.ty {
            Type::Any => None,
            Type::Boolean => Some(Decl::plain(Kind::Bool, MIN_BOOL, 0)),
            Type::Number => Some(Decl::plain(Kind::Double, MIN_NUMBER, 0)),
            Type::Integer => Some(Decl::plain(Kind::Int, MIN_NUMBER, 0)),
            Type::String => Some(match limits.format.as_str() {
                "byte" => {
                    let length = limits.max_length.unwrap_or(MAX_REQUEST - 2);
                    Decl::plain(Kind::Bytes, MIN_TEXT, length)
                }
                "duration" => Decl::plain(Kind::Duration, MIN_DURATION, MAX_DURATION),
                "date" => Decl::plain(Kind::Timestamp, DATE, DATE),
                "date-time" => Decl::plain(Kind::Timestamp, MIN_TIME, MAX_TIME),
                _ => {
                    let longest = limits.allowed.iter().filter_map(Value::as_str).map(str::len).max();
                    let listed = || longest.map(|length| u64::try_from(length).unwrap_or(u64::MAX));
                    Decl::plain(
                        Kind::Text,
                        MIN_TEXT,
                        text_length().or_else(listed).unwrap_or(MAX_REQUEST - 2),
                    )
                }
            }),
            Type::Array => {
                let items = schema.items.as_deref()?;
                let element = Decl::of(items, items.embedded)?;
                let most = limits.max_items.unwrap_or((MAX_REQUEST - 2) / (element.min_bytes + 1));
                Some(Decl { element: Some(Rc::new(element)), ..Decl::plain(Kind::List, MIN_TEXT, most) })
            }
            Type::Object => match schema.additional.as_deref().filter(|values| !is_anything(values)) {
                Some(values) => {
                    let element = Decl::of(values, values.embedded)?;
                    let most = limits.max_properties.unwrap_or((MAX_REQUEST - 2) / (element.min_bytes + 6));
                    Some(Decl { element: Some(Rc::new(element)), ..Decl::plain(Kind::Map, MIN_TEXT, most) })
                }
                None => Some(Decl::of_object(schema, is_root)),
            },
        }
    }

    fn of_object(schema: &Schema, is_root: bool) -> Self {
        let is_implied = |name: &str| is_root && OBJECT_META.contains(&name) && !declares_metadata(schema);
        let own =
            schema.properties.iter().filter(|(name, _)| !is_implied(name)).filter_map(|(name, property)| {
                let field = Decl::of(property, property.embedded)?;
                Some((name.as_str(), field, property.default.is_some()))
            });
        let implied = OBJECT_META.into_iter().filter(|name| is_implied(name));
        let implied = implied.map(|name| (name, Decl::implied(name), false));
        let required: HashSet<&str> = schema.limits.required.iter().map(String::as_str).collect();
        let mut fields = BTreeMap::new();
        let mut min_bytes = MIN_TEXT;
        for (name, field, has_default) in own.chain(implied) {
            // Missing members that have a default are added by the server.
            if !has_default && required.contains(name) {
                min_bytes += u64::try_from(name.len()).unwrap_or(u64::MAX) + field.min_bytes + 4;
            }
            fields.insert(escape(name).into_owned(), Rc::new(field));
        }
        Decl { fields, ..Decl::plain(Kind::Object, min_bytes, 0) }
    }

    /// The declaration of `apiVersion`, `kind` or `metadata` that replaces those of the schema.
    fn implied(name: &str) -> Self {
        let text = || Decl::plain(Kind::Text, MIN_TEXT, MAX_REQUEST - 2);
        if name != "metadata" {
            return text();
        }
        let names = ["name", "generateName"].map(|name| (name.to_owned(), Rc::new(text())));
        Decl { fields: names.into_iter().collect(), ..Decl::plain(Kind::Object, MIN_TEXT, 0) }
    }

    /// The declaration of a member of an object.
    pub(super) fn field(&self, name: &str) -> Option<Rc<Decl>> {
        self.fields.get(name).cloned()
    }

    /// The declaration of the member of an object with that name in JSON.
    pub(crate) fn property(&self, name: &str) -> Option<Rc<Decl>> {
        self.fields.get(escape(name).as_ref()).cloned()
    }

    /// The declaration of the items of a list, or of the values of a map.
    pub(crate) fn element(&self) -> Option<Rc<Decl>> {
        self.element.clone()
    }

    /// The declaration of the keys of a map. Upstream counts no characters of them.
    pub(super) fn key(&self) -> Option<Rc<Decl>> {
        (self.kind == Kind::Map).then(|| Rc::new(Decl::plain(Kind::Text, MIN_TEXT, 0)))
    }

    /// The most values of this type that an object can contain.
    pub(crate) fn max_cardinality(&self) -> u64 {
        MAX_REQUEST / (self.min_bytes + 1)
    }
}

/// Whether the schema declares the type and the names of an object. Upstream replaces partial declarations.
fn declares_metadata(schema: &Schema) -> bool {
    let is = |schema: &Schema, name: &str, ty: Type| {
        schema.properties.get(name).is_some_and(|found| found.ty == ty)
    };
    let names =
        |metadata: &Schema| ["name", "generateName"].iter().all(|name| is(metadata, name, Type::String));
    ["apiVersion", "kind"].iter().all(|name| is(schema, name, Type::String))
        && schema.properties.get("metadata").is_some_and(|found| found.ty == Type::Object && names(found))
}

/// Whether it is the schema of `additionalProperties: true`.
fn is_anything(values: &Schema) -> bool {
    values.ty == Type::Any && !values.preserve && !values.int_or_string
}
