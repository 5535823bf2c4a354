//! Pure types and functions that the API server and the controllers share. No I/O, except for [`input_file`].
//!
//! Reading order: [`quantity`] parses amounts such as `5Gi`, [`names`] checks names and keys, [`labels`] and [`fields`]
//! are the two selector languages, [`duration`] parses and formats durations as Go does, [`clock`] provides the time for
//! timestamps, [`cron`] computes the times of schedules, [`query`] parses booleans and numbers in query strings, [`quota`]
//! computes what objects consume, [`times`] replaces times that cannot be decoded, [`input_file`] reads files that may be
//! pipes or devices, [`version`] orders API versions,
//! [`steps`] bounds the work of an operation, and [`warning_pace`] limits repeated warnings.

pub mod clock;
pub mod cron;
pub mod duration;
pub mod fields;
pub mod input_file;
pub mod labels;
pub mod names;
pub mod quantity;
pub mod query;
pub mod quota;
pub mod steps;
pub mod text;
#[cfg(any(test, feature = "testing"))]
pub mod thread_time;
pub mod times;
pub mod version;
pub mod warning_pace;

use std::fmt::Write as _;

/// Quotes a string as Go's `%q` does; error texts show values in this form.
pub fn quoted(text: &str) -> String {
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
            c if c.is_ascii_control() => drop(write!(out, "\\x{:02x}", c as u32)),
            c if is_shown(c) => out.push(c),
            c if u32::from(c) < 0x1_0000 => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => drop(write!(out, "\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Returns whether a character is printable. It is tested after a letter, so that combining marks count as
/// printable.
fn is_shown(c: char) -> bool {
    // A text on the stack: this runs for each character of long texts.
    let mut text = [b'a'; 5];
    let length = c.encode_utf8(&mut text[1..]).len();
    c.is_ascii() || str::from_utf8(&text[..=length]).is_ok_and(|text| text.escape_debug().count() == 2)
}
