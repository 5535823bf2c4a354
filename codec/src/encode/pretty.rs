//! Indents JSON text without parsing it into values, which preserves the order of members.

/// Formats JSON text with two spaces of indentation per level.
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 3 / 2);
    let mut depth = 0usize;
    let mut in_text = false;
    let mut escaped = false;
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            in_text = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => {
                in_text = true;
                escaped = false;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                let close = if byte == b'{' { b'}' } else { b']' };
                if bytes.peek() == Some(&close) {
                    bytes.next();
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b' ' | b'\n' | b'\t' | b'\r' => {}
            _ => out.push(byte),
        }
    }
    out
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + depth * 2, b' ');
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
    }
}
