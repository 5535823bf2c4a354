//! What remains of an object whose value cannot be read, for readers of the past: at least its name, and an annotation with the reason.
//!
//! No writer and no decision may use it: the object lacks fields that exist.

use orlop_api::object::Object;
use orlop_codec::encode::envelope;
use orlop_codec::encode::stored::{self as codec, StoredObject};
use orlop_store::{Record, Revision};

use crate::encode::shape;
use crate::encode::stored::at;
use crate::projection::Projection;
use crate::registry::Kind;

/// The annotation of an object that stands for an unreadable value.
const UNREADABLE: &str = "orlop.dev/unreadable";

/// The object of a record in its stored form, or what remains of it.
pub(super) fn of(record: &Record<Projection>) -> Object {
    match record.unreadable() {
        None => codec::decode(at(record, record.mod_revision)),
        Some(why) => stub(record, record.mod_revision, &why.to_string()),
    }
}

/// The same in the form that a kind shows.
pub(super) fn shown(kind: &dyn Kind, record: &Record<Projection>) -> Object {
    kind.to_shown(of(record))
}

/// Appends the object of a record, or what remains of it, with kind and apiVersion, at a revision.
pub(super) fn write(out: &mut Vec<u8>, kind: &dyn Kind, record: &Record<Projection>, revision: Revision) {
    let Some(why) = record.unreadable() else {
        let object: StoredObject<'_> = at(record, revision);
        return envelope::write_object(out, kind, object);
    };
    let value = shape::with_kind(kind, stub(record, revision, &why.to_string()));
    // Writing JSON into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, &value);
}

/// An object that stands for an unreadable value.
fn stub(record: &Record<Projection>, revision: Revision, why: &str) -> Object {
    let place = record.key.as_str().strip_prefix(record.key.topic()).unwrap_or_default();
    let mut object = Object::default();
    match place.split_once('/') {
        Some((namespace, name)) => {
            object.set(&["metadata", "name"], name);
            object.set(&["metadata", "namespace"], namespace);
        }
        None => object.set(&["metadata", "name"], place),
    }
    object.set(&["metadata", "resourceVersion"], revision.to_string());
    object.set(&["metadata", "annotations", UNREADABLE], why);
    object
}
