//! The subset of protobuf that a Kubernetes client needs: length-delimited fields, and the envelope around every
//! object.

/// The prefix of the envelope.
const MAGIC: &[u8] = b"k8s\0";

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a string or a message.
pub(super) fn put(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A message of strings and messages.
pub(super) fn message(fields: &[(u64, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, bytes) in fields {
        put(&mut out, *number, bytes);
    }
    out
}

/// An object as the body of a request.
pub(super) fn envelope(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let meta = message(&[(1, api_version.as_bytes()), (2, kind.as_bytes())]);
    [MAGIC, &message(&[(1, &meta), (2, object), (3, b""), (4, b"")])].concat()
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The strings and messages with this field number; numeric fields are skipped.
pub(super) fn all(mut bytes: &[u8], number: u64) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = take_varint(&mut bytes).expect("a field begins with its number");
        match tag & 7 {
            0 => drop(take_varint(&mut bytes).expect("a number")),
            2 => {
                let length = take_varint(&mut bytes).expect("a length") as usize;
                let (field, rest) = bytes.split_at_checked(length).expect("a field is whole");
                bytes = rest;
                if tag >> 3 == number {
                    found.push(field);
                }
            }
            other => panic!("wire type {other} is in no object here"),
        }
    }
    found
}

/// The message at a path of field numbers; empty if there is none.
pub(super) fn at<'a>(bytes: &'a [u8], path: &[u64]) -> &'a [u8] {
    path.iter().fold(bytes, |bytes, number| all(bytes, *number).first().copied().unwrap_or_default())
}

/// The string at a path of field numbers.
pub(super) fn text(bytes: &[u8], path: &[u64]) -> String {
    String::from_utf8(at(bytes, path).to_vec()).expect("a text")
}

/// The kind in an envelope, and its object.
pub(super) fn opened(body: &[u8]) -> (String, &[u8]) {
    let unknown = body.strip_prefix(MAGIC).unwrap_or_else(|| panic!("no envelope: {body:?}"));
    (text(unknown, &[1, 2]), at(unknown, &[2]))
}

#[test]
fn written_messages_are_read_back() {
    let long = "x".repeat(300);
    let object = message(&[(1, &message(&[(1, b"name")])), (2, long.as_bytes()), (2, b"second")]);
    let body = envelope("v1", "ConfigMap", &object);
    let (kind, read) = opened(&body);
    assert_eq!((kind.as_str(), read), ("ConfigMap", &object[..]));
    assert_eq!(text(read, &[1, 1]), "name");
    assert_eq!(all(read, 2), [long.as_bytes(), b"second"]);
    assert_eq!(text(read, &[1, 7]), "");
}
