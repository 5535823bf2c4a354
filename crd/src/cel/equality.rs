//! Whether two values are equal. Comparisons pay for what they compare, as far as their call has not paid for it: the
//! same values may be compared many times.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::Val;
use super::cost::{Meter, Result};
use super::value::{member_schema, url_len};
use crate::schema::Items;

impl<'v> Val<'v> {
    /// Whether two values are equal. Numbers are compared regardless of their types.
    pub(super) fn equals(&self, other: &Val<'v>, meter: &mut Meter) -> Result<bool> {
        meter.work(1)?;
        if let Some(order) = self.number_order(other) {
            return Ok(order == Some(Ordering::Equal));
        }
        match (self, other) {
            (Val::Null, Val::Null) => Ok(true),
            (Val::Bool(a), Val::Bool(b)) => Ok(a == b),
            (Val::Text(a), Val::Text(b)) => same_bytes(a.as_bytes(), b.as_bytes(), meter),
            (Val::Bytes(a), Val::Bytes(b)) => same_bytes(a, b, meter),
            (Val::Time(a), Val::Time(b)) => Ok(a == b),
            (Val::Span(a), Val::Span(b)) => Ok(a == b),
            (Val::Type(a), Val::Type(b)) => Ok(a == b),
            (Val::Quantity(a), Val::Quantity(b)) => Ok(a == b),
            (Val::Url(a), Val::Url(b)) => {
                meter.work(url_len(a).min(url_len(b)) as u64 / 16)?;
                Ok(a == b)
            }
            (Val::Ip(a), Val::Ip(b)) => Ok(a == b),
            (Val::Cidr(a, n), Val::Cidr(b, m)) => Ok(a == b && n == m),
            (Val::Semver(a), Val::Semver(b)) => Ok(a == b),
            (Val::Format(a), Val::Format(b)) => Ok(a == b),
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (None, None) => Ok(true),
                (Some(a), Some(b)) => a.equals(b, meter),
                (None, Some(_)) | (Some(_), None) => Ok(false),
            },
            (a, b) if a.list_len().is_some() => {
                if a.list_len() != b.list_len() {
                    return Ok(false);
                }
                Ok(same_items(a, b, meter)? || is_set(a) && is_set(b) && same_set(a, b, meter)?)
            }
            (a, b) if a.map_len().is_some() => Ok(a.map_len() == b.map_len() && same_members(a, b, meter)?),
            _ => Ok(false),
        }
    }
}

fn same_bytes(a: &[u8], b: &[u8], meter: &mut Meter) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    meter.work(a.len() as u64 / 16)?;
    Ok(a == b)
}

fn same_items<'v>(a: &Val<'v>, b: &Val<'v>, meter: &mut Meter) -> Result<bool> {
    for at in 0..a.list_len().unwrap_or_default() {
        let (Some(x), Some(y)) = (a.item(at, meter)?, b.item(at, meter)?) else { return Ok(false) };
        if !x.equals(&y, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_members<'v>(a: &Val<'v>, b: &Val<'v>, meter: &mut Meter) -> Result<bool> {
    match a {
        Val::Map(pairs) => {
            for (key, value) in pairs.iter() {
                if !has_member(b, key, value, meter)? {
                    return Ok(false);
                }
            }
        }
        Val::Json(Value::Object(map), schema) => {
            for (name, value) in map {
                let value = Val::read(value, member_schema(*schema, name), meter)?;
                if !has_member(b, &Val::borrowed(name), &value, meter)? {
                    return Ok(false);
                }
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn has_member<'v>(map: &Val<'v>, key: &Val<'v>, value: &Val<'v>, meter: &mut Meter) -> Result<bool> {
    match map.get(key, meter)? {
        Some(other) => value.equals(&other, meter),
        None => Ok(false),
    }
}

/// Whether the schema of a list declares a set or a map: two of them are equal in any order.
fn is_set(list: &Val<'_>) -> bool {
    matches!(list, Val::Json(_, Some(schema)) if schema.list != Items::Atomic)
}

/// Whether two lists have the same items in any order.
fn same_set<'v>(a: &Val<'v>, b: &Val<'v>, meter: &mut Meter) -> Result<bool> {
    let (a, b) = (with_digests(a, meter)?, with_digests(b, meter)?);
    Ok(has_all(&a, &b, meter)? && has_all(&b, &a, meter)?)
}

fn with_digests<'v>(list: &Val<'v>, meter: &mut Meter) -> Result<Vec<(u64, Val<'v>)>> {
    meter.work(list.weight())?;
    Ok(list.items().unwrap_or_default().into_iter().map(|item| (digest(&item), item)).collect())
}

fn has_all<'v>(all: &[(u64, Val<'v>)], some: &[(u64, Val<'v>)], meter: &mut Meter) -> Result<bool> {
    let mut known: HashMap<u64, Vec<&Val<'v>>> = HashMap::new();
    for (digest, item) in all {
        known.entry(*digest).or_default().push(item);
    }
    for (digest, item) in some {
        let mut found = false;
        for other in known.get(digest).into_iter().flatten() {
            found = item.equals(other, meter)?;
            if found {
                break;
            }
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a number that equal values have in common.
#[allow(clippy::cast_precision_loss)]
fn digest(value: &Val<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Equal numbers of different types are equal as floats, too.
    let mut number = |number: f64| (0_u8, (number + 0.0).to_bits()).hash(&mut hasher);
    match value {
        Val::Int(n) => number(*n as f64),
        Val::Uint(n) => number(*n as f64),
        Val::Double(n) => number(*n),
        Val::Bool(flag) => (1_u8, flag).hash(&mut hasher),
        Val::Text(text) => (2_u8, text.as_bytes()).hash(&mut hasher),
        Val::Bytes(bytes) => (3_u8, bytes).hash(&mut hasher),
        Val::Time(time) => (4_u8, time).hash(&mut hasher),
        Val::Span(span) => (5_u8, span).hash(&mut hasher),
        // The order does not matter, because an item may be a set again.
        Val::Json(Value::Array(list), schema) => {
            let items = schema.and_then(|schema| schema.items.as_deref());
            let sum = list.iter().fold(0_u64, |sum, item| sum.wrapping_add(digest(&Val::of(item, items))));
            (6_u8, list.len(), sum).hash(&mut hasher);
        }
        Val::Json(Value::Object(map), schema) => {
            for (name, value) in map {
                name.hash(&mut hasher);
                digest(&Val::of(value, member_schema(*schema, name))).hash(&mut hasher);
            }
        }
        _ => {}
    }
    hasher.finish()
}
