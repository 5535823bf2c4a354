//! From an object in flight to the bytes that are stored, and back.
//!
//! Stored bytes are canonical: the same object always gives the same bytes, so that a write that
//! changes nothing is found by comparing them. They hold no kind, apiVersion or resourceVersion.

use bytes::Bytes;
use orlop_api::object::Object;
use orlop_api::projection::Projection;
use orlop_api::registry::Kind;
use serde_json::Value;

/// An object as it is stored, and the revision that it is shown at.
#[derive(Clone, Copy, Debug)]
pub struct StoredObject<'a> {
    /// The stored bytes.
    pub value: &'a [u8],
    /// The offset in the bytes where the resourceVersion is spliced in.
    pub splice: usize,
    /// The resourceVersion.
    pub revision: u64,
}

/// The members of `metadata` in upstream's order, the resourceVersion left out.
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

/// Bytes and projection of an object. The object is in its stored form (no view) and has a uid
/// and a creation time.
pub fn encode(kind: &dyn Kind, object: &Object) -> (Bytes, Projection) {
    let (out, projection) = write(kind, object);
    (exact(out), projection)
}

/// Bytes that take no more memory than they are long: they are kept as long as the object lives.
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
                // The creation time follows, and with it the comma that ends the splice point.
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

/// The same for a new object. Where the first update must write ([`Kind::first_update_writes`])
/// the bytes are not quite canonical: a blank stands behind them, which is nothing to JSON.
pub fn encode_new(kind: &dyn Kind, object: &Object) -> (Bytes, Projection) {
    let (mut out, view) = write(kind, object);
    if kind.first_update_writes() {
        out.push(b' ');
    }
    (exact(out), view)
}

/// A stored object in its stored form, with its resourceVersion.
pub fn decode(stored: StoredObject<'_>) -> Object {
    let mut object =
        serde_json::from_slice::<Value>(stored.value).map(Object::from_value).unwrap_or_default();
    object.set(&["metadata", "resourceVersion"], stored.revision.to_string());
    object
}

/// A stored object as a kind shows it.
pub fn decode_as(kind: &dyn Kind, stored: StoredObject<'_>) -> Object {
    kind.to_shown(decode(stored))
}
