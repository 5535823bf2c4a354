//! Applies merge patches (RFC 7386).

use orlop_api::status::ApiError;
use serde_json::Value;

use super::body;

/// Applies a merge patch.
pub(super) fn apply(mut document: Value, patch: &[u8]) -> Result<Value, ApiError> {
    let undecodable = |why: &str| ApiError::bad_request(format!("error decoding patch: {why}"));
    let patch = body::read(patch).map_err(|error| undecodable(&error))?;
    match &patch {
        Value::Object(_) => json_patch::merge(&mut document, &patch),
        Value::Null => return Err(ApiError::bad_request("Invalid JSON Patch")),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            let kind = body::kind(other);
            return Err(undecodable(&format!(
                "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )));
        }
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patch_sets_replaces_and_removes_members() {
        let document = json!({"a": 1, "l": [1, 2], "o": {"x": 1, "y": 2}});
        for (patch, expected) in [
            (json!({}), document.clone()),
            (json!({"a": null, "zz": null}), json!({"l": [1, 2], "o": {"x": 1, "y": 2}})),
            (json!({"l": [3], "o": {"x": 5}}), json!({"a": 1, "l": [3], "o": {"x": 5, "y": 2}})),
            (
                json!({"o": {"x": null}, "n": {"p": 1, "q": null}}),
                json!({"a": 1, "l": [1, 2], "o": {"y": 2}, "n": {"p": 1}}),
            ),
            (json!({"o": 1, "a": {"b": {"c": null}}}), json!({"a": {"b": {}}, "l": [1, 2], "o": 1})),
        ] {
            let merged = apply(document.clone(), patch.to_string().as_bytes()).unwrap();
            assert_eq!(merged, expected, "{patch}");
        }
    }

    #[test]
    fn patch_that_is_not_an_object_is_rejected() {
        for (patch, expected) in [
            ("", "error decoding patch: unexpected end of JSON input"),
            ("null", "Invalid JSON Patch"),
            (
                "[]",
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (
                "\"x\"",
                "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}",
            ),
            (
                "5",
                "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
            ),
            (
                "{nope",
                "error decoding patch: invalid character 'n' looking for beginning of object key string",
            ),
        ] {
            let error = apply(json!({}), patch.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (400, expected), "{patch}");
        }
    }
}
