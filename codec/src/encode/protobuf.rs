//! Encodes protobuf responses: an envelope with the object as a message, using the field numbers in the arena
//! of types. The inverse of the protobuf decoder in `decode`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use orlop_api::registry::{
    BUILTIN_KINDS, admission_registration, custom_resource_definition, dynamic_resources,
};
use orlop_openapi::{ByNumber, Numbered, Scalar, Shape, StructType, TypeId, types};
use serde_json::{Map, Value};

use super::discovery;
use super::wire::{put_bytes, put_number, put_varint};

/// The first bytes of the envelope.
const MAGIC: &[u8] = b"k8s\0";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Encodes a response. Fails if the kind has no protobuf form.
pub fn encode(value: &Value) -> Result<Vec<u8>, String> {
    let kind = text(value, "kind");
    let api_version = text(value, "apiVersion");
    let message = match discovery::message(api_version, kind, value) {
        Some(message) => message,
        None => message(api_version, kind, value)?,
    };
    Ok(envelope(api_version, kind, &message))
}

/// Encodes a list from its metadata and its items, which are produced one at a time.
pub fn encode_list(
    api_version: &str,
    kind: &str,
    metadata: &Map<String, Value>,
    items: impl Iterator<Item = Value>,
) -> Result<Vec<u8>, String> {
    let item_kind = kind.strip_suffix("List").unwrap_or(kind);
    let mut out = Vec::new();
    put_metadata(&mut out, "ListMeta", Some(metadata));
    let ty = schema(api_version, item_kind);
    for item in items {
        put_bytes(&mut out, 2, &message_of(ty, api_version, item_kind, &item)?);
    }
    Ok(envelope(api_version, kind, &out))
}

fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    put_bytes(&mut out, 1, &type_meta);
    put_bytes(&mut out, 2, message);
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

fn put_metadata(out: &mut Vec<u8>, ty: &str, metadata: Option<&Map<String, Value>>) {
    if let (Some(ty), Some(metadata)) = (named(&format!("{META}{ty}")), metadata) {
        put_bytes(out, 1, &structure(ty, metadata));
    }
}

/// Encodes a watch event as a frame: its length in four bytes, then the event.
pub fn encode_event(event_type: &str, value: &Value) -> Result<Vec<u8>, String> {
    let mut raw = Vec::new();
    put_bytes(&mut raw, 1, &encode(value)?);
    let mut event = Vec::new();
    put_bytes(&mut event, 1, event_type.as_bytes());
    put_bytes(&mut event, 2, &raw);
    let length = u32::try_from(event.len()).map_err(|_| "the event is too large for a frame".to_owned())?;
    let mut out = length.to_be_bytes().to_vec();
    out.extend_from_slice(&event);
    Ok(out)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn message(api_version: &str, kind: &str, value: &Value) -> Result<Vec<u8>, String> {
    message_of(schema(api_version, kind), api_version, kind, value)
}

/// Encodes a value of a kind with this schema.
fn message_of(
    ty: Option<&'static StructType>,
    api_version: &str,
    kind: &str,
    value: &Value,
) -> Result<Vec<u8>, String> {
    if let Some(ty) = ty {
        return Ok(value.as_object().map(|members| structure(ty, members)).unwrap_or_default());
    }
    let list = ("ListMeta", value.get("items"));
    let (metadata_type, items) = match kind {
        "PartialObjectMetadata" => ("ObjectMeta", None),
        "PartialObjectMetadataList" => list,
        kind if kind.strip_suffix("List").is_some_and(|item| schema(api_version, item).is_some()) => list,
        _ => return Err(format!("{kind} of {api_version} has no protobuf form")),
    };
    let mut out = Vec::new();
    put_metadata(&mut out, metadata_type, value.get("metadata").and_then(Value::as_object));
    let item_kind = kind.strip_suffix("List").unwrap_or(kind);
    let ty = schema(api_version, item_kind);
    for item in items.and_then(Value::as_array).into_iter().flatten() {
        put_bytes(&mut out, 2, &message_of(ty, api_version, item_kind, item)?);
    }
    Ok(out)
}

fn schema(api_version: &str, kind: &str) -> Option<&'static StructType> {
    if kind == "Status" {
        return named(&format!("{META}Status"));
    }
    let builtin = BUILTIN_KINDS.iter().map(|kind| kind.names());
    let compiled = admission_registration::NAMES.into_iter().chain(dynamic_resources::NAMES);
    let mut kinds = builtin.chain([&custom_resource_definition::NAMES]).chain(compiled);
    if let Some(found) = kinds.find(|names| names.kind == kind && names.api_version() == api_version) {
        return named(found.schema);
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut subs = BUILTIN_KINDS.iter().flat_map(|kind| kind.subresources());
    let found = subs.find(|sub| (sub.kind, sub.group, sub.version) == (kind, group, version))?;
    named(found.schema)
}

fn named(name: &str) -> Option<&'static StructType> {
    types().named(name).map(|id| types().get(id))
}

fn structure(ty: &'static StructType, members: &Map<String, Value>) -> Vec<u8> {
    numbered(ty, &ty.numbers, members)
}

/// Encodes the fields with these numbers, and those of the messages in them.
fn numbered(ty: &'static StructType, numbers: &ByNumber<Numbered>, members: &Map<String, Value>) -> Vec<u8> {
    let mut numbers: Vec<_> = numbers.iter().collect();
    numbers.sort_unstable_by_key(|(number, _)| **number);
    let mut out = Vec::new();
    for (number, meaning) in numbers {
        match meaning {
            Numbered::Field(name) => member(&mut out, ty, *number, name, members),
            Numbered::Inline(inner) => put_bytes(&mut out, *number, &numbered(ty, inner, members)),
        }
    }
    out
}

fn member(out: &mut Vec<u8>, ty: &'static StructType, number: u32, name: &str, members: &Map<String, Value>) {
    let (Some(field), Some(value)) = (ty.field(name), members.get(name)) else { return };
    match (&field.shape, value) {
        (_, Value::Null) => {}
        (Shape::List(inner), Value::Array(items)) => {
            for item in items {
                put_value(out, number, inner, item);
            }
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            for (key, value) in entries {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                put_value(&mut entry, 2, inner, value);
                put_bytes(out, number, &entry);
            }
        }
        (Shape::Either(id), value) => put_either(out, number, *id, name.starts_with("additional"), value),
        (shape, value) => put_value(out, number, shape, value),
    }
}

/// Encodes a struct or an alternative to it as its own message (see `decode::protobuf`). `or_flag` is for types
/// that are a struct or a boolean.
fn put_either(out: &mut Vec<u8>, number: u32, id: TypeId, or_flag: bool, value: &Value) {
    let ty = types().get(id);
    let mut inner = Vec::new();
    match value {
        Value::Object(members) => {
            if or_flag {
                put_number(&mut inner, 1, 1);
            }
            put_bytes(&mut inner, if or_flag { 2 } else { 1 }, &structure(ty, members));
        }
        Value::Bool(flag) => put_number(&mut inner, 1, u64::from(*flag)),
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(members) => put_bytes(&mut inner, 2, &structure(ty, members)),
                    Value::String(text) => put_bytes(&mut inner, 2, text.as_bytes()),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
                }
            }
        }
        Value::Null | Value::Number(_) | Value::String(_) => {}
    }
    put_bytes(out, number, &inner);
}

fn put_value(out: &mut Vec<u8>, number: u32, shape: &'static Shape, value: &Value) {
    match (shape, value) {
        (Shape::Struct(id), Value::Object(members)) => {
            put_bytes(out, number, &structure(types().get(*id), members));
        }
        // A list within a map is wrapped in its own message (ExtraValue).
        (Shape::List(inner), Value::Array(items)) => {
            let mut wrapped = Vec::new();
            for item in items {
                put_value(&mut wrapped, 1, inner, item);
            }
            put_bytes(out, number, &wrapped);
        }
        (Shape::Json | Shape::Inline(_) | Shape::Deduced, value) => {
            let mut raw = Vec::new();
            put_bytes(&mut raw, 1, value.to_string().as_bytes());
            put_bytes(out, number, &raw);
        }
        (Shape::Either(id), value) => put_either(out, number, *id, false, value),
        (Shape::Scalar(scalar), value) => put_scalar(out, number, *scalar, value),
        // Stored objects always fit their type, so a mismatch cannot occur here.
        (Shape::Struct(_) | Shape::List(_) | Shape::Map(_), _) => {}
    }
}

fn put_scalar(out: &mut Vec<u8>, number: u32, scalar: Scalar, value: &Value) {
    let text = value.as_str().unwrap_or_default();
    match scalar {
        Scalar::String => put_bytes(out, number, text.as_bytes()),
        Scalar::Bytes => put_bytes(out, number, &STANDARD.decode(text).unwrap_or_default()),
        Scalar::Bool => put_number(out, number, u64::from(value.as_bool().unwrap_or_default())),
        Scalar::Int32 | Scalar::Int64 => {
            put_number(out, number, value.as_i64().unwrap_or_default().cast_unsigned());
        }
        Scalar::Float => {
            put_varint(out, u64::from(number) << 3 | 1);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_bits().to_le_bytes());
        }
        Scalar::Quantity => {
            let mut inner = Vec::new();
            put_bytes(&mut inner, 1, text.as_bytes());
            put_bytes(out, number, &inner);
        }
        Scalar::IntOrString => {
            let mut inner = Vec::new();
            put_number(&mut inner, 1, u64::from(value.is_string()));
            put_number(&mut inner, 2, value.as_i64().unwrap_or_default().cast_unsigned());
            put_bytes(&mut inner, 3, text.as_bytes());
            put_bytes(out, number, &inner);
        }
        Scalar::Time | Scalar::MicroTime => {
            let Ok(time) = text.parse::<Timestamp>() else { return };
            let mut inner = Vec::new();
            put_number(&mut inner, 1, time.as_second().cast_unsigned());
            put_number(&mut inner, 2, i64::from(time.subsec_nanosecond()).cast_unsigned());
            put_bytes(out, number, &inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_api::registry::by_resource;
    use serde_json::json;

    use super::*;
    use crate::decode::{FieldValidation, Media, decode_object};

    /// Decoding the encoded object returns the same object, so both sides use the same field numbers.
    #[test]
    fn encoded_claim_decodes_to_the_same_object() {
        let claim = json!({
            "metadata": {
                "name": "a", "namespace": "b", "uid": "u", "creationTimestamp": "2024-01-02T03:04:05Z",
                "labels": {"x": "y"}, "finalizers": ["k/f"],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}},
                "storageClassName": "", "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        });
        let mut whole = claim.clone();
        whole["kind"] = "PersistentVolumeClaim".into();
        whole["apiVersion"] = "v1".into();
        let bytes = encode(&whole).expect("claims have a protobuf form");
        let kind = by_resource("", "v1", "persistentvolumeclaims").expect("claims are served");
        let back = decode_object(kind, Media::Protobuf, &bytes, FieldValidation::Strict).expect("decodes");
        assert_eq!(back.object.into_value(), claim);
    }

    #[test]
    fn event_frame_starts_with_its_length() {
        let event = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
        let frame = encode_event("ADDED", &event).expect("config maps have a protobuf form");
        let length = u32::from_be_bytes(frame[..4].try_into().expect("four bytes"));
        assert_eq!(length as usize, frame.len() - 4);
    }

    #[test]
    fn kind_without_protobuf_form_is_an_error() {
        assert!(encode(&json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1"})).is_err());
    }
}
