//! Converts objects to other shapes: with kind and apiVersion, or their metadata alone.

use orlop_api::object::Object;
use orlop_api::registry::Kind;
use orlop_api::status::ApiError;
use serde_json::{Map, Value, json};

/// The object with kind and apiVersion, as in single-object responses and events.
pub fn with_kind(kind: &dyn Kind, object: Object) -> Value {
    let names = kind.names();
    let mut map = Map::new();
    map.insert("kind".to_owned(), names.kind.into());
    map.insert("apiVersion".to_owned(), names.api_version().into());
    map.extend(object.0);
    Value::Object(map)
}

/// The metadata alone, as `PartialObjectMetadata` of a version of meta.k8s.io.
pub fn metadata_only(kind: &dyn Kind, version: &str, object: &Object) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": shown_metadata(kind, object),
    })
}

/// The metadata of a `PartialObjectMetadata`. Upstream takes it from the object before that is converted to the version of the request.
pub(super) fn shown_metadata(kind: &dyn Kind, object: &Object) -> Value {
    let mut metadata = object.0.get("metadata").cloned().unwrap_or_else(|| json!({}));
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !kind.converted_annotations().contains(&name.as_str()));
        if annotations.is_empty() {
            metadata.as_object_mut().map(|metadata| metadata.remove("annotations"));
        }
    }
    metadata
}

/// The error for requesting the metadata of a list from an endpoint that returns one object.
pub fn not_a_list(kind: &dyn Kind) -> ApiError {
    if kind.is_custom() {
        // Upstream's custom objects have the methods of lists (apimachinery `unstructured.Unstructured`).
        return ApiError::plain_internal("content is not a list");
    }
    ApiError::not_acceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
        internal_type(kind)
    ))
}

/// The error for requesting the metadata of an object from an endpoint that returns a list.
pub fn is_a_list(kind: &dyn Kind) -> ApiError {
    ApiError::not_acceptable(format!(
        "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
        internal_type(kind)
    ))
}

/// Upstream's internal type. Its package is the first part of the group, or `core` for core and events.
fn internal_type(kind: &dyn Kind) -> String {
    if kind.is_custom() {
        return "unstructured.Unstructured".to_owned();
    }
    let names = kind.names();
    let package = match names.group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        package => package,
    };
    format!("{package}.{}", names.kind)
}
