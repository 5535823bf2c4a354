//! Validates scalars and writes them in canonical form (canonical quantities, UTC times, padded base64).

use orlop_apimachinery::quantity::Quantity;
use std::borrow::Cow;

use orlop_openapi::Scalar;
use serde_json::{Number, Value};

use super::source::Token;
use super::time;

/// Why a scalar is rejected.
#[derive(Debug, PartialEq)]
pub(super) enum Refused {
    /// The value has another JSON type; the text names the type found.
    Type(String),
    /// The scalar's own parser rejects the value; the text is the complete message.
    Content(String),
}

/// The name of a scalar's type in error messages.
pub(super) fn type_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String | Scalar::Time | Scalar::MicroTime => "string",
        Scalar::Bytes => "[]uint8",
        Scalar::Bool => "bool",
        Scalar::Int32 | Scalar::IntOrString => "int32",
        Scalar::Int64 => "int64",
        Scalar::Float => "float64",
        Scalar::Quantity => "resource.Quantity",
    }
}

/// The value written for an unset field that cannot be omitted.
pub(super) fn zero(scalar: Scalar) -> Value {
    match scalar {
        Scalar::String | Scalar::Bytes => Value::String(String::new()),
        Scalar::Bool => Value::Bool(false),
        Scalar::Int32 | Scalar::Int64 | Scalar::Float | Scalar::IntOrString => 0.into(),
        Scalar::Quantity => "0".into(),
        Scalar::Time | Scalar::MicroTime => Value::Null,
    }
}

/// Whether a canonical value is the zero value of its JSON type.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0) || number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// Converts a scalar to its canonical form. Callers handle `Null`, which means unset.
pub(super) fn read(scalar: Scalar, token: &mut Token<'_>) -> Result<Value, Refused> {
    match (scalar, token) {
        (Scalar::String, Token::String(text)) => Ok(Value::String(take(text))),
        (Scalar::Bool, Token::Bool(value)) => Ok(Value::Bool(*value)),
        (Scalar::Int32 | Scalar::IntOrString, Token::Number(text)) => match text.parse::<i32>() {
            Ok(number) => Ok(number.into()),
            Err(_) => Err(Refused::Type(format!("number {text}"))),
        },
        (Scalar::Int64, Token::Number(text)) => match text.parse::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => Err(Refused::Type(format!("number {text}"))),
        },
        (Scalar::Float, Token::Number(text)) => number(text).map(Value::Number),
        (Scalar::IntOrString, Token::String(text)) => Ok(Value::String(take(text))),
        (Scalar::Bytes, Token::String(text)) => bytes(take(text)),
        (Scalar::Time, Token::String(text)) => time::seconds(take(text)).map_err(Refused::Content),
        (Scalar::MicroTime, Token::String(text)) => time::micros(take(text)).map_err(Refused::Content),
        (Scalar::Quantity, Token::String(text) | Token::Number(text)) => quantity(text),
        (Scalar::Quantity, Token::Bool(_) | Token::Array | Token::Object | Token::Null) => quantity("{}"),
        (_, token) => Err(Refused::Type(kind(token).to_owned())),
    }
}

/// The name of a JSON value's type in error messages.
pub(super) fn kind(token: &Token<'_>) -> &'static str {
    match token {
        Token::Null => "null",
        Token::Bool(_) => "bool",
        Token::Number(_) => "number",
        Token::String(_) => "string",
        Token::Array => "array",
        Token::Object => "object",
    }
}

/// The name of the type of a JSON value in memory.
pub(super) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Parses a number literal.
pub(super) fn number(text: &str) -> Result<Number, Refused> {
    let whole = text.parse::<i64>().ok().map(Number::from);
    let whole = whole.or_else(|| text.parse::<u64>().ok().map(Number::from));
    let any = whole.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64));
    any.ok_or_else(|| Refused::Type(format!("number {text}")))
}

fn take(text: &mut Cow<'_, str>) -> String {
    std::mem::take(text).into_owned()
}

fn quantity(text: &str) -> Result<Value, Refused> {
    canonical_quantity(text.trim()).map(Value::String).map_err(Refused::Content)
}

/// Validates standard base64 with padding; line breaks are dropped, as in Go.
fn bytes(text: String) -> Result<Value, Refused> {
    let is_plain = !text.contains(['\r', '\n']);
    let compact = if is_plain { text } else { text.replace(['\r', '\n'], "") };
    match base64_fault(compact.as_bytes()) {
        None => Ok(Value::String(without_stray_bits(compact))),
        Some(at) => Err(Refused::Content(format!("illegal base64 data at input byte {at}"))),
    }
}

/// Clears the unused bits of the last digit before the padding, which are accepted but written as zero.
fn without_stray_bits(mut text: String) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let padding = text.len() - text.trim_end_matches('=').len();
    let meaningless = match padding {
        1 => 0b11,
        2 => 0b1111,
        _ => return text,
    };
    let at = text.len() - padding - 1;
    let digit = DIGITS.iter().position(|digit| *digit == text.as_bytes()[at]).unwrap_or_default();
    let clean = char::from(DIGITS[digit & !meaningless]);
    text.replace_range(at..=at, clean.encode_utf8(&mut [0; 4]));
    text
}

/// The offset at which Go's decoder stops, or `None` if the text is valid.
fn base64_fault(text: &[u8]) -> Option<usize> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = text.iter().position(|byte| !is_digit(byte)).unwrap_or(text.len());
    let rest = &text[digits..];
    match (digits % 4, rest) {
        (0, []) | (2, [b'=', b'=']) | (3, [b'=']) => None,
        // Too short: the error is at the last group of four.
        (filled, []) => Some(digits - filled),
        (2, [b'=']) => Some(text.len()),
        (2, [b'=', b'=', ..]) => Some(digits + 2),
        (3, [b'=', ..]) => Some(digits + 1),
        (_, _) => Some(digits),
    }
}

/// The canonical text of a quantity, or upstream's error.
fn canonical_quantity(text: &str) -> Result<String, String> {
    Quantity::parse(text).map(|quantity| quantity.to_string()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
