//! Lines of streams, timelines and captures: JSON, one object per line.

use orlop_store::{Event, Record, Revision};
use serde_json::{Map, Value, json};

use super::key_resolver::KindPrefix;
use super::past::time_text;
use super::{redact, remains};
use crate::encode::shape;
use crate::projection::Projection;
use crate::routes::version::git_version;
use orlop_api::status::ApiError;

/// The name and version of the format; incompatible changes increment the number.
pub(super) const FORMAT: &str = "orlop.dev/stream.1";

/// The type of a change to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Added,
    Modified,
    Deleted,
}

impl Type {
    fn text(self) -> &'static str {
        match self {
            Type::Added => "ADDED",
            Type::Modified => "MODIFIED",
            Type::Deleted => "DELETED",
        }
    }

    /// The type of an event and the record to report; for a deletion, the last state before it.
    pub(super) fn of(event: &Event<Projection>) -> Option<(Type, &Record<Projection>)> {
        match (&event.record, &event.prev) {
            (Some(record), None) => Some((Type::Added, &**record)),
            (Some(record), Some(_)) => Some((Type::Modified, &**record)),
            (None, Some(prev)) => Some((Type::Deleted, &**prev)),
            (None, None) => None,
        }
    }
}

/// Writes the first line: the revision, and the oldest revision that can be requested.
pub(super) fn header(
    out: &mut Vec<u8>,
    at: Revision,
    oldest: Revision,
    now_ms: i64,
    until: Option<Revision>,
) {
    let mut line = json!({
        "type": "HEADER", "format": FORMAT, "revision": at.to_string(), "oldest": oldest.to_string(),
        "time": time_text(now_ms), "server": git_version(),
    });
    if let Some(until) = until {
        line["until"] = until.to_string().into();
    }
    push(out, &line);
}

/// Reports that the state is complete.
pub(super) fn synced(out: &mut Vec<u8>, at: Revision) {
    push(out, &json!({"type": "SYNCED", "revision": at.to_string()}));
}

/// Reports that all changes up to a revision have been sent.
pub(super) fn progress(out: &mut Vec<u8>, at: Revision, now_ms: i64) {
    push(out, &json!({"type": "PROGRESS", "revision": at.to_string(), "time": time_text(now_ms)}));
}

/// Reports an error, which ends the stream.
pub(super) fn error(out: &mut Vec<u8>, error: &ApiError) {
    push(
        out,
        &json!({"type": "ERROR", "code": error.code, "reason": error.reason, "message": error.message}),
    );
}

/// Writes an object and its change.
pub(super) fn object(
    out: &mut Vec<u8>,
    place: &KindPrefix,
    ty: Type,
    record: &Record<Projection>,
    (revision, time_ms): (Revision, i64),
    managed_fields: bool,
) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(ty.text().as_bytes());
    out.extend_from_slice(b"\",\"resource\":\"");
    out.extend_from_slice(place.resource.as_bytes());
    out.extend_from_slice(b"\",\"revision\":\"");
    out.extend_from_slice(revision.to_string().as_bytes());
    out.extend_from_slice(b"\",\"time\":\"");
    out.extend_from_slice(time_text(time_ms).as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    write_object(out, place, record, revision, managed_fields);
    out.extend_from_slice(b"}\n");
}

fn write_object(
    out: &mut Vec<u8>,
    place: &KindPrefix,
    record: &Record<Projection>,
    revision: Revision,
    managed_fields: bool,
) {
    let kind = &*place.kind;
    if redact::is_secret(kind) || kind.reads_through() {
        let mut object = remains::shown(kind, record);
        object.set(&["metadata", "resourceVersion"], revision.to_string());
        if !managed_fields {
            object.meta().remove("managedFields");
        }
        let mut value = shape::with_kind(kind, object);
        if redact::is_secret(kind) {
            redact::object(&mut value);
        }
        // Writing JSON into memory cannot fail.
        let _ = serde_json::to_writer(&mut *out, &value);
        return;
    }
    let start = out.len();
    remains::write(out, kind, record, revision);
    if !managed_fields && let Some(found) = managed_member(&out[start..]) {
        out.drain(start + found.start..start + found.end);
    }
}

/// The byte range of the managed fields in an encoded object, including the comma before them. They are the last
/// member of the metadata, and quotes within strings are escaped, so the first match is the right one (or the
/// metadata of a template, whose managed fields are not needed either).
fn managed_member(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    const NAME: &[u8] = b",\"managedFields\":[";
    let start = bytes.windows(NAME.len()).position(|window| window == NAME)?;
    let (mut depth, mut in_text, mut escaped) = (1, false, false);
    for (at, byte) in bytes.iter().enumerate().skip(start + NAME.len()) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' if !in_text => depth += 1,
            b']' if !in_text => {
                depth -= 1;
                if depth == 0 {
                    return Some(start..at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Writes one line per write, without the object.
pub(super) fn write(out: &mut Vec<u8>, place: &KindPrefix, event: &Event<Projection>) {
    let Some((ty, record)) = Type::of(event) else { return };
    let (namespace, name) = crate::dispatch::key_names(&*place.kind, event.key.as_str());
    let mut line = Map::new();
    line.insert("revision".to_owned(), event.revision.to_string().into());
    line.insert("time".to_owned(), time_text(event.time_ms).into());
    line.insert("type".to_owned(), ty.text().into());
    line.insert("resource".to_owned(), place.resource.clone().into());
    if !namespace.is_empty() {
        line.insert("namespace".to_owned(), namespace.into());
    }
    line.insert("name".to_owned(), name.into());
    line.insert("uid".to_owned(), uid(record).into());
    push(out, &Value::Object(line));
}

/// The UID, which comes directly before the splice point (or the record has none).
fn uid(record: &Record<Projection>) -> String {
    const NAME: &[u8] = b"\"uid\":\"";
    let head = record.value.get(..record.view.splice).unwrap_or_default();
    let Some(start) = head.windows(NAME.len()).rposition(|window| window == NAME) else {
        return String::new();
    };
    let rest = &head[start + NAME.len()..];
    let end = rest.iter().position(|byte| *byte == b'"').unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..end]).into_owned()
}

fn push(out: &mut Vec<u8>, line: &Value) {
    // Writing JSON into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, line);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_are_removed_from_encoded_objects() {
        for (case, text, want) in [
            ("1 none", r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
            (
                "2 last",
                r#"{"metadata":{"name":"a","managedFields":[{"f":["]"]}]},"b":1}"#,
                r#"{"metadata":{"name":"a"},"b":1}"#,
            ),
            (
                "3 a text with brackets",
                r#"{"m":{"n":1,"managedFields":[{"x":"\"]\\"}]}}"#,
                r#"{"m":{"n":1}}"#,
            ),
            ("4 named in a text", r#"{"a":"x,\"managedFields\":[]"}"#, r#"{"a":"x,\"managedFields\":[]"}"#),
            ("5 never ends", r#"{"a":1,"managedFields":["#, r#"{"a":1,"managedFields":["#),
        ] {
            let mut bytes = text.as_bytes().to_vec();
            if let Some(found) = managed_member(&bytes) {
                bytes.drain(found);
            }
            assert_eq!(String::from_utf8_lossy(&bytes), want, "{case}");
        }
    }
}
