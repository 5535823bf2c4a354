//! CEL's standard operators and functions.

use std::cmp::Ordering;
use std::rc::Rc;

use cel::common::ast::{Expr, IdedExpr};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::cost::{Failure, Meter, Result, fail};
use super::macros::MAP_INSERT;
use super::shown::shown;
use super::span::{is_in_range, span, time};
use super::{Val, lists, patterns};

/// Whether the name is the namespace of functions with dotted names.
pub(super) fn is_namespace(name: &str) -> bool {
    matches!(name, "optional" | "sets" | "ip" | "jsonpatch" | "format" | "lists" | "strings")
}

/// Returns the type that a qualified name names: `net.IP`.
pub(super) fn type_path(expr: &IdedExpr) -> Option<&'static str> {
    let (operand, field) = selected(expr)?;
    match (&operand.expr, field) {
        (Expr::Ident(root), "IP") if root == "net" => Some("net.IP"),
        (Expr::Ident(root), "CIDR") if root == "net" => Some("net.CIDR"),
        (Expr::Select(_), _) => match (selected(operand)?, field) {
            ((IdedExpr { expr: Expr::Ident(root), .. }, "protobuf"), field) if root == "google" => {
                match field {
                    "Timestamp" => Some("google.protobuf.Timestamp"),
                    "Duration" => Some("google.protobuf.Duration"),
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    }
}

fn selected(expr: &IdedExpr) -> Option<(&IdedExpr, &str)> {
    match &expr.expr {
        Expr::Select(select) if !select.test => Some((&select.operand, &select.field)),
        _ => None,
    }
}

const KNOWN: &[&str] = &[
    "_&&_",
    "_||_",
    "!_",
    "_?_:_",
    "_+_",
    "_-_",
    "_*_",
    "_/_",
    "_%_",
    "-_",
    "_==_",
    "_!=_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "_[_]",
    "_[?_]",
    "_?._",
    "@in",
    "@not_strictly_false",
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "bool",
    "dyn",
    "type",
    "duration",
    "timestamp",
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "optional.of",
    "optional.ofNonZeroValue",
    "optional.none",
    "hasValue",
    "value",
    "or",
    "orValue",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    MAP_INSERT,
];

/// Whether this module implements a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Returns the type of that name.
pub(super) fn type_named(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 11] = [
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "bytes",
        "list",
        "map",
        "null_type",
        "optional_type",
        "type",
    ];
    NAMES.into_iter().find(|known| *known == name)
}

/// Calls a function; `None` if this module does not implement it. The receiver of a method is its first argument.
pub(super) fn call<'v>(meter: &mut Meter, name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    Some(match (name, args) {
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("_==_", [a, b]) => a.equals(b, meter).map(Val::Bool),
        ("_!=_", [a, b]) => a.equals(b, meter).map(|same| Val::Bool(!same)),
        ("_<_", [a, b]) => ordered(a, b, Ordering::is_lt),
        ("_<=_", [a, b]) => ordered(a, b, Ordering::is_le),
        ("_>_", [a, b]) => ordered(a, b, Ordering::is_gt),
        ("_>=_", [a, b]) => ordered(a, b, Ordering::is_ge),
        ("_+_", [a, b]) => add(meter, a, b),
        ("_-_", [a, b]) => subtract(a, b),
        ("_*_" | "_/_" | "_%_", [a, b]) => arithmetic(name, a, b),
        ("-_", [Val::Int(value)]) => whole(value.checked_neg()),
        ("-_", [Val::Double(value)]) => Ok(Val::Double(-value)),
        ("_[_]", [range, at]) => lists::index(meter, range, at),
        ("_[?_]", [range, at]) => {
            let range = match range {
                Val::Optional(None) => return Some(Ok(Val::Optional(None))),
                Val::Optional(Some(inner)) => inner,
                range => range,
            };
            match lists::index(meter, range, at) {
                Ok(value) => Ok(Val::Optional(Some(Rc::new(value)))),
                Err(Failure::Error(_)) => Ok(Val::Optional(None)),
                Err(too_costly) => Err(too_costly),
            }
        }
        ("@in", [value, range]) => lists::is_in(meter, value, range),
        ("size", [value]) => match value.size() {
            Some(size) => Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            None => fail("no such overload"),
        },
        ("contains", [Val::Text(text), Val::Text(part)]) => Ok(Val::Bool(text.contains(part.as_ref()))),
        ("startsWith", [Val::Text(text), Val::Text(part)]) => Ok(Val::Bool(text.starts_with(part.as_ref()))),
        ("endsWith", [Val::Text(text), Val::Text(part)]) => Ok(Val::Bool(text.ends_with(part.as_ref()))),
        ("matches", [Val::Text(text), Val::Text(pattern)]) => matches(meter, text, pattern),
        ("int" | "uint" | "double" | "string" | "bytes" | "bool", [value]) => convert(name, value),
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [value]) => Ok(Val::Type(value.type_name())),
        ("duration", [Val::Text(text)]) => match span(text) {
            Some(span) => Ok(Val::Span(span)),
            None => no_conversion("string", "google.protobuf.Duration"),
        },
        // Upstream declares this conversion, which always fails.
        ("duration", [Val::Int(_)]) => no_conversion("int", "google.protobuf.Duration"),
        ("duration", [value @ Val::Span(_)]) | ("timestamp", [value @ Val::Time(_)]) => Ok(value.clone()),
        ("timestamp", [Val::Text(text)]) => match time(text) {
            Some(time) if is_in_range(time.as_second()) => Ok(Val::Time(time)),
            Some(_) => fail("timestamp overflow"),
            None => no_conversion("string", "google.protobuf.Timestamp"),
        },
        ("timestamp", [Val::Int(seconds)]) => match Timestamp::from_second(*seconds) {
            Ok(time) if is_in_range(*seconds) => Ok(Val::Time(time)),
            Ok(_) | Err(_) => fail("timestamp overflow"),
        },
        (name, [Val::Time(time)]) if name.starts_with("get") => part(name, *time, "UTC"),
        (name, [Val::Time(time), Val::Text(zone)]) if name.starts_with("get") => part(name, *time, zone),
        (name, [Val::Span(span)]) if name.starts_with("get") => match name {
            "getHours" => Ok(Val::Int(span.as_secs() / 3600)),
            "getMinutes" => Ok(Val::Int(span.as_secs() / 60)),
            "getSeconds" => Ok(Val::Int(span.as_secs())),
            "getMilliseconds" => Ok(Val::Int(i64::from(span.subsec_millis()))),
            _ => fail("no such overload"),
        },
        ("optional.of", [value]) => Ok(Val::Optional(Some(Rc::new(value.clone())))),
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => {
            let is_zero = match value {
                Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) | Val::Optional(None) => true,
                Val::Double(value) => *value == 0.0,
                Val::Span(span) => *span == SignedDuration::ZERO,
                value => value.size() == Some(0),
            };
            Ok(Val::Optional((!is_zero).then(|| Rc::new(value.clone()))))
        }
        ("hasValue", [Val::Optional(value)]) => Ok(Val::Bool(value.is_some())),
        ("value", [Val::Optional(value)]) => match value {
            Some(value) => Ok(value.as_ref().clone()),
            None => fail("optional.none() dereference"),
        },
        ("orValue", [Val::Optional(value), other]) => {
            Ok(value.as_ref().map_or_else(|| other.clone(), |value| value.as_ref().clone()))
        }
        ("or", [value @ Val::Optional(found), other @ Val::Optional(_)]) => {
            Ok(if found.is_some() { value.clone() } else { other.clone() })
        }
        ("sets.contains" | "sets.equivalent" | "sets.intersects", [a, b]) => lists::sets(meter, name, a, b),
        // A comprehension inserts into its own map without copying it (`collect`).
        (MAP_INSERT, [Val::Map(_), ..]) => fail("no such overload"),
        _ => return None,
    })
}

fn ordered<'v>(a: &Val<'v>, b: &Val<'v>, is: impl Fn(Ordering) -> bool) -> Result<Val<'v>> {
    match (a.order(b), a, b) {
        (Some(order), _, _) => Ok(Val::Bool(is(order))),
        // Every ordering comparison with NaN is false.
        (None, Val::Double(_), _) | (None, _, Val::Double(_)) => Ok(Val::Bool(false)),
        (None, _, _) => fail("no such overload"),
    }
}

fn no_conversion<'v>(from: &str, to: &str) -> Result<Val<'v>> {
    fail(format!("type conversion error from '{from}' to '{to}'"))
}

fn whole<'v>(value: Option<i64>) -> Result<Val<'v>> {
    value.map_or_else(|| fail("integer overflow"), |value| Ok(Val::Int(value)))
}

fn add<'v>(meter: &mut Meter, a: &Val<'v>, b: &Val<'v>) -> Result<Val<'v>> {
    let overflow = || fail("timestamp overflow");
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => whole(a.checked_add(*b)),
        (Val::Uint(a), Val::Uint(b)) => {
            a.checked_add(*b).map_or_else(|| fail("unsigned integer overflow"), |n| Ok(Val::Uint(n)))
        }
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
        (Val::Text(a), Val::Text(b)) => Ok(Val::text(&format!("{a}{b}"))),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(Val::Bytes([a.as_ref(), b.as_ref()].concat().into())),
        (Val::Time(time), Val::Span(span)) | (Val::Span(span), Val::Time(time)) => {
            time.checked_add(*span).map_or_else(|_| overflow(), |time| Ok(Val::Time(time)))
        }
        (Val::Span(a), Val::Span(b)) => a.checked_add(*b).map_or_else(overflow, |span| Ok(Val::Span(span))),
        (a, b) => match (a.items(), b.items()) {
            (Some(mut items), Some(more)) => {
                meter.pay((items.len() + more.len()) as u64)?;
                items.extend(more);
                Ok(Val::List(Rc::new(items)))
            }
            _ => fail("no such overload"),
        },
    }
}

fn subtract<'v>(a: &Val<'v>, b: &Val<'v>) -> Result<Val<'v>> {
    let overflow = || fail("timestamp overflow");
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => whole(a.checked_sub(*b)),
        (Val::Uint(a), Val::Uint(b)) => {
            a.checked_sub(*b).map_or_else(|| fail("unsigned integer overflow"), |n| Ok(Val::Uint(n)))
        }
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a - b)),
        (Val::Time(a), Val::Time(b)) => Ok(Val::Span(a.duration_since(*b))),
        (Val::Time(time), Val::Span(span)) => {
            time.checked_sub(*span).map_or_else(|_| overflow(), |time| Ok(Val::Time(time)))
        }
        (Val::Span(a), Val::Span(b)) => a.checked_sub(*b).map_or_else(overflow, |span| Ok(Val::Span(span))),
        _ => fail("no such overload"),
    }
}

fn arithmetic<'v>(name: &str, a: &Val<'v>, b: &Val<'v>) -> Result<Val<'v>> {
    match (name, a, b) {
        ("_/_", Val::Int(_), Val::Int(0)) | ("_/_", Val::Uint(_), Val::Uint(0)) => fail("division by zero"),
        ("_%_", Val::Int(_), Val::Int(0)) | ("_%_", Val::Uint(_), Val::Uint(0)) => fail("modulus by zero"),
        ("_*_", Val::Int(a), Val::Int(b)) => whole(a.checked_mul(*b)),
        ("_/_", Val::Int(a), Val::Int(b)) => whole(a.checked_div(*b)),
        ("_%_", Val::Int(a), Val::Int(b)) => whole(a.checked_rem(*b)),
        ("_*_", Val::Uint(a), Val::Uint(b)) => {
            a.checked_mul(*b).map_or_else(|| fail("unsigned integer overflow"), |n| Ok(Val::Uint(n)))
        }
        ("_/_", Val::Uint(a), Val::Uint(b)) => Ok(Val::Uint(a / b)),
        ("_%_", Val::Uint(a), Val::Uint(b)) => Ok(Val::Uint(a % b)),
        ("_*_", Val::Double(a), Val::Double(b)) => Ok(Val::Double(a * b)),
        ("_/_", Val::Double(a), Val::Double(b)) => Ok(Val::Double(a / b)),
        _ => fail("no such overload"),
    }
}

fn matches<'v>(meter: &mut Meter, text: &str, pattern: &str) -> Result<Val<'v>> {
    let pattern = patterns::compiled(meter, text, pattern)?;
    Ok(Val::Bool(pattern.regex.is_match(text)))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn convert<'v>(name: &str, value: &Val<'v>) -> Result<Val<'v>> {
    const TOP: f64 = 9_223_372_036_854_775_808.0;
    match (name, value) {
        ("int", Val::Int(_)) | ("uint", Val::Uint(_)) | ("double", Val::Double(_)) => Ok(value.clone()),
        ("int", Val::Uint(n)) => whole(i64::try_from(*n).ok()),
        ("int", Val::Double(n)) if *n > -TOP && *n < TOP => Ok(Val::Int(*n as i64)),
        ("int", Val::Double(_)) => fail("integer overflow"),
        ("int", Val::Time(time)) => Ok(Val::Int(time.as_second())),
        // Upstream: nanoseconds.
        ("int", Val::Span(span)) => whole(i64::try_from(span.as_nanos()).ok()),
        ("int", Val::Text(text)) => match text.parse() {
            Ok(n) => Ok(Val::Int(n)),
            Err(_) => no_conversion("string", "int"),
        },
        ("uint", Val::Int(n)) => match u64::try_from(*n) {
            Ok(n) => Ok(Val::Uint(n)),
            Err(_) => fail("unsigned integer overflow"),
        },
        ("uint", Val::Double(n)) if *n >= 0.0 && *n < 2.0 * TOP => Ok(Val::Uint(*n as u64)),
        ("uint", Val::Double(_)) => fail("unsigned integer overflow"),
        ("uint", Val::Text(text)) if !text.starts_with('+') => match text.parse() {
            Ok(n) => Ok(Val::Uint(n)),
            Err(_) => no_conversion("string", "uint"),
        },
        ("uint", Val::Text(_)) => no_conversion("string", "uint"),
        ("double", Val::Int(n)) => Ok(Val::Double(*n as f64)),
        ("double", Val::Uint(n)) => Ok(Val::Double(*n as f64)),
        ("double", Val::Text(text)) => match text.parse() {
            Ok(n) => Ok(Val::Double(n)),
            Err(_) => no_conversion("string", "double"),
        },
        ("bytes", Val::Text(text)) => Ok(Val::Bytes(text.as_bytes().into())),
        ("bytes", Val::Bytes(_)) | ("bool", Val::Bool(_)) => Ok(value.clone()),
        ("bool", Val::Text(text)) => match text.as_ref() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => no_conversion("string", "bool"),
        },
        ("string", Val::Bytes(bytes)) if std::str::from_utf8(bytes).is_err() => {
            fail("invalid UTF-8 in bytes, cannot convert to string")
        }
        (
            "string",
            Val::Bool(_)
            | Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Text(_)
            | Val::Bytes(_)
            | Val::Time(_)
            | Val::Span(_)
            | Val::Ip(_)
            | Val::Cidr(..),
        ) => Ok(Val::text(&shown(value))),
        _ => fail("no such overload"),
    }
}

fn part<'v>(name: &str, time: Timestamp, zone: &str) -> Result<Val<'v>> {
    let Ok(zone) = TimeZone::get(zone) else { return fail(format!("unknown time zone {zone}")) };
    let at = time.to_zoned(zone);
    let value = match name {
        "getFullYear" => i64::from(at.year()),
        "getMonth" => i64::from(at.month()) - 1,
        "getDate" => i64::from(at.day()),
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDayOfWeek" => i64::from(at.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getHours" => i64::from(at.hour()),
        "getMinutes" => i64::from(at.minute()),
        "getSeconds" => i64::from(at.second()),
        "getMilliseconds" => i64::from(at.millisecond()),
        _ => return fail("no such overload"),
    };
    Ok(Val::Int(value))
}
