//! Decodes a body, or a document in memory, into an object of a custom kind. Undeclared fields are dropped
//! and reported, like unknown fields of built-in kinds.

use orlop_api::object::Object;
use orlop_api::registry::Kind;
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use super::body::read_open;
use super::{Conformed, Decoded, FieldValidation, MAX_FINDINGS_TEXT, Media, conform_open};

/// Decodes the body of a create or an update. `kind` and `apiVersion` are required.
pub(crate) fn object(
    kind: &dyn Kind,
    media: Media,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    let names = kind.names();
    if media == Media::Protobuf {
        return Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml",
        ));
    }
    let read = read_open(names.kind, media, body)?;
    let (api_version, given) = &read.type_meta;
    for (name, text) in [("Kind", given), ("apiVersion", api_version)] {
        if text.is_empty() {
            let shown: String = String::from_utf8_lossy(body).chars().take(2048).collect();
            return Err(read.unrecognized(&format!("Object '{name}' is missing in '{shown}'")));
        }
    }
    check_type(kind, api_version, given, read.object.get("metadata"))?;
    let refuse = |why: &str| {
        let version = names.version;
        ApiError::bad_request(format!(
            "{given} in version {version:?} cannot be handled as a {}: {why}",
            names.kind
        ))
    };
    if let Some(misfit) = &read.misfit {
        return Err(refuse(misfit));
    }
    let mut value = Value::Object(read.object);
    let mut dropped = Vec::new();
    kind.prune(&mut value, &mut dropped).map_err(|why| refuse(&why))?;
    let found = || with_unknown(read.findings, &dropped);
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => found(),
        FieldValidation::Strict => match found().as_slice() {
            [] => Vec::new(),
            found => return Err(refuse(&format!("strict decoding error: {}", found.join(", ")))),
        },
    };
    Ok(Decoded { object: Object::from_value(value), warnings, type_meta: read.type_meta })
}

/// Adds the unknown fields to the findings, until their text is too long: a path contains keys of the body.
fn with_unknown(mut found: Vec<String>, unknown: &[String]) -> Vec<String> {
    let mut text: usize = found.iter().map(String::len).sum();
    for path in unknown {
        if text > MAX_FINDINGS_TEXT {
            break;
        }
        text += path.len();
        found.push(format!("unknown field \"{path}\""));
    }
    found
}

fn check_type(
    kind: &dyn Kind,
    api_version: &str,
    given: &str,
    metadata: Option<&Value>,
) -> Result<(), ApiError> {
    let names = kind.names();
    let expected = names.api_version();
    if api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if given != names.kind {
        let mut errors = FieldErrors::new();
        errors.invalid(&Path::new("kind"), given, &format!("must be {}", names.kind));
        let name = metadata.and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        return Err(ApiError::invalid(given, names.group, name, &errors));
    }
    Ok(())
}

/// Fits a document in memory, such as a patched object, to the kind.
pub(crate) fn conform(kind: &dyn Kind, value: Value) -> Result<Conformed, String> {
    let Conformed { object, mut unknown, type_meta } = conform_open(value)?;
    let mut value = Value::Object(object);
    kind.prune(&mut value, &mut unknown)?;
    Ok(Conformed { object: Object::from_value(value).0, unknown, type_meta })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::conform_metadata;
    use super::*;

    #[test]
    fn metadata_is_fitted_on_its_own() {
        for (metadata, want, unknown) in [
            (json!(null), json!({}), vec![]),
            (json!({}), json!({}), vec![]),
            (
                json!({"name": "a", "labels": {}, "creationTimestamp": null, "nope": 1, "kind": "K",
                       "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u", "odd": 1}]}),
                json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u"}]}),
                vec!["kind", "nope", "ownerReferences[0].odd"],
            ),
        ] {
            assert_eq!(
                conform_metadata(metadata.clone()),
                Ok((want, unknown.into_iter().map(str::to_owned).collect())),
                "{metadata}"
            );
        }
    }

    #[test]
    fn errors_of_metadata_name_the_field_below_it() {
        for (metadata, want) in [
            (json!("x"), "string into Go value of type v1.ObjectMeta"),
            (json!([]), "array into Go value of type v1.ObjectMeta"),
            (json!({"name": 1}), "number into Go struct field ObjectMeta.name of type string"),
            (json!({"uid": 1}), "number into Go struct field ObjectMeta.uid of type types.UID"),
            (
                json!({"labels": "x"}),
                "string into Go struct field ObjectMeta.labels of type map[string]string",
            ),
            (json!({"labels": {"a": 1}}), "number into Go struct field ObjectMeta.labels of type string"),
            (json!({"finalizers": [1]}), "number into Go struct field ObjectMeta.finalizers of type string"),
            (
                json!({"ownerReferences": {}}),
                "object into Go struct field ObjectMeta.ownerReferences of type []v1.OwnerReference",
            ),
            (
                json!({"ownerReferences": [{"controller": "x"}]}),
                "string into Go struct field OwnerReference.ownerReferences.controller of type bool",
            ),
            (json!({"generation": "x"}), "string into Go struct field ObjectMeta.generation of type int64"),
        ] {
            let error = conform_metadata(metadata.clone()).map(|_| ());
            assert_eq!(error, Err(format!("json: cannot unmarshal {want}")), "{metadata}");
        }
    }

    #[test]
    fn long_unknown_fields_are_left_out() {
        let short = ["a".to_owned(), "b".to_owned()];
        let want = ["x", "unknown field \"a\"", "unknown field \"b\""];
        assert_eq!(with_unknown(vec!["x".to_owned()], &short), want);
        let long = vec!["k".repeat(MAX_FINDINGS_TEXT); 50];
        assert_eq!(with_unknown(Vec::new(), &long).len(), 2);
    }
}
