//! Pure words and arithmetic that the API server and the controllers share. No I/O, no clock.
//!
//! Reading order: [`quantity`] amounts such as `5Gi`, [`names`] what names and keys may look like,
//! [`labels`] and [`fields`] the two selector languages, [`duration`] spans of time as people and
//! Go write them, [`query`] booleans and numbers in query strings, [`quota`] what objects count.

pub mod duration;
pub mod fields;
pub mod labels;
pub mod names;
pub mod quantity;
pub mod query;
pub mod quota;

/// A text in double quotes as Go's `%q` shows it; error texts show values like this.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
