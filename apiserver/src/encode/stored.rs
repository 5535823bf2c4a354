//! Encodes and decodes records of the store with `orlop-codec`.

use bytes::Bytes;
use orlop_codec::encode::envelope;
use orlop_codec::encode::stored::{self, StoredObject};
use orlop_store::{Record, Revision};

use crate::projection::Projection;
use crate::registry::Kind;
use orlop_api::object::Object;

/// Returns the stored object of a record at a revision (its own, or that of the deletion).
pub(crate) fn at(record: &Record<Projection>, revision: Revision) -> StoredObject<'_> {
    StoredObject { value: &record.value, splice: record.view.splice, revision: revision.0 }
}

fn current(record: &Record<Projection>) -> StoredObject<'_> {
    at(record, record.mod_revision)
}

/// Encodes an object to bytes and its projection. The object must be in its stored form (no view) and have a
/// UID and a creation time.
pub(crate) fn encode(kind: &dyn Kind, object: &Object) -> (Bytes, Projection) {
    let (value, projection) = stored::encode(kind, object);
    (value, Projection(projection))
}

/// Encodes a new object.
pub(crate) fn encode_new(kind: &dyn Kind, object: &Object) -> (Bytes, Projection) {
    let (value, projection) = stored::encode_new(kind, object);
    (value, Projection(projection))
}

/// Decodes the object of a record in its stored form, with its resourceVersion.
pub(crate) fn decode(record: &Record<Projection>) -> Object {
    stored::decode(current(record))
}

/// Decodes the object of a record in the form that a kind shows.
pub(crate) fn decode_as(kind: &dyn Kind, record: &Record<Projection>) -> Object {
    stored::decode_as(kind, current(record))
}

/// Appends a record as a single object, with kind and apiVersion, at a revision.
pub(crate) fn write_object(
    out: &mut Vec<u8>,
    kind: &dyn Kind,
    record: &Record<Projection>,
    revision: Revision,
) {
    envelope::write_object(out, kind, at(record, revision));
}

/// Appends a record as an item of a list, without kind and apiVersion.
pub(crate) fn write_item(out: &mut Vec<u8>, kind: &dyn Kind, record: &Record<Projection>) {
    envelope::write_item(out, kind, current(record));
}
