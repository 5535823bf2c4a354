//! Formats answers as JSON and YAML.

use serde_json::Value;

use super::characters;

/// Formats JSON. Characters that a terminal interprets are escaped, which does not change the value.
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

/// Formats YAML. If the text contains characters that a terminal interprets, it is JSON instead, which is valid
/// YAML and can escape them.
///
/// # Errors
/// The message of the YAML library if the value cannot be serialized.
pub(crate) fn yaml(value: &Value) -> Result<String, String> {
    let text = serde_saphyr::to_string(value).map_err(|error| error.to_string())?;
    let is_plain = text.chars().all(|c| c == '\n' || !characters::is_obeyed(c));
    Ok(if is_plain { text } else { json(value) })
}
