//! Create and update bodies in JSON, YAML and protobuf. The first byte of an input selects the kind, the second
//! the handling of unknown fields; the rest is the body.

use jiff::Timestamp;
use orlop_api::validate::FieldErrors;
use orlop_api::validate::meta::validate_meta_update;
use orlop_openapi::types;

use super::{allowed, choose, in_bounds, whole};
use crate::encode::protobuf;
use crate::registry::{Kind, Scope};
use orlop_api::object::Object;
use orlop_codec::decode::{FieldValidation, Media, conform, decode_object};

/// Decodes a JSON body.
pub(super) fn json_body(data: &[u8]) {
    body(data, Media::Json);
}

/// Decodes a YAML body.
pub(super) fn yaml_body(data: &[u8]) {
    body(data, Media::Yaml);
}

/// Decodes a protobuf body.
pub(super) fn protobuf_body(data: &[u8]) {
    body(data, Media::Protobuf);
}

fn body(data: &[u8], media: Media) {
    let Some((kind, data)) = choose(data) else { return };
    let Some((validation, body)) = data.split_first() else { return };
    let validation = match validation % 3 {
        0 => FieldValidation::Ignore,
        1 => FieldValidation::Warn,
        _ => FieldValidation::Strict,
    };
    match decode_object(kind, media, body, validation) {
        Err(error) => {
            allowed::check(&error);
            in_bounds(body.len(), error.message.len(), "a message");
        }
        Ok(decoded) => {
            let warnings: usize = decoded.warnings.iter().map(String::len).sum();
            in_bounds(body.len(), warnings, "warnings");
            is_settled(kind, &decoded.object, body.len());
            is_judged(kind, decoded.object, body.len());
        }
    }
}

/// Checks that a decoded object is in its final form: encoded as JSON or protobuf and decoded again, it does not
/// change. Otherwise an update without changes would cause a write.
pub(super) fn is_settled(kind: &'static dyn Kind, object: &Object, input: usize) {
    let value = whole(kind, object);
    let text = value.to_string();
    in_bounds(input, text.len(), "an object");
    let again = decode_object(kind, Media::Json, text.as_bytes(), FieldValidation::Strict);
    let again = again.unwrap_or_else(|error| panic!("an accepted object is rejected: {error}: {text}"));
    assert_eq!(again.object, *object, "JSON is read back as something else");
    let ty = types().named(kind.names().schema).expect("every kind has a type");
    let conformed = conform(object.clone().into_value(), ty)
        .unwrap_or_else(|why| panic!("an accepted object does not match its type: {why}: {text}"));
    assert_eq!(conformed.object, object.0, "it fits its type as something else");
    let bytes = protobuf::encode(&value).expect("every stored kind has a protobuf form");
    let again = decode_object(kind, Media::Protobuf, &bytes, FieldValidation::Strict);
    let again = again.unwrap_or_else(|error| panic!("its protobuf is refused: {error}: {text}"));
    in_bounds(bytes.len(), again.object.into_value().to_string().len(), "protobuf");
}

/// Checks an object as the verbs do: its errors, which have a bound of their own, its warnings and its row of a table.
fn is_judged(kind: &'static dyn Kind, mut object: Object, input: usize) {
    kind.defaults(&mut object);
    let old = object.clone();
    let namespaced = kind.scope() == Scope::Namespaced;
    let mut errors = FieldErrors::new();
    validate_meta_update(&object, &old, kind.policy().names, namespaced, &mut errors);
    kind.validate(&object, &mut errors);
    kind.validate_create(&object, &mut errors);
    kind.validate_update(&object, &old, &mut errors);
    kind.validate_status(&object, &old, &mut errors);
    let warnings: usize = kind.warnings(&object, None).iter().map(String::len).sum();
    in_bounds(input, warnings, "warnings of a kind");
    let cells: usize =
        kind.cells(&object, Timestamp::UNIX_EPOCH).iter().map(|cell| cell.to_string().len()).sum();
    in_bounds(input, cells, "a row");
}
