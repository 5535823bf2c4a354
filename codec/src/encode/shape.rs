//! Objects in another shape: with kind and apiVersion, or their metadata alone.

use orlop_api::object::Object;
use orlop_api::registry::Kind;
use orlop_api::status::ApiError;
use serde_json::{Map, Value, json};

/// The object with kind and apiVersion, as single answers and events show it.
pub fn with_kind(kind: &dyn Kind, object: Object) -> Value {
    let names = kind.names();
    let mut map = Map::new();
    map.insert("kind".to_owned(), names.kind.into());
    map.insert("apiVersion".to_owned(), names.api_version().into());
    map.extend(object.0);
    Value::Object(map)
}

/// The metadata alone, as `PartialObjectMetadata` of a version of meta.k8s.io.
pub fn metadata_only(version: &str, object: &Object) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object.0.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// The answer to a request for a list's metadata where there is one object.
pub fn not_a_list(kind: &dyn Kind) -> ApiError {
    ApiError::not_acceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
        internal_type(kind)
    ))
}

/// The answer to a request for an object's metadata where there is a list.
pub fn is_a_list(kind: &dyn Kind) -> ApiError {
    ApiError::not_acceptable(format!(
        "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
        internal_type(kind)
    ))
}

/// What upstream calls the type inside: the first word of the group, `core` for core and events.
fn internal_type(kind: &dyn Kind) -> String {
    let names = kind.names();
    let package = match names.group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        package => package,
    };
    format!("{package}.{}", names.kind)
}
