//! Indents JSON text without parsing it into values, which preserves the order of members.

/// Deeper levels are indented like this one, so that the spaces stay in proportion to the text.
const DEEPEST: usize = 32;

/// Formats JSON text with two spaces of indentation per level.
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 3 / 2);
    Indenter::default().push(json, &mut out);
    out
}

/// Formats JSON text that arrives in pieces.
#[derive(Debug, Default)]
pub struct Indenter {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// A bracket was opened, and it is not known yet whether it is empty.
    opened: bool,
}

impl Indenter {
    /// Formats the next piece.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for byte in piece.iter().copied() {
            if self.in_text {
                out.push(byte);
                self.in_text = byte != b'"' || self.escaped;
                self.escaped = byte == b'\\' && !self.escaped;
                continue;
            }
            if matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                continue;
            }
            let closes = matches!(byte, b'}' | b']');
            let is_empty = std::mem::replace(&mut self.opened, false);
            if is_empty && !closes {
                self.depth += 1;
                self.new_line(out);
            }
            if closes && !is_empty {
                self.depth = self.depth.saturating_sub(1);
                self.new_line(out);
            }
            out.push(byte);
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.opened = true,
                b',' => self.new_line(out),
                b':' => out.push(b' '),
                _ => {}
            }
        }
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + self.depth.min(DEEPEST) * 2, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indenting_preserves_order_and_values() {
        let text = br#"{"kind":"A","b":[1,{"c":"x \"y\" {"},[],{}],"a":null}"#;
        let indented = indent(text);
        let back: serde_json::Value = serde_json::from_slice(&indented).expect("is JSON");
        assert_eq!(back, serde_json::from_slice::<serde_json::Value>(text).expect("is JSON"));
        assert!(indented.starts_with(b"{\n  \"kind\": \"A\",\n  \"b\": [\n    1,\n"));
        assert!(indented.ends_with(b"\n    },\n    [],\n    {}\n  ],\n  \"a\": null\n}"));
        for at in 0..text.len() {
            let (mut indenter, mut pieces) = (Indenter::default(), Vec::new());
            indenter.push(&text[..at], &mut pieces);
            indenter.push(&text[at..], &mut pieces);
            assert_eq!(pieces, indented, "cut at {at}");
        }
    }

    #[test]
    fn spaces_stay_in_proportion_to_the_text() {
        let deep = [vec![b'['; 100], b"0,".repeat(1_000), b"0".to_vec(), vec![b']'; 100]].concat();
        assert!(indent(&deep).len() < deep.len() * (DEEPEST * 2 + 2));
    }
}
