//! Values of expressions: JSON, typed by its schema, and computed values.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use orlop_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::schema::{Schema, Type};

/// A value. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Val<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
    List(Rc<Vec<Val<'v>>>),
    /// Pairs in the order of the expression.
    Map(Rc<Vec<(Val<'v>, Val<'v>)>>),
    /// An object or list of the document, with its schema if known.
    Json(&'v Value, Option<&'v Schema>),
    Time(Timestamp),
    Span(SignedDuration),
    Optional(Option<Rc<Val<'v>>>),
    Quantity(Quantity),
    Url(Rc<http::Uri>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Type(&'static str),
}

impl<'v> Val<'v> {
    pub(crate) fn text(text: &str) -> Self {
        Val::Text(text.into())
    }

    /// Converts a JSON value to the type that its schema declares.
    pub(crate) fn of(value: &'v Value, schema: Option<&'v Schema>) -> Self {
        let ty = schema.map_or(Type::Any, |schema| schema.ty);
        match value {
            Value::Null => Val::Null,
            Value::Bool(flag) => Val::Bool(*flag),
            Value::Number(number) => match (ty, number.as_i64()) {
                (Type::Number, _) => Val::Double(number.as_f64().unwrap_or_default()),
                (_, Some(number)) => Val::Int(number),
                // An integer written with a decimal point.
                #[allow(clippy::cast_possible_truncation)]
                (Type::Integer, None) => Val::Int(number.as_f64().unwrap_or_default() as i64),
                (_, None) => Val::Double(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Val::of_text(text, schema),
            Value::Array(_) | Value::Object(_) => Val::Json(value, schema),
        }
    }

    fn of_text(text: &str, schema: Option<&Schema>) -> Self {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        let made = match schema.map_or("", |schema| schema.limits.format.as_str()) {
            "date-time" => text.parse().ok().map(Val::Time),
            "date" => format!("{text}T00:00:00Z").parse().ok().map(Val::Time),
            "duration" => super::functions::span(text).map(Val::Span),
            "byte" => STANDARD.decode(text).ok().map(|bytes| Val::Bytes(bytes.into())),
            _ => None,
        };
        made.unwrap_or_else(|| Val::text(text))
    }

    /// Returns the name of the value's type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Text(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::List(_) | Val::Json(Value::Array(_), _) => "list",
            Val::Map(_) | Val::Json(..) => "map",
            Val::Time(_) => "google.protobuf.Timestamp",
            Val::Span(_) => "google.protobuf.Duration",
            Val::Optional(_) => "optional_type",
            Val::Quantity(_) => "kubernetes.Quantity",
            Val::Url(_) => "kubernetes.URL",
            Val::Ip(_) => "net.IP",
            Val::Cidr(..) => "net.CIDR",
            Val::Type(_) => "type",
        }
    }

    /// Returns the items of a list.
    pub(super) fn items(&self) -> Option<Vec<Val<'v>>> {
        match self {
            Val::List(list) => Some(list.as_ref().clone()),
            Val::Json(Value::Array(list), schema) => {
                let items = schema.and_then(|schema| schema.items.as_deref());
                Some(list.iter().map(|item| Val::of(item, items)).collect())
            }
            _ => None,
        }
    }

    /// Returns the keys of a map.
    pub(super) fn keys(&self) -> Option<Vec<Val<'v>>> {
        match self {
            Val::Map(pairs) => Some(pairs.iter().map(|(key, _)| key.clone()).collect()),
            Val::Json(Value::Object(map), _) => Some(map.keys().map(|key| Val::text(key)).collect()),
            _ => None,
        }
    }

    /// Returns the number of items, members, characters or bytes.
    pub(super) fn size(&self) -> Option<usize> {
        match self {
            Val::Text(text) => Some(text.chars().count()),
            Val::Bytes(bytes) => Some(bytes.len()),
            Val::List(list) => Some(list.len()),
            Val::Map(pairs) => Some(pairs.len()),
            Val::Json(Value::Array(list), _) => Some(list.len()),
            Val::Json(Value::Object(map), _) => Some(map.len()),
            _ => None,
        }
    }

    /// Returns a member of a map by its key.
    pub(super) fn get(&self, key: &Val<'v>) -> Option<Val<'v>> {
        match (self, key) {
            (Val::Map(pairs), key) => {
                pairs.iter().find(|(known, _)| known.equals(key)).map(|(_, value)| value.clone())
            }
            (Val::Json(value @ Value::Object(_), schema), Val::Text(name)) => {
                let found = value.get(name.as_ref())?;
                let schema = schema
                    .and_then(|schema| schema.properties.get(name.as_ref()).or(schema.additional.as_deref()));
                Some(Val::of(found, schema))
            }
            _ => None,
        }
    }

    /// Returns a member of an object by its name in expressions.
    pub(super) fn field(&self, name: &str) -> Option<Val<'v>> {
        let is_map = match self {
            Val::Json(_, Some(schema)) => schema.additional.is_some(),
            _ => true,
        };
        let found = if is_map { None } else { self.get(&Val::text(&crate::program::unescape(name))) };
        found.or_else(|| self.get(&Val::text(name)))
    }

    /// Returns the approximate size, which is the cost of comparing or copying the value.
    pub(super) fn weight(&self) -> u64 {
        match self {
            Val::Text(text) => 1 + text.len() as u64 / 16,
            Val::Bytes(bytes) => 1 + bytes.len() as u64 / 16,
            Val::List(list) => 1 + list.iter().map(Val::weight).sum::<u64>(),
            Val::Map(pairs) => {
                1 + pairs.iter().map(|(key, value)| key.weight() + value.weight()).sum::<u64>()
            }
            Val::Json(value, _) => json_weight(value),
            Val::Optional(Some(value)) => 1 + value.weight(),
            _ => 1,
        }
    }

    /// Whether two values are equal. Numbers are compared regardless of their types.
    pub(super) fn equals(&self, other: &Val<'v>) -> bool {
        if let Some(order) = self.number_order(other) {
            return order == Some(Ordering::Equal);
        }
        match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Text(a), Val::Text(b)) => a == b,
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Time(a), Val::Time(b)) => a == b,
            (Val::Span(a), Val::Span(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Quantity(a), Val::Quantity(b)) => a == b,
            (Val::Url(a), Val::Url(b)) => a == b,
            (Val::Ip(a), Val::Ip(b)) => a == b,
            (Val::Cidr(a, n), Val::Cidr(b, m)) => a == b && n == m,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => a.equals(b),
                (None, Some(_)) | (Some(_), None) => false,
            },
            (a, b) => match (a.items(), b.items(), a.keys(), b.keys()) {
                (Some(x), Some(y), _, _) => {
                    let ordered = |x: &[Val<'v>], y: &[Val<'v>]| x.iter().zip(y).all(|(x, y)| x.equals(y));
                    x.len() == y.len() && (ordered(&x, &y) || is_set(a, b) && same_set(&x, &y))
                }
                (_, _, Some(keys), Some(others)) => {
                    keys.len() == others.len()
                        && keys.iter().all(|key| match (a.get(key), b.get(key)) {
                            (Some(x), Some(y)) => x.equals(&y),
                            _ => false,
                        })
                }
                _ => false,
            },
        }
    }

    /// Returns the order of two values, if they are ordered.
    pub(super) fn order(&self, other: &Val<'v>) -> Option<Ordering> {
        if let Some(order) = self.number_order(other) {
            return order;
        }
        match (self, other) {
            (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
            (Val::Text(a), Val::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
            (Val::Time(a), Val::Time(b)) => Some(a.cmp(b)),
            (Val::Span(a), Val::Span(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// Compares two numbers; `None` if one is not a number. The inner `None` means that they have no order (NaN).
    #[allow(clippy::cast_precision_loss)]
    fn number_order(&self, other: &Val<'v>) -> Option<Option<Ordering>> {
        let whole = |value: &Val<'_>| match value {
            Val::Int(n) => Some(i128::from(*n)),
            Val::Uint(n) => Some(i128::from(*n)),
            _ => None,
        };
        let real = |value: &Val<'_>| match value {
            Val::Double(n) => Some(*n),
            value => whole(value).map(|n| n as f64),
        };
        match (whole(self), whole(other)) {
            (Some(a), Some(b)) => Some(Some(a.cmp(&b))),
            _ => Some(real(self)?.partial_cmp(&real(other)?)),
        }
    }
}

/// Whether the schemas of both lists declare sets or maps, which are equal in any order.
fn is_set(a: &Val<'_>, b: &Val<'_>) -> bool {
    use crate::schema::Items;
    let of = |value: &Val<'_>| matches!(value, Val::Json(_, Some(schema)) if schema.list != Items::Atomic);
    of(a) && of(b)
}

fn same_set(a: &[Val<'_>], b: &[Val<'_>]) -> bool {
    a.iter().all(|x| b.iter().any(|y| x.equals(y))) && b.iter().all(|x| a.iter().any(|y| x.equals(y)))
}

fn json_weight(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() as u64 / 16,
        Value::Array(list) => 1 + list.iter().map(json_weight).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(json_weight).sum::<u64>(),
    }
}
