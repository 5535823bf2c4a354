//! Protobuf answers.

use serde_json::Value;

/// An answer as bytes.
pub(crate) fn encode(_value: &Value) -> Result<Vec<u8>, String> {
    Err("only the following media types are accepted: application/json, application/yaml".to_owned())
}

/// A watch event as bytes.
pub(crate) fn encode_event(_ty: &str, _value: &Value) -> Result<Vec<u8>, String> {
    Err("only the following media types are accepted: application/json, application/yaml".to_owned())
}
