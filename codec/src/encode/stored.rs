//! Converts objects to the stored bytes and back.
//!
//! Stored bytes are canonical: equal objects have equal bytes, so comparing bytes detects a write that changes
//! nothing. They contain no kind, apiVersion or resourceVersion.

use bytes::Bytes;
use orlop_api::object::Object;
use orlop_api::projection::Projection;
use orlop_api::registry::Kind;
use serde_json::Value;

/// A stored object and its revision.
#[derive(Clone, Copy, Debug)]
pub struct StoredObject<'a> {
    /// The stored bytes.
    pub value: &'a [u8],
    /// The offset in the bytes where the resourceVersion is spliced in.
    pub splice: usize,
    /// The resourceVersion.
    pub revision: u64,
}

/// The members of `metadata` in upstream's order, without the resourceVersion.
const METADATA: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Returns the bytes and the projection of an object. The object must be in its stored form (not a view) and
/// have a uid and a creation time.
pub fn encode(kind: &dyn Kind, object: &Object) -> (Bytes, Projection) {
    let (out, projection) = write(kind, object);
    (exact(out), projection)
}

/// Shrinks the allocation to the length of the bytes, which stay in memory for the lifetime of the object.
fn exact(out: Vec<u8>) -> Bytes {
    Bytes::from(out.into_boxed_slice())
}

fn write(kind: &dyn Kind, object: &Object) -> (Vec<u8>, Projection) {
    let mut out = Vec::with_capacity(2048);
    out.extend_from_slice(b"{\"metadata\":{");
    let mut splice = out.len();
    if let Some(metadata) = object.at(&["metadata"]).and_then(Value::as_object) {
        let mut first = true;
        for name in METADATA {
            let Some(value) = metadata.get(*name) else { continue };
            if !first {
                out.push(b',');
            }
            first = false;
            write_member(&mut out, name, value);
            if *name == "uid" {
                // The creation time follows, so the splice point ends with its comma.
                splice = out.len() + 1;
            }
        }
    }
    out.push(b'}');
    for (name, value) in &object.0 {
        if name != "metadata" {
            out.push(b',');
            write_member(&mut out, name, value);
        }
    }
    out.push(b'}');
    let projection = Projection::new(kind, object, splice);
    (out, projection)
}

fn write_member(out: &mut Vec<u8>, name: &str, value: &Value) {
    // Writing JSON into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, name);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

/// Same as `encode`, for a new object. If the kind's first update must be written
/// ([`Kind::first_update_writes`]), a trailing space makes the bytes differ from the canonical form; JSON
/// ignores it.
pub fn encode_new(kind: &dyn Kind, object: &Object) -> (Bytes, Projection) {
    let (mut out, view) = write(kind, object);
    if kind.first_update_writes() {
        out.push(b' ');
    }
    (exact(out), view)
}

/// Decodes a stored object in its stored form, with its resourceVersion.
pub fn decode(stored: StoredObject<'_>) -> Object {
    let mut object =
        serde_json::from_slice::<Value>(stored.value).map(Object::from_value).unwrap_or_default();
    object.set(&["metadata", "resourceVersion"], stored.revision.to_string());
    object
}

/// Decodes a stored object in the form that the kind shows.
pub fn decode_as(kind: &dyn Kind, stored: StoredObject<'_>) -> Object {
    kind.to_shown(decode(stored))
}
