//! Writes table rows directly from stored bytes: the cells are computed from a reduced copy of the object, and its metadata
//! is copied unchanged from the store.
//!
//! The reduced copy omits `metadata.managedFields`, which is often half of an object and never appears in a cell.

use std::fmt;
use std::io::Write as _;

use orlop_api::object::Object;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::encode::stored::StoredObject;

/// The first bytes of a stored object; the metadata follows.
const BEGIN: &[u8] = b"{\"metadata\":";

/// An object without its managed fields, with its metadata as stored.
pub(super) struct Lean<'r> {
    pub(super) object: Object,
    /// The stored bytes of the metadata; they contain the record's splice point.
    pub(super) metadata: &'r str,
}

impl<'r> Lean<'r> {
    /// Reads a record. `None` if the bytes were not written in the canonical form.
    pub(super) fn read(record: StoredObject<'r>) -> Option<Lean<'r>> {
        let bytes = record.value;
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let (metadata, mut object) = reader.deserialize_map(Whole).ok()?;
        let metadata = metadata?;
        let fits = bytes.strip_prefix(BEGIN).is_some_and(|rest| rest.starts_with(metadata.as_bytes()));
        let splice = record.splice.saturating_sub(BEGIN.len());
        if !fits || splice == 0 || splice >= metadata.len() || !metadata.is_char_boundary(splice) {
            return None;
        }
        object.set(&["metadata", "resourceVersion"], record.revision.to_string());
        Some(Lean { object, metadata })
    }
}

/// Appends stored metadata as a `PartialObjectMetadata` in a version of meta.k8s.io, with the record's
/// revision as its resourceVersion.
pub(super) fn write_metadata(out: &mut Vec<u8>, metadata: &str, version: &str, record: StoredObject<'_>) {
    let (head, tail) = metadata.split_at(record.splice - BEGIN.len());
    // Writing into memory cannot fail.
    let _ = write!(
        out,
        "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/{version}\",\"metadata\":{head}\
         \"resourceVersion\":\"{}\",{tail}}}",
        record.revision
    );
}

/// Deserializes an object and also returns the raw text of its metadata.
struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = (Option<&'de str>, Object);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let (mut raw, mut members) = (None, Map::new());
        while let Some(key) = access.next_key::<String>()? {
            if key == "metadata" && raw.is_none() {
                let text = access.next_value::<&RawValue>()?.get();
                let metadata = serde_json::Deserializer::from_str(text).deserialize_map(WithoutManagers);
                members.insert(key, metadata.map_err(serde::de::Error::custom)?);
                raw = Some(text);
            } else {
                members.insert(key, access.next_value()?);
            }
        }
        Ok((raw, Object(members)))
    }
}

/// Deserializes metadata without its managed fields.
struct WithoutManagers;

impl<'de> Visitor<'de> for WithoutManagers {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if key == "managedFields" {
                access.next_value::<IgnoredAny>()?;
            } else {
                members.insert(key, access.next_value()?);
            }
        }
        Ok(Value::Object(members))
    }
}
