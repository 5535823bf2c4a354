//! Characters that a terminal interprets or does not show, and the width of all others.

use unicode_width::UnicodeWidthChar as _;

/// Whether a terminal would interpret or hide the character: controls, characters that change the direction of
/// text, and zero-width characters that join or hide.
pub(super) fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Text direction (Unicode UAX #9).
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph separators.
            | '\u{2028}' | '\u{2029}'
            // Invisible: soft hyphen, joiners, fillers, the byte order mark, annotations and tags.
            | '\u{00ad}' | '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes such characters: a line feed becomes `\n`, others become `\u{202e}`.
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

/// The number of columns of a text.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(width).sum()
}
