//! Objects that exist and that their type cannot decode.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::Json;
use crate::object_key::key;

/// An object of a list or of a watch that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// See [`key_of`](crate::object_key::key_of).
    pub key: String,
    /// The UID; empty if the object has none.
    pub uid: String,
    /// The resourceVersion; empty if the object has none.
    pub revision: String,
    /// Why.
    pub error: String,
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {} of {} cannot be decoded: {}", self.revision, self.key, self.error)
    }
}

impl std::error::Error for Undecodable {}

/// Decodes an object. One that cannot be decoded is a result too, if its key is known.
///
/// # Errors
/// The JSON is not an object with a name.
pub(super) fn decode<K: Json>(json: &RawValue) -> serde_json::Result<Result<K, Undecodable>> {
    K::decode(json.get().as_bytes()).map(Ok).or_else(|error| undecodable(json, error).map(Err))
}

#[derive(Deserialize)]
struct Named {
    metadata: Names,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

fn undecodable(json: &RawValue, error: serde_json::Error) -> serde_json::Result<Undecodable> {
    let Ok(Named { metadata }) = serde_json::from_str(json.get()) else { return Err(error) };
    Ok(Undecodable {
        key: key(metadata.namespace.as_deref(), &metadata.name),
        uid: metadata.uid.unwrap_or_default(),
        revision: metadata.resource_version.unwrap_or_default(),
        error: error.to_string(),
    })
}
