//! PEM files (RFC 7468): labelled blocks in Base64, with any text around them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
/// Characters in a line.
const LINE: usize = 64;

/// A block of a file.
pub(crate) struct Block<'t> {
    /// The label, such as `PRIVATE KEY`.
    pub(crate) label: &'t str,
    /// The content. It may be a private key.
    pub(crate) bytes: Vec<u8>,
}

/// The blocks of a text; `None` if one of them is damaged.
pub(crate) fn blocks(text: &str) -> Option<Vec<Block<'_>>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (label, after) = after.split_once(DASHES)?;
        let (body, after) = after.split_once(END)?;
        rest = after.strip_prefix(label)?.strip_prefix(DASHES)?;
        // Keys of old programs have headers before an empty line.
        let body = match body.contains(':') {
            true => body.split_once("\n\n").or_else(|| body.split_once("\r\n\r\n"))?.1,
            false => body,
        };
        let packed: String = body.split_ascii_whitespace().collect();
        found.push(Block { label, bytes: STANDARD.decode(packed).ok()? });
    }
    Some(found)
}

/// A block with this label.
pub fn encode(label: &str, bytes: &[u8]) -> String {
    let packed = STANDARD.encode(bytes);
    let mut text = format!("{BEGIN}{label}{DASHES}\n");
    let mut rest = packed.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(LINE.min(rest.len()));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("{END}{label}{DASHES}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_between_other_text() {
        let text = format!("comment\n{}x\n{}", encode("A B", &[1; 100]), encode("C", b""));
        let found = blocks(&text).map(|blocks| {
            blocks.into_iter().map(|block| (block.label.to_owned(), block.bytes)).collect::<Vec<_>>()
        });
        assert_eq!(found, Some(vec![("A B".to_owned(), vec![1; 100]), ("C".to_owned(), Vec::new())]));
        let headers = "-----BEGIN K-----\nProc-Type: 4\n\nAQ==\n-----END K-----\n";
        assert!(blocks(headers).is_some_and(|blocks| blocks[0].bytes == [1]));
    }

    #[test]
    fn damaged_blocks_are_rejected() {
        for text in [
            "-----BEGIN A-----\nAQ==\n",
            "-----BEGIN A-----\nAQ==\n-----END B-----\n",
            "-----BEGIN A-----\n!\n-----END A-----\n",
            "-----BEGIN A",
            "-----BEGIN A-----\nAQ==\n-----END A",
        ] {
            assert!(blocks(text).is_none(), "{text}");
        }
        assert!(blocks("no block").is_some_and(|blocks| blocks.is_empty()));
    }
}
