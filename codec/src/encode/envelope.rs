//! Writes responses by copying stored bytes, with a prefix for kind and apiVersion where needed and the
//! resourceVersion spliced in.

use orlop_api::registry::Kind;

use crate::encode::shape;
use crate::encode::stored::{self, StoredObject};

/// Appends a stored object as a single object, with kind and apiVersion.
pub fn write_object(out: &mut Vec<u8>, kind: &dyn Kind, record: StoredObject<'_>) {
    if kind.is_custom() {
        return write_whole(out, kind, record);
    }
    let names = kind.names();
    out.extend_from_slice(b"{\"kind\":\"");
    out.extend_from_slice(names.kind.as_bytes());
    out.extend_from_slice(b"\",\"apiVersion\":\"");
    if !names.group.is_empty() {
        out.extend_from_slice(names.group.as_bytes());
        out.push(b'/');
    }
    out.extend_from_slice(names.version.as_bytes());
    out.extend_from_slice(b"\",");
    // The prefix already contains the opening brace of the stored bytes.
    write_body(out, kind, record, 1);
}

/// Appends a stored object as an item of a list, without kind and apiVersion.
pub fn write_item(out: &mut Vec<u8>, kind: &dyn Kind, record: StoredObject<'_>) {
    // Items of custom kinds include kind and apiVersion.
    if kind.is_custom() {
        return write_whole(out, kind, record);
    }
    write_body(out, kind, record, 0);
}

/// Appends a record of a custom kind in the form of its schema, with all members in alphabetical order.
fn write_whole(out: &mut Vec<u8>, kind: &dyn Kind, record: StoredObject<'_>) {
    let object = stored::decode_as(kind, record);
    // Writing JSON into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, &shape::with_kind(kind, object));
}

fn write_body(out: &mut Vec<u8>, kind: &dyn Kind, record: StoredObject<'_>, skip: usize) {
    if kind.is_view() {
        let object = stored::decode_as(kind, record);
        let start = out.len();
        // Writing JSON into memory cannot fail.
        let _ = serde_json::to_writer(&mut *out, &object.0);
        out.drain(start..start + skip);
        return;
    }
    let (head, tail) = record.value.split_at(record.splice.min(record.value.len()));
    out.extend_from_slice(&head[skip..]);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(itoa::Buffer::new().format(record.revision).as_bytes());
    out.extend_from_slice(b"\",");
    out.extend_from_slice(tail);
}
