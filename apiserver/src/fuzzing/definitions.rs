//! Columns of custom kinds: a JSONPath in the first line, and in the rest of the input the object that it searches.

use jiff::Timestamp;
use orlop_api::object::Object;
use orlop_api::validate::FieldErrors;
use orlop_codec::decode::{FieldValidation, Media, decode_object};
use orlop_crd::{CustomKind, CustomResourceDefinition, Definition};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{allowed, in_bounds};
use crate::registry::Kind;

/// Reads a path as the column of a definition, and writes the row of an object.
pub(super) fn json_path(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (path, object) = text.split_once('\n').unwrap_or((&text, "{}"));
    let definition = definition(path);
    let mut errors = FieldErrors::new();
    CustomResourceDefinition.validate_create(&definition, &mut errors);
    let report: usize = errors.causes().iter().map(|cause| cause.message.len()).sum();
    in_bounds(data.len(), report, "errors of a definition");
    let definition = Arc::new(Definition::of(&definition).expect("its names are accepted"));
    let kind = CustomKind::first(&definition);
    let mut object: Value = serde_json::from_str(object).unwrap_or_default();
    if let Value::Object(members) = &mut object {
        members.insert("kind".to_owned(), "Thing".into());
        members.insert("apiVersion".to_owned(), "fuzz.example/v1".into());
    }
    match decode_object(&kind, Media::Json, object.to_string().as_bytes(), FieldValidation::Warn) {
        Err(error) => allowed::check(&error),
        Ok(decoded) => {
            let cells = kind.cells(&decoded.object, Timestamp::UNIX_EPOCH);
            let length = cells.iter().map(|cell| cell.to_string().len()).sum();
            in_bounds(data.len(), length, "a row");
        }
    }
}

/// A definition of any objects, with one column.
fn definition(path: &str) -> Object {
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    Object::from_value(json!({
        "metadata": {"name": "things.fuzz.example", "uid": "u"},
        "spec": {
            "group": "fuzz.example", "scope": "Cluster", "names": names,
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "additionalPrinterColumns": [{"name": "Path", "type": "string", "jsonPath": path}],
            }],
        },
        "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]},
    }))
}
