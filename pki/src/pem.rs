//! Blocks of PEM (RFC 7468), read as generously as Go's `encoding/pem`: other text around and between blocks is skipped, and lines may
//! have any length. One pass over the text, so its cost is linear.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The label of a certificate.
pub const CERTIFICATE: &str = "CERTIFICATE";
/// The label of a certificate request.
pub const REQUEST: &str = "CERTIFICATE REQUEST";

const LINE: usize = 64;

/// A block. It may contain a private key, so it has no `Debug`.
pub struct Block {
    /// The text after `BEGIN`, such as `CERTIFICATE`.
    pub label: String,
    /// Whether lines such as `Proc-Type: 4,ENCRYPTED` precede the content.
    pub has_headers: bool,
    /// The content.
    pub bytes: Vec<u8>,
}

/// The first block of a text, and the text after it. Damaged blocks are skipped.
pub fn next(text: &[u8]) -> Option<(Block, &[u8])> {
    let mut open: Option<(&[u8], usize)> = None;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
        let line = rest[..length].trim_ascii_end();
        if let Some(label) = between(line, b"-----BEGIN ") {
            open = Some((label, at + length));
        } else if let Some(label) = between(line, b"-----END ")
            && let Some((begun, start)) = open.take()
            && begun == label
            && let Some(block) = decode(label, &text[start..at])
        {
            return Some((block, &text[at + length..]));
        }
        at += length;
    }
    None
}

/// All blocks of a text.
pub fn blocks(text: &[u8]) -> impl Iterator<Item = Block> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (block, after) = next(rest)?;
        rest = after;
        Some(block)
    })
}

fn between<'a>(line: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    line.strip_prefix(prefix)?.strip_suffix(b"-----")
}

fn decode(label: &[u8], body: &[u8]) -> Option<Block> {
    let mut has_headers = false;
    let mut content = Vec::with_capacity(body.len());
    for line in body.split(|byte| *byte == b'\n') {
        if content.is_empty() && line.contains(&b':') {
            has_headers = true;
        } else {
            content.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
        }
    }
    let bytes = STANDARD.decode(content).ok()?;
    Some(Block { label: String::from_utf8(label.to_vec()).ok()?, has_headers, bytes })
}

/// A block as text.
pub fn encode(label: &str, bytes: &[u8]) -> String {
    let content = STANDARD.encode(bytes);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in content.as_bytes().chunks(LINE) {
        // Base64 is ASCII.
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<(String, bool, Vec<u8>)> {
        blocks(text.as_bytes()).map(|block| (block.label, block.has_headers, block.bytes)).collect()
    }

    #[test]
    fn blocks_are_read_between_other_text() {
        let block = |label: &str, bytes: &[u8]| (label.to_owned(), false, bytes.to_vec());
        let long = vec![7; 200];
        let cases: [(&str, String, Vec<_>); 8] = [
            ("1 one", encode("A", b"abc"), vec![block("A", b"abc")]),
            ("2 long", encode("A B", &long), vec![block("A B", &long)]),
            (
                "3 text around",
                format!("x\n{}y\n{}z", encode("A", b"1"), encode("B", b"2")),
                vec![block("A", b"1"), block("B", b"2")],
            ),
            ("4 CR LF", encode("A", b"abc").replace('\n', "\r\n"), vec![block("A", b"abc")]),
            ("5 another end", "-----BEGIN A-----\nYWJj\n-----END B-----\n".to_owned(), vec![]),
            ("6 no end", "-----BEGIN A-----\nYWJj\n".to_owned(), vec![]),
            (
                "7 damaged, then good",
                format!("-----BEGIN A-----\n*\n-----END A-----\n{}", encode("A", b"1")),
                vec![block("A", b"1")],
            ),
            (
                "8 headers",
                "-----BEGIN A-----\nProc-Type: x\n\nYWJj\n-----END A-----".to_owned(),
                vec![("A".to_owned(), true, b"abc".to_vec())],
            ),
        ];
        for (case, text, want) in cases {
            assert_eq!(labels(&text), want, "{case}");
        }
    }
}
