//! The bodies of requests and responses in audit events. They are stored as they were sent, and converted to JSON by the thread that
//! writes the events.

use bytes::Bytes;
use orlop_codec::decode::{self, FieldValidation, Media};
use serde_json::Value;

use crate::registry::KindRef;

/// Maximum size of a recorded body, bytes.
pub(super) const BODY_MAX: usize = 1 << 20;
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The type of a body, for protobuf.
#[derive(Clone)]
pub(crate) enum BodyType {
    /// An object of a kind.
    Object(KindRef),
    /// The options of a delete.
    DeleteOptions,
}

/// A body.
pub(crate) struct RecordedBody {
    media: Media,
    body_type: BodyType,
    bytes: Bytes,
}

impl RecordedBody {
    /// A body with its content type. `None` if it is too large.
    pub(crate) fn new(content_type: &str, body_type: BodyType, bytes: Bytes) -> Option<Self> {
        let media = media_of(content_type);
        (bytes.len() <= BODY_MAX).then_some(RecordedBody { media, body_type, bytes })
    }

    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The document; `None` if there is none, or if it cannot be read.
    pub(super) fn value(&self, omit_managed_fields: bool) -> Option<Value> {
        if self.bytes.is_empty() {
            return None;
        }
        let mut value = match (self.media, &self.body_type) {
            (Media::Json, _) => serde_json::from_slice(&self.bytes).ok()?,
            (Media::Yaml, _) => decode::read_yaml(&self.bytes).ok()?.0,
            (Media::Protobuf, BodyType::Object(kind)) => {
                let decoded =
                    decode::decode_object(&**kind, Media::Protobuf, &self.bytes, FieldValidation::Ignore);
                let mut object = decoded.ok()?.object.0;
                let names = kind.names();
                object.insert("kind".to_owned(), names.kind.into());
                object.insert("apiVersion".to_owned(), names.api_version().into());
                Value::Object(object)
            }
            (Media::Protobuf, BodyType::DeleteOptions) => {
                let options = decode::decode_typed(DELETE_OPTIONS, Media::Protobuf, &self.bytes);
                Value::Object(options.ok()?)
            }
        };
        if omit_managed_fields {
            remove_managed_fields(&mut value);
        }
        Some(value)
    }
}

/// The format of a body. Patches are JSON, or YAML for an apply.
fn media_of(content_type: &str) -> Media {
    let base = content_type.split(';').next().unwrap_or_default().trim();
    match base {
        "application/vnd.kubernetes.protobuf" => Media::Protobuf,
        "application/yaml" | "application/apply-patch+yaml" => Media::Yaml,
        _ => Media::Json,
    }
}

/// Removes the managed fields of an object, of the items of a list, and of the objects in a table.
fn remove_managed_fields(value: &mut Value) {
    let of_object = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    of_object(value);
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(of_object);
    }
    if let Some(rows) = value.get_mut("rows").and_then(Value::as_array_mut) {
        rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(of_object);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::registry::by_resource;

    fn kind() -> BodyType {
        BodyType::Object(KindRef::Builtin(by_resource("", "v1", "configmaps").unwrap()))
    }

    #[test]
    fn bodies_are_converted_to_json() {
        for (case, content_type, text, want) in [
            ("1 JSON", "application/json; charset=utf-8", r#"{"a":1}"#, Some(json!({"a": 1}))),
            ("2 a JSON patch", "application/json-patch+json", "[]", Some(json!([]))),
            ("3 no type", "", r#"{"a":1}"#, Some(json!({"a": 1}))),
            ("4 YAML", "application/yaml", "a: 1\n", Some(json!({"a": 1}))),
            ("5 an apply", "application/apply-patch+yaml", "a: [x]", Some(json!({"a": ["x"]}))),
            ("6 empty", "application/json", "", None),
            ("7 no JSON", "application/json", "{", None),
            ("8 no protobuf", "application/vnd.kubernetes.protobuf", "x", None),
        ] {
            let body = RecordedBody::new(content_type, kind(), Bytes::from(text)).unwrap();
            assert_eq!(body.value(false), want, "{case}");
        }
        let value = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
        let bytes = crate::encode::protobuf::encode(&value).unwrap();
        let body = RecordedBody::new("application/vnd.kubernetes.protobuf", kind(), bytes.into()).unwrap();
        assert_eq!(body.value(false).unwrap()["metadata"]["name"], "a");
        assert!(RecordedBody::new("", kind(), vec![0; BODY_MAX + 1].into()).is_none());
    }

    #[test]
    fn managed_fields_are_removed() {
        let object = json!({"metadata": {"name": "a", "managedFields": [1]}});
        let without = json!({"metadata": {"name": "a"}});
        for (value, want) in [
            (object.clone(), without.clone()),
            (json!({"items": [object]}), json!({"items": [without]})),
            (json!({"rows": [{"object": object}]}), json!({"rows": [{"object": without}]})),
            (json!([1]), json!([1])),
        ] {
            let mut found = value;
            remove_managed_fields(&mut found);
            assert_eq!(found, want);
        }
    }
}
