//! Encodes and decodes records of the store with `orlop-codec`.
//!
//! The value of a record may be unreadable, for example if its key is not in the encryption configuration, or a former version that
//! is not retained. Decoding then fails, and with it the request. Only readers of the past continue with what remains of such an object
//! (`insight/remains.rs`).

use bytes::Bytes;
use orlop_codec::encode::envelope;
use orlop_codec::encode::stored::{self, StoredObject};
use orlop_store::{Record, Revision, Stored};

use crate::projection::Projection;
use crate::registry::Kind;
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_apimachinery::quoted;

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

/// Checks that the value of a record can be read. The error is upstream's for a value that cannot be decrypted.
pub(crate) fn readable(record: &Record<Projection>) -> Result<(), ApiError> {
    match &record.stored {
        Stored::Plain | Stored::Transformed(_) => Ok(()),
        Stored::Unreadable { why, .. } => {
            Err(ApiError::internal(format!("unable to transform key {}: {why}", quoted(record.key.as_str()))))
        }
        // In the state at an old revision.
        Stored::Erased => Err(ApiError::expired(
            "the state at this resourceVersion contains a former version of an object that is not retained",
        )),
    }
}

/// Decodes the object of a record in its stored form, with its resourceVersion.
///
/// # Errors
/// The value of the record cannot be read. A writer must not replace it, and a decision must not ignore it.
pub(crate) fn decode(record: &Record<Projection>) -> Result<Object, ApiError> {
    readable(record)?;
    Ok(stored::decode(current(record)))
}

/// Decodes the object of a record in the form that a kind shows.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_as(kind: &dyn Kind, record: &Record<Projection>) -> Result<Object, ApiError> {
    Ok(kind.to_shown(decode(record)?))
}

/// Appends a record as a single object, with kind and apiVersion, at a revision.
///
/// # Errors
/// As [`decode`].
pub(crate) fn write_object(
    out: &mut Vec<u8>,
    kind: &dyn Kind,
    record: &Record<Projection>,
    revision: Revision,
) -> Result<(), ApiError> {
    readable(record)?;
    envelope::write_object(out, kind, at(record, revision));
    Ok(())
}

/// Appends the metadata of a record as `PartialObjectMetadata` of a version of meta.k8s.io, at a revision. The caller has checked that
/// it is [`readable`].
pub(crate) fn write_metadata(
    out: &mut Vec<u8>,
    kind: &dyn Kind,
    version: &str,
    record: &Record<Projection>,
    revision: Revision,
) {
    envelope::write_metadata(out, kind, version, at(record, revision));
}

/// Appends a record as an item of a list, without kind and apiVersion. The caller has checked that it is [`readable`].
pub(crate) fn write_item(out: &mut Vec<u8>, kind: &dyn Kind, record: &Record<Projection>) {
    envelope::write_item(out, kind, current(record));
}
