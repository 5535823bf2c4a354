//! Converts protobuf bodies to documents in memory, using the field numbers in the arena of types.
//!
//! Protobuf cannot express whether a zero value was set explicitly. The walk resolves this later: it omits
//! empty values as it does for JSON. Unknown field numbers are skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_openapi::{ByNumber, Numbered, Scalar, Shape, StructType, TypeId, types};
use serde_json::{Map, Value, json};

use super::values::{ValueBudget, check_json};
use super::walk::MAX_DEPTH;
use super::{scalar, time};

/// The first bytes of the envelope.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// A decoded envelope.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) value: Value,
    /// `apiVersion` and `kind`.
    pub(super) type_meta: (String, String),
}

/// Reads an envelope and the message of type `ty` in it. The error is a complete message.
pub(super) fn read(body: &[u8], ty: TypeId) -> Result<Message, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or_else(|| {
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".to_owned()
    })?;
    let mut type_meta = (String::new(), String::new());
    let mut raw: &[u8] = &[];
    for part in parts(envelope) {
        match part? {
            (1, Wire::Bytes(message)) => {
                for part in parts(message) {
                    match part? {
                        (1, Wire::Bytes(text)) => type_meta.0 = utf8(text)?,
                        (2, Wire::Bytes(text)) => type_meta.1 = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let budget = ValueBudget::new();
    let value = structure(types().get(ty), raw, Place { depth: 0, budget: &budget })?;
    Ok(Message { value: Value::Object(value), type_meta })
}

/// The content of a field.
pub(super) enum Wire<'a> {
    /// A varint, or a fixed-width number.
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
pub(super) fn parts(mut rest: &[u8]) -> impl Iterator<Item = Result<(u32, Wire<'_>), String>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let part = next_part(&mut rest);
        if part.is_err() {
            rest = &[];
        }
        Some(part)
    })
}

fn next_part<'a>(rest: &mut &'a [u8]) -> Result<(u32, Wire<'a>), String> {
    let tag = varint(rest)?;
    let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| format!("proto: illegal tag {} (wire type {})", tag >> 3, tag & 7))?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(rest)?),
        1 => Wire::Number(u64::from_le_bytes(fixed(rest)?)),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| EOF.to_owned())?;
            Wire::Bytes(take(rest, length)?)
        }
        5 => Wire::Number(u32::from_le_bytes(fixed(rest)?).into()),
        other => return Err(format!("proto: illegal wireType {other}")),
    };
    Ok((number, wire))
}

const EOF: &str = "unexpected EOF";

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (head, tail) = rest.split_at_checked(length).ok_or_else(|| EOF.to_owned())?;
    *rest = tail;
    Ok(head)
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], String> {
    take(rest, N)?.try_into().map_err(|_| EOF.to_owned())
}

fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("proto: integer overflow".to_owned())
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// The position of a message, and the remaining limits of the document.
#[derive(Clone, Copy)]
struct Place<'b> {
    depth: usize,
    budget: &'b ValueBudget,
}

impl Place<'_> {
    fn below(self) -> Self {
        Place { depth: self.depth + 1, ..self }
    }
}

/// Decodes a message. The depth is limited because recursive types have no end.
fn structure(ty: &'static StructType, message: &[u8], at: Place<'_>) -> Result<Map<String, Value>, String> {
    if at.depth > MAX_DEPTH {
        return Err(format!("proto: messages are nested more than {MAX_DEPTH} levels deep"));
    }
    at.budget.object()?;
    let mut members = Map::new();
    numbered(ty, &ty.numbers, message, &mut members, at)?;
    Ok(members)
}

/// Adds the fields with these numbers, and those of the messages in them.
fn numbered(
    ty: &'static StructType,
    numbers: &ByNumber<Numbered>,
    message: &[u8],
    members: &mut Map<String, Value>,
    at: Place<'_>,
) -> Result<(), String> {
    for part in parts(message) {
        let (number, wire) = part?;
        match (numbers.get(&number), wire) {
            (Some(Numbered::Field(name)), wire) => member(ty, name, wire, members, at)?,
            (Some(Numbered::Inline(inner)), Wire::Bytes(message)) => {
                numbered(ty, inner, message, members, at)?
            }
            (Some(Numbered::Inline(_)) | None, _) => {}
        }
    }
    Ok(())
}

/// Adds one occurrence of a field; each occurrence extends a list or map.
fn member(
    ty: &'static StructType,
    name: &str,
    wire: Wire<'_>,
    members: &mut Map<String, Value>,
    at: Place<'_>,
) -> Result<(), String> {
    let Some(field) = ty.field(name) else { return Ok(()) };
    match &field.shape {
        Shape::List(inner) => {
            let place = members.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(items) = place {
                push_items(inner, wire, items, at)?;
            }
        }
        Shape::Map(inner) => {
            let place = members.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let (Value::Object(entries), Wire::Bytes(entry)) = (place, wire) {
                let (key, value) = map_entry(inner, entry, at)?;
                entries.insert(key, value);
            }
        }
        shape @ (Shape::Struct(_)
        | Shape::Scalar(_)
        | Shape::Json
        | Shape::Either(_)
        | Shape::Inline(_)
        | Shape::Deduced) => {
            let value = value(shape, wire, at)?;
            members.insert(name.to_owned(), value);
        }
    }
    Ok(())
}

/// Adds one item, or several numbers packed into one field.
fn push_items(
    shape: &'static Shape,
    wire: Wire<'_>,
    items: &mut Vec<Value>,
    at: Place<'_>,
) -> Result<(), String> {
    let is_number = matches!(shape, Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Bool));
    match wire {
        Wire::Bytes(mut packed) if is_number => {
            while !packed.is_empty() {
                at.budget.value()?;
                let number = varint(&mut packed)?;
                items.push(value(shape, Wire::Number(number), at)?);
            }
        }
        wire @ (Wire::Number(_) | Wire::Bytes(_)) => {
            at.budget.value()?;
            items.push(value(shape, wire, at)?);
        }
    }
    Ok(())
}

fn map_entry(shape: &'static Shape, entry: &[u8], at: Place<'_>) -> Result<(String, Value), String> {
    at.budget.value()?;
    let mut key = String::new();
    let mut content = None;
    for part in parts(entry) {
        match part? {
            (1, Wire::Bytes(text)) => key = utf8(text)?,
            (2, wire) => content = Some(value(shape, wire, at)?),
            _ => {}
        }
    }
    Ok((key, content.unwrap_or_default()))
}

fn value(shape: &'static Shape, wire: Wire<'_>, at: Place<'_>) -> Result<Value, String> {
    Ok(match (shape, wire) {
        (Shape::Struct(id), Wire::Bytes(message)) => {
            Value::Object(structure(types().get(*id), message, at.below())?)
        }
        // A list within a map is wrapped in its own message (ExtraValue).
        (Shape::List(inner), Wire::Bytes(message)) => {
            let mut items = Vec::new();
            for part in parts(message) {
                if let (1, wire) = part? {
                    push_items(inner, wire, &mut items, at)?;
                }
            }
            Value::Array(items)
        }
        (Shape::Json, Wire::Bytes(message)) => free(message)?,
        (Shape::Either(id), Wire::Bytes(message)) => either(*id, message, at)?,
        (Shape::Scalar(scalar), wire) => scalar_value(*scalar, wire)?,
        (Shape::Map(_) | Shape::Inline(_) | Shape::Deduced, _)
        | (Shape::Struct(_) | Shape::List(_) | Shape::Json | Shape::Either(_), Wire::Number(_)) => {
            Value::Null
        }
    })
}

/// Decodes a struct or an alternative to it. In protobuf each is its own message: a flag in field 1 or 2 and
/// the struct in the other (`JSONSchemaPropsOrBool`), or the struct in field 1 and a list in field 2.
fn either(id: TypeId, message: &[u8], at: Place<'_>) -> Result<Value, String> {
    let ty = types().get(id);
    let (mut single, mut list, mut flag) = (None, Vec::new(), false);
    for part in parts(message) {
        match part? {
            (1, Wire::Number(allows)) => flag = allows != 0,
            (1, Wire::Bytes(inner)) => single = Some(structure(ty, inner, at.below())?),
            (2, Wire::Bytes(inner)) => list.push(inner),
            _ => {}
        }
    }
    match (single, list.as_slice()) {
        (Some(single), _) => Ok(Value::Object(single)),
        (None, []) => Ok(Value::Bool(flag)),
        (None, [one]) => Ok(Value::Object(structure(ty, one, at.below())?)),
        (None, many) => many.iter().map(|one| structure(ty, one, at.below()).map(Value::Object)).collect(),
    }
}

/// Decodes the JSON in the first field of a message.
fn free(message: &[u8]) -> Result<Value, String> {
    for part in parts(message) {
        if let (1, Wire::Bytes(raw)) = part?
            && !raw.is_empty()
        {
            check_json(raw)?;
            return serde_json::from_slice(raw).map_err(|error| format!("json: {error}"));
        }
    }
    Ok(Value::Null)
}

fn scalar_value(scalar: Scalar, wire: Wire<'_>) -> Result<Value, String> {
    let wrong = || format!("proto: wrong wireType for a field of type {}", scalar::type_name(scalar));
    Ok(match (scalar, wire) {
        (Scalar::String, Wire::Bytes(text)) => utf8(text)?.into(),
        (Scalar::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Scalar::Bool, Wire::Number(number)) => (number != 0).into(),
        (Scalar::Int32, Wire::Number(number)) => low_32(number).into(),
        (Scalar::Int64, Wire::Number(number)) => number.cast_signed().into(),
        (Scalar::Float, Wire::Number(bits)) => json!(f64::from_bits(bits)),
        (Scalar::Quantity, Wire::Bytes(message)) => match text_field(message, 1)? {
            text if text.is_empty() => "0".into(),
            text => text.into(),
        },
        (Scalar::IntOrString, Wire::Bytes(message)) => int_or_string(message)?,
        (Scalar::Time, Wire::Bytes(message)) => match moment(message)? {
            (0, 0) => Value::Null,
            (seconds, _) => time::from_unix_seconds(seconds).into(),
        },
        (Scalar::MicroTime, Wire::Bytes(message)) => match moment(message)? {
            (0, 0) => Value::Null,
            (seconds, nanos) => {
                let micros = seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanos / 1000));
                time::from_unix_micros(micros).into()
            }
        },
        (
            Scalar::String
            | Scalar::Bytes
            | Scalar::Quantity
            | Scalar::IntOrString
            | Scalar::Time
            | Scalar::MicroTime,
            Wire::Number(_),
        )
        | (Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Float, Wire::Bytes(_)) => {
            return Err(wrong());
        }
    })
}

/// Negative 32-bit numbers are encoded in 64 bits.
fn low_32(number: u64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn text_field(message: &[u8], wanted: u32) -> Result<String, String> {
    let mut text = String::new();
    for part in parts(message) {
        if let (number, Wire::Bytes(bytes)) = part?
            && number == wanted
        {
            text = utf8(bytes)?;
        }
    }
    Ok(text)
}

/// `{1: type (0 number, 1 text), 2: number, 3: text}`
fn int_or_string(message: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number) = (false, 0);
    for part in parts(message) {
        match part? {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = low_32(value),
            _ => {}
        }
    }
    Ok(if is_text { text_field(message, 3)?.into() } else { number.into() })
}

/// `{1: seconds, 2: nanoseconds}`
fn moment(message: &[u8]) -> Result<(i64, i32), String> {
    let (mut seconds, mut nanos) = (0, 0);
    for part in parts(message) {
        match part? {
            (1, Wire::Number(value)) => seconds = value.cast_signed(),
            (2, Wire::Number(value)) => nanos = low_32(value),
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

#[cfg(test)]
mod tests;
