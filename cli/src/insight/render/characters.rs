//! Characters that a terminal obeys or does not show, and the width of the others.

use unicode_width::UnicodeWidthChar as _;

/// Whether a terminal would do something else than show it, or nobody would see it: controls, what turns the direction of text, and
/// what has no width but joins or hides.
pub(super) fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Direction (Unicode UAX #9).
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph ends.
            | '\u{2028}' | '\u{2029}'
            // Invisible: soft hyphen, joiners, fillers, the byte order mark, annotations and tags.
            | '\u{00ad}' | '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with such characters written out: a line feed is `\n`, others are `\u{202e}`.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_obeyed(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// The columns of a character: two for wide ones, none for combining marks.
pub(super) fn width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Columns that a text takes.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(width).sum()
}
