//! Answers as JSON and YAML.

use serde_json::Value;

use super::characters;

/// As JSON. What a terminal would obey is escaped, which changes nothing of what it says.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    for c in format!("{value:#}\n").chars() {
        if c == '\n' || !characters::is_obeyed(c) {
            out.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// As YAML. Where that has a character that a terminal would obey it is JSON, which is YAML too and can escape it.
///
/// # Errors
/// What cannot be written, in the words of the library.
pub(crate) fn yaml(value: &Value) -> Result<String, String> {
    let text = serde_saphyr::to_string(value).map_err(|error| error.to_string())?;
    let is_plain = text.chars().all(|c| c == '\n' || !characters::is_obeyed(c));
    Ok(if is_plain { text } else { json(value) })
}
