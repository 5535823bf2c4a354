//! Answers as copies of stored bytes: a prefix with kind and apiVersion where the wire wants one,
//! and the resourceVersion spliced in.

use std::io::Write;

use orlop_store::{Record, Revision};

use crate::encode::{shape, stored};
use crate::projection::Projection;
use crate::registry::Kind;

/// Appends a record as a single object, with kind and apiVersion, at a revision (its own, or that
/// of the deletion).
pub(crate) fn write_object(
    out: &mut Vec<u8>,
    kind: &dyn Kind,
    record: &Record<Projection>,
    revision: Revision,
) {
    if kind.is_custom() {
        return write_whole(out, kind, record, revision);
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
    // The stored bytes start with the brace that the prefix has opened already.
    write_body(out, kind, record, revision, 1);
}

/// Appends a record as an item of a list, without kind and apiVersion.
pub(crate) fn write_item(out: &mut Vec<u8>, kind: &dyn Kind, record: &Record<Projection>) {
    // Items of custom kinds say what they are.
    if kind.is_custom() {
        return write_whole(out, kind, record, record.mod_revision);
    }
    write_body(out, kind, record, record.mod_revision, 0);
}

/// Appends a record of a custom kind: as its schema shows it, all members in alphabetical order.
fn write_whole(out: &mut Vec<u8>, kind: &dyn Kind, record: &Record<Projection>, revision: Revision) {
    let mut object = stored::decode_as(kind, record);
    object.set(&["metadata", "resourceVersion"], revision.to_string());
    // Writing JSON into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, &shape::with_kind(kind, object));
}

fn write_body(
    out: &mut Vec<u8>,
    kind: &dyn Kind,
    record: &Record<Projection>,
    revision: Revision,
    skip: usize,
) {
    if kind.is_view() {
        let mut object = stored::decode_as(kind, record);
        object.set(&["metadata", "resourceVersion"], revision.to_string());
        let start = out.len();
        // Writing JSON into memory cannot fail.
        let _ = serde_json::to_writer(&mut *out, &object.0);
        out.drain(start..start + skip);
        return;
    }
    let (head, tail) = record.value.split_at(record.view.splice.min(record.value.len()));
    out.extend_from_slice(&head[skip..]);
    let _ = write!(out, "\"resourceVersion\":\"{revision}\",");
    out.extend_from_slice(tail);
}
