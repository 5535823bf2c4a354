//! Estimates the weight of a document ([`super::values`]) without decoding it, in one pass over its bytes.
//!
//! The estimates of JSON and protobuf are about the weight that their decoders count. YAML has many forms, so its estimate counts every
//! character that can begin a value.

use std::collections::HashSet;

use super::Media;
use super::protobuf::{self, Wire};
use super::values::{MAX_WEIGHT, OBJECT};
use super::walk::MAX_DEPTH;
use super::yaml;

/// The weight of an object with members.
const OBJECT_WEIGHT: u64 = OBJECT as u64;
/// The weight of an empty message in a list: 2 bytes in protobuf, which become an item with all absent fields of its type. An empty
/// volume needs 7 KB.
const EMPTY_ITEM: u64 = 12;
/// The number of values of a YAML document, recorded for aliases, that need as much memory as one unit of weight.
const RECORDED_PER_UNIT: u64 = 6;
/// How often the bytes of a protobuf document may be read as JSON. A message whose first field has the tag of `{` also looks like JSON.
const JSON_SCANS: usize = 8;
/// The most anchors of a YAML document that are compared with its aliases.
const ANCHORS_MAX: usize = 1_000;

/// Estimates the weight of a JSON document. A line counts as a value. An empty object as a member of another is a name in a set of
/// fields, such as `"f:image":{}` in managed fields, and counts as 1.
pub fn estimate_weight(document: &[u8]) -> u64 {
    let mut in_string = false;
    let mut weight = 0;
    // The last byte outside of strings that is not whitespace.
    let mut last = 0;
    let mut bytes = document.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            _ if in_string => continue,
            b'{' if last == b':' && is_closed(bytes.as_slice()) => weight += 1,
            b'{' => weight += OBJECT_WEIGHT,
            b',' | b'[' | b'\n' => weight += 1,
            _ => {}
        }
        if !in_string && !byte.is_ascii_whitespace() {
            last = *byte;
        }
    }
    weight
}

/// An upper bound of [`estimate_weight`] that takes a tenth of its time: it counts characters without regard to strings.
pub fn weight_bound(document: &[u8]) -> u64 {
    let count = |wanted: u8| document.iter().filter(|byte| **byte == wanted).count() as u64;
    count(b'{') * OBJECT_WEIGHT + count(b',') + count(b'[') + count(b'\n')
}

/// Whether an object ends where it begins.
fn is_closed(rest: &[u8]) -> bool {
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}')
}

/// Estimates the weight of a body. An adversary cannot make the estimate much smaller than the work of the decoder.
pub fn estimate_body_weight(media: Media, body: &[u8]) -> u64 {
    match media {
        Media::Json => estimate_weight(body),
        Media::Yaml => of_yaml(body),
        Media::Protobuf => of_protobuf(body),
    }
}

fn of_yaml(document: &[u8]) -> u64 {
    let written = if has_quotes_of_json(document) { estimate_weight(document) } else { markers(document) };
    let (anchors, has_aliases) = anchors(document);
    let bytes = document.len();
    let recorded = if anchors { yaml::recorded_max(bytes) as u64 / RECORDED_PER_UNIT } else { 0 };
    let replayed = if has_aliases { yaml::replayed_max(bytes) as u64 * OBJECT_WEIGHT } else { 0 };
    written + recorded + replayed.min(MAX_WEIGHT)
}

/// The weight of everything that can begin a value in YAML, also within text.
fn markers(document: &[u8]) -> u64 {
    let mut weight = 0;
    let mut last = 0;
    for (at, byte) in document.iter().enumerate() {
        weight += match byte {
            b'{' => OBJECT_WEIGHT,
            // The line after a name may begin an object.
            b'\n' | b'\r' if last == b':' => OBJECT_WEIGHT,
            b'-' | b'?' if document.get(at + 1).is_none_or(u8::is_ascii_whitespace) => OBJECT_WEIGHT,
            b',' | b'[' | b'\n' | b'\r' => 1,
            _ => 0,
        };
        last = *byte;
    }
    weight
}

/// Whether YAML reads the quotes of a text as JSON does. In other texts a quote can be part of an unquoted text (`a: 5"`). Clients send
/// JSON as YAML for a server-side apply.
fn has_quotes_of_json(document: &[u8]) -> bool {
    if !matches!(document.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return false;
    }
    let mut in_string = false;
    // The last two bytes outside of strings that are not whitespace, with quotes.
    let mut last = [0; 2];
    let mut bytes = document.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_string => drop(bytes.next()),
            b'"' if in_string => in_string = false,
            _ if in_string => continue,
            b'"' if matches!(last, [_, b'{' | b'[' | b','] | [b'"', b':']) => in_string = true,
            b'{' | b'}' | b'[' | b']' | b',' | b':' | b'+' | b'-' | b'.' => {}
            byte if byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() => {}
            _ => return false,
        }
        if !in_string && !byte.is_ascii_whitespace() {
            last = [last[1], *byte];
        }
    }
    true
}

/// Whether a YAML document may have anchors, and whether it may have aliases of them. `&amp;` and `*emphasis*` in a text are no pair.
fn anchors(document: &[u8]) -> (bool, bool) {
    let names = |mark: u8| {
        document.iter().enumerate().filter(move |(_, byte)| **byte == mark).filter_map(|(at, _)| {
            let rest = &document[at + 1..];
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            // Other characters may be part of a name, so all such names are equal here.
            let end = rest.iter().position(|byte| !is_name(byte)).unwrap_or(rest.len());
            (!rest.first()?.is_ascii_whitespace()).then_some(&rest[..end])
        })
    };
    let anchors: HashSet<&[u8]> = names(b'&').take(ANCHORS_MAX).collect();
    // Each alias may be one of the others.
    let has_more = names(b'&').nth(ANCHORS_MAX).is_some();
    let is_alias = |name: &[u8]| has_more || anchors.contains(name);
    (!anchors.is_empty(), !anchors.is_empty() && names(b'*').any(is_alias))
}

fn of_protobuf(document: &[u8]) -> u64 {
    let Some(envelope) = document.strip_prefix(protobuf::MAGIC) else { return 0 };
    // Each byte of a list of numbers may be a value.
    let at_least = document.len() as u64 / 8;
    let mut json_left = document.len().saturating_mul(JSON_SCANS);
    fields(envelope, 0, &mut json_left).0.max(at_least)
}

/// The weight of the fields of a message up to the first error, and whether there is no error. The types are unknown, so a text that
/// could also be a message counts as one.
///
/// `json_left` is the number of bytes that may still be read as JSON.
fn fields(message: &[u8], depth: usize, json_left: &mut usize) -> (u64, bool) {
    let mut weight = 0;
    // The numbers below 64 that have occurred. A field that occurs again is a list.
    let mut seen: u64 = 0;
    for part in protobuf::parts(message) {
        let Ok((number, wire)) = part else { return (weight, false) };
        let bit = 1_u64.checked_shl(number).unwrap_or(0);
        let is_list = bit == 0 || seen & bit != 0;
        seen |= bit;
        weight += match wire {
            Wire::Number(_) => 1,
            Wire::Bytes(content) => of_content(content, is_list, depth + 1, json_left),
        };
    }
    (weight, true)
}

/// The weight of the content of a field: a text, a message, or JSON.
fn of_content(content: &[u8], is_list: bool, depth: usize, json_left: &mut usize) -> u64 {
    if content.is_empty() {
        return if is_list { EMPTY_ITEM } else { 1 };
    }
    let is_json = matches!(content.trim_ascii_start().first(), Some(b'{' | b'['));
    let json = match (is_json, json_left.checked_sub(content.len())) {
        (false, _) => 0,
        (true, Some(left)) => {
            *json_left = left;
            estimate_weight(content)
        }
        // Messages nested in messages look like JSON at every level, which no client sends.
        (true, None) => return MAX_WEIGHT,
    };
    if depth > MAX_DEPTH {
        return 1 + json;
    }
    let (fields, is_message) = fields(content, depth, json_left);
    1 + json + fields + if is_message { OBJECT_WEIGHT } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_of_json_is_estimated() {
        for (document, weight) in [
            (r#"{"a":[1,2,{"b":"x,y{\"[,"}]}"#, 19),
            (r#"{"f:a":{},"f:b": { },"f:c":{"f:d":{}}}"#, 8 + 3 + 8 + 2),
            ("[{},{}, { }]", 27),
            (r#"{"a":{"#, 16),
            ("", 0),
        ] {
            assert_eq!(estimate_weight(document.as_bytes()), weight, "{document}");
        }
    }

    #[test]
    fn weight_of_yaml_is_not_underestimated() {
        let recorded = |bytes: usize| (1_000 + 20 * bytes as u64) / RECORDED_PER_UNIT;
        for (case, document, weight) in [
            ("1 lines", "a:\n- b: 1\n- b: 2\n".to_owned(), 8 + 2 * (8 + 1)),
            ("2 JSON", r#"{"a": ["{{{,,,", 1.5, true], "b":"["}"#.to_owned(), 8 + 1 + 2 + 1),
            ("3 a quote in a text", "a: 5\"\nb: [{},{}]\n".to_owned(), 1 + 1 + 8 + 1 + 8 + 1),
            ("4 a quote in a flow", "{a: b:\"c, d: [{},{}]}".to_owned(), 8 + 1 + 1 + 8 + 1 + 8),
            ("5 a quote in a comment", "{ # \"\n a: [{},{}]}".to_owned(), 8 + 1 + 1 + 8 + 1 + 8),
            ("6 names without aliases", "a: x&amp;y *b*\n".to_owned(), 1 + recorded(15)),
            ("7 an alias", "a: &a 1\nb: *a\n".to_owned(), 2 + recorded(14) + 8 * (1_000 + 2 * 14)),
        ] {
            assert_eq!(estimate_body_weight(Media::Yaml, document.as_bytes()), weight, "{case}");
        }
        let long = format!("a: &a 1\nb: *a\nc: {}\n", "x".repeat(3 << 20));
        assert!(estimate_body_weight(Media::Yaml, long.as_bytes()) >= MAX_WEIGHT);
    }

    /// A field with a length below 16,384.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let [low, high] =
            [content.len() & 0x7f, content.len() >> 7].map(|bits| u8::try_from(bits).expect("7 bits"));
        let head =
            if high == 0 { vec![number << 3 | 2, low] } else { vec![number << 3 | 2, low | 0x80, high] };
        [&head, content].concat()
    }

    #[test]
    fn weight_of_protobuf_counts_fields() {
        let empty = [10, 0];
        let text = field(1, b"default");
        for (case, message, weight) in [
            ("1 nothing", Vec::new(), 1),
            ("2 a text", text.clone(), 1 + 8 + 1),
            ("3 empty texts of an object", [field(1, b""), field(2, b""), field(3, b"")].concat(), 1 + 8 + 3),
            ("4 a list of empty items", empty.repeat(100), 1 + 8 + 1 + 99 * 12),
            ("5 a list of small items", field(1, &empty).repeat(100), 1 + 8 + 100 * (1 + 8 + 1)),
            (
                "6 empty lists in turn",
                [field(1, b""), field(2, b"")].concat().repeat(50),
                1 + 8 + 2 + 98 * 12,
            ),
            ("7 an error at the end", [empty.repeat(100), vec![7]].concat(), 1 + 1 + 99 * 12),
            ("8 JSON", field(1, br#" {"f:a":{},"b":[0,0]}"#), 1 + 8 + 2 + 12),
            ("9 a high number", [0x82, 8, 0].repeat(3), 1 + 8 + 3 * 12),
            ("10 packed numbers", field(1, &[0; 8_000]), 8_010 / 8),
        ] {
            let document = [b"k8s\0", field(2, &message).as_slice()].concat();
            assert_eq!(estimate_body_weight(Media::Protobuf, &document), weight, "{case}");
        }
        assert_eq!(estimate_body_weight(Media::Protobuf, b"\x0a\x00"), 0, "the decoder rejects it");
        let deep = (0..300).fold(Vec::new(), |inner, _| field(1, &inner));
        assert!(estimate_body_weight(Media::Protobuf, &[b"k8s\0", deep.as_slice()].concat()) > 800);
    }
}
