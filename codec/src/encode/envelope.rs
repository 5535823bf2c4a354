//! Writes responses by copying stored bytes, with a prefix for kind and apiVersion where needed and the
//! resourceVersion spliced in.

use orlop_api::registry::Kind;

use crate::encode::partial;
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

/// Appends the metadata of a stored object as `PartialObjectMetadata` of a version of meta.k8s.io. The rest of the object is not read,
/// unless the kind shows another form than the stored one.
pub fn write_metadata(out: &mut Vec<u8>, kind: &dyn Kind, version: &str, record: StoredObject<'_>) {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/");
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    let is_stored_form = !kind.is_custom() && !kind.is_view() && kind.converted_annotations().is_empty();
    let range = if is_stored_form { partial::metadata_range(record.value) } else { None };
    match range.filter(|range| range.contains(&record.splice)) {
        Some(range) => {
            let (head, tail) = record.value[..range.end].split_at(record.splice);
            out.extend_from_slice(&head[range.start..]);
            write_revision(out, record.revision);
            out.extend_from_slice(tail);
        }
        None => {
            let metadata = shape::shown_metadata(kind, &stored::decode_as(kind, record));
            // Writing JSON into memory cannot fail.
            let _ = serde_json::to_writer(&mut *out, &metadata);
        }
    }
    out.push(b'}');
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
    write_revision(out, record.revision);
    out.extend_from_slice(tail);
}

/// Appends the member resourceVersion, which another member follows.
fn write_revision(out: &mut Vec<u8>, revision: u64) {
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(itoa::Buffer::new().format(revision).as_bytes());
    out.extend_from_slice(b"\",");
}

#[cfg(test)]
mod tests {
    use orlop_api::object::Object;
    use orlop_api::registry::{BUILTIN_KINDS, by_resource};
    use serde_json::{Value, json};

    use super::*;

    fn record_metadata(kind: &dyn Kind, value: &[u8], splice: usize) -> Value {
        let mut out = Vec::new();
        write_metadata(&mut out, kind, "v1", StoredObject { value, splice, revision: 7 });
        serde_json::from_slice(&out).expect("it is JSON")
    }

    /// The bytes are those of the decoded object, for all kinds.
    #[test]
    fn metadata_is_that_of_the_whole_object() {
        let metadata = json!({"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"deprecated.daemonset.template.generation": "1", "a": "}]\\\""},
            "managedFields": [{"manager": "m", "fieldsV1": {"f:metadata": {}}}]});
        for kind in BUILTIN_KINDS.iter().copied() {
            let object = Object::from_value(json!({"metadata": metadata, "spec": {"metadata": {}}}));
            let (value, view) = stored::encode(kind, &object);
            let stored = StoredObject { value: &value, splice: view.splice, revision: 7 };
            let want = shape::metadata_only(kind, "v1", &stored::decode_as(kind, stored));
            assert_eq!(record_metadata(kind, &value, view.splice), want, "{}", kind.names().plural);
        }
    }

    /// Bytes in another order, such as those of another program, are decoded.
    #[test]
    fn metadata_of_a_foreign_order_is_decoded() {
        let kind = by_resource("", "v1", "pods").expect("a kind");
        let metadata = json!({"name": "a", "uid": "u", "resourceVersion": "7"});
        for value in
            [r#"{"kind":"Pod","metadata":{"name":"a","uid":"u"}}"#, r#"{ "metadata":{"uid":"u","name":"a"}}"#]
        {
            assert_eq!(record_metadata(kind, value.as_bytes(), 0)["metadata"], metadata, "{value}");
        }
    }
}
