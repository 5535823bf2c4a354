//! Values of expressions: JSON, typed by its schema, and computed values.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use orlop_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::access_question::Access;
use super::cost::{Meter, PER_RULE, Result, fail};
use super::named_format::NamedFormat;
use super::semver::Semver;
use super::text::Text;
use crate::schema::{Schema, Type};

/// Maximum nesting depth of a computed value.
const MAX_NESTING: usize = 250;

/// A value. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Val<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'v>),
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
    Semver(Rc<Semver>),
    Format(&'static NamedFormat),
    Type(&'static str),
    /// An object that the expression makes: the name of its type, and its fields.
    Made(&'v str, Rc<Vec<(&'v str, Val<'v>)>>),
    /// `variables`, whose fields are evaluated when they are used.
    Variables,
    /// A value of the functions of `authorizer`.
    Access(Rc<Access>),
}

impl<'v> Val<'v> {
    pub(crate) fn text(text: &str) -> Self {
        Val::Text(Text::Computed(text.into()))
    }

    pub(super) fn borrowed(text: &'v str) -> Self {
        Val::Text(Text::Borrowed(text))
    }

    /// Returns the cost of [`Val::of`]: the strings of some formats are decoded.
    pub(crate) fn reading_cost(value: &Value, schema: Option<&Schema>) -> u64 {
        match (value, schema) {
            (Value::String(text), Some(schema)) if !schema.limits.format.is_empty() => text.len() as u64 / 16,
            _ => 0,
        }
    }

    /// Converts a JSON value, and pays for it.
    pub(super) fn read(value: &'v Value, schema: Option<&'v Schema>, meter: &mut Meter) -> Result<Self> {
        meter.work(Val::reading_cost(value, schema))?;
        Ok(Val::of(value, schema))
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

    fn of_text(text: &'v str, schema: Option<&Schema>) -> Self {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        let made = match schema.map_or("", |schema| schema.limits.format.as_str()) {
            "date-time" => text.parse().ok().map(Val::Time),
            "date" => format!("{text}T00:00:00Z").parse().ok().map(Val::Time),
            "duration" => super::span::span(text).map(Val::Span),
            "byte" => STANDARD.decode(text).ok().map(|bytes| Val::Bytes(bytes.into())),
            _ => None,
        };
        made.unwrap_or_else(|| Val::borrowed(text))
    }

    /// Returns the name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
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
            Val::Semver(_) => "kubernetes.Semver",
            Val::Format(_) => "kubernetes.NamedFormat",
            Val::Type(_) => "type",
            Val::Made(..) => "Object",
            Val::Variables => "kubernetes.variables",
            Val::Access(access) => access.type_name(),
        }
    }

    /// Returns the items of a list. Its weight must have been paid.
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

    /// Returns the number of items of a list.
    pub(super) fn list_len(&self) -> Option<usize> {
        match self {
            Val::List(list) => Some(list.len()),
            Val::Json(Value::Array(list), _) => Some(list.len()),
            _ => None,
        }
    }

    /// Returns an item of a list.
    pub(super) fn item(&self, at: usize, meter: &mut Meter) -> Result<Option<Val<'v>>> {
        match self {
            Val::List(list) => Ok(list.get(at).cloned()),
            Val::Json(Value::Array(list), schema) => {
                let items = schema.and_then(|schema| schema.items.as_deref());
                list.get(at).map(|item| Val::read(item, items, meter)).transpose()
            }
            _ => Ok(None),
        }
    }

    /// Returns the number of members of a map.
    pub(super) fn map_len(&self) -> Option<usize> {
        match self {
            Val::Map(pairs) => Some(pairs.len()),
            Val::Json(Value::Object(map), _) => Some(map.len()),
            _ => None,
        }
    }

    /// Returns the members of a map.
    pub(super) fn members(&self, meter: &mut Meter) -> Result<Vec<(Val<'v>, Val<'v>)>> {
        match self {
            Val::Map(pairs) => Ok(pairs.as_ref().clone()),
            Val::Json(Value::Object(map), schema) => {
                let read = |(name, value): (&'v String, &'v Value)| {
                    let value = Val::read(value, member_schema(*schema, name), meter)?;
                    Ok((Val::borrowed(name), value))
                };
                map.iter().map(read).collect()
            }
            _ => fail("no such overload"),
        }
    }

    /// Returns the keys of a map; `None` if it is none.
    pub(super) fn keys(&self) -> Option<Vec<Val<'v>>> {
        match self {
            Val::Map(pairs) => Some(pairs.iter().map(|(key, _)| key.clone()).collect()),
            Val::Json(Value::Object(map), _) => Some(map.keys().map(|name| Val::borrowed(name)).collect()),
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
    pub(super) fn get(&self, key: &Val<'v>, meter: &mut Meter) -> Result<Option<Val<'v>>> {
        match (self, key) {
            (Val::Map(pairs), key) => {
                for (known, value) in pairs.iter() {
                    if known.equals(key, meter)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
            (Val::Json(Value::Object(map), schema), Val::Text(name)) => {
                meter.work(name.len() as u64 / 16)?;
                let Some(found) = map.get(name.as_ref()) else { return Ok(None) };
                Val::read(found, member_schema(*schema, name), meter).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns a member of an object by its name in expressions.
    pub(super) fn field(&self, name: &'v str, meter: &mut Meter) -> Result<Option<Val<'v>>> {
        let is_map = match self {
            Val::Json(_, Some(schema)) => schema.additional.is_some(),
            _ => true,
        };
        let property = crate::program::unescape(name);
        if !is_map && property != name {
            let found = self.get(&Val::text(&property), meter)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        self.get(&Val::borrowed(name), meter)
    }

    /// Returns the approximate size, which is the cost of comparing or copying the value. More than [`PER_RULE`] is
    /// not counted, because the parts of a computed value may be the same value many times. A value that is nested too deep weighs
    /// more than an expression may cost: the code that visits values is recursive, and variables could nest them ever deeper.
    pub(crate) fn weight(&self) -> u64 {
        let mut weight = 0;
        self.weigh(&mut weight, MAX_NESTING);
        weight
    }

    /// `levels` is the number of levels that the value may have.
    fn weigh(&self, weight: &mut u64, levels: usize) {
        if *weight > PER_RULE {
            return;
        }
        let Some(levels) = levels.checked_sub(1) else {
            *weight = PER_RULE + 1;
            return;
        };
        *weight += 1;
        match self {
            Val::Text(text) => *weight += text.len() as u64 / 16,
            Val::Bytes(bytes) => *weight += bytes.len() as u64 / 16,
            Val::Url(url) => *weight += url_len(url) as u64 / 16,
            Val::List(list) => list.iter().for_each(|item| item.weigh(weight, levels)),
            Val::Map(pairs) => pairs.iter().for_each(|(key, value)| {
                key.weigh(weight, levels);
                value.weigh(weight, levels);
            }),
            Val::Json(value, _) => {
                *weight -= 1;
                weigh_json(value, weight);
            }
            Val::Optional(Some(value)) => value.weigh(weight, levels),
            Val::Made(_, fields) => fields.iter().for_each(|(_, value)| value.weigh(weight, levels)),
            _ => {}
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
    pub(super) fn number_order(&self, other: &Val<'v>) -> Option<Option<Ordering>> {
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

/// Returns the schema of a member.
pub(super) fn member_schema<'v>(schema: Option<&'v Schema>, name: &str) -> Option<&'v Schema> {
    let schema = schema?;
    schema.properties.get(name).or(schema.additional.as_deref())
}

pub(super) fn url_len(url: &http::Uri) -> usize {
    let authority = url.authority().map_or(0, |authority| authority.as_str().len());
    authority + url.path_and_query().map_or(0, |path| path.as_str().len())
}

fn weigh_json(value: &Value, weight: &mut u64) {
    if *weight > PER_RULE {
        return;
    }
    *weight += 1;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => *weight += text.len() as u64 / 16,
        Value::Array(list) => list.iter().for_each(|item| weigh_json(item, weight)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            *weight += key.len() as u64 / 16;
            weigh_json(value, weight);
        }),
    }
}
