//! Regular expressions of schemas and CEL, with limits on memory and time.

use regex::Regex;

/// Maximum length of a pattern, bytes.
const MAX_LENGTH: usize = 4096;
/// Maximum size of a compiled pattern, bytes.
const MAX_SIZE: usize = 256 << 10;
/// Maximum number of repetitions, as upstream.
const MAX_REPEAT: usize = 1000;
/// Maximum number of positions. A pattern of [`MAX_SIZE`] has fewer.
const MAX_POSITIONS: usize = 16 << 10;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    /// The number of characters and classes, each counted as often as it is repeated. A search takes at most time
    /// proportional to their product with the length of the text.
    pub(crate) positions: usize,
}

/// Compiles a pattern. The error describes why it does not compile.
pub(crate) fn compile(pattern: &str) -> Result<Pattern, String> {
    if pattern.len() > MAX_LENGTH {
        return Err(format!("the pattern is longer than {MAX_LENGTH} bytes"));
    }
    let size = Scan::of(pattern);
    if size.most_repeats > MAX_REPEAT {
        return Err(format!("invalid repeat count: more than {MAX_REPEAT}"));
    }
    let regex = regex::RegexBuilder::new(pattern).size_limit(MAX_SIZE).build();
    let regex = regex.map_err(|error| go_error(pattern, &error.to_string()))?;
    Ok(Pattern { regex, positions: size.positions })
}

/// The error of a pattern in the words of Go, for the frequent mistakes.
fn go_error(pattern: &str, error: &str) -> String {
    let from = |start: &str| pattern.find(start).map_or(pattern, |at| &pattern[at..]);
    let why = if error.contains("unclosed group") {
        format!("missing closing ): `{pattern}`")
    } else if error.contains("unopened group") {
        format!("unexpected ): `{pattern}`")
    } else if error.contains("unclosed character class") {
        format!("missing closing ]: `{}`", from("["))
    } else if error.contains("look-around") {
        let kinds = ["(?=", "(?!", "(?<=", "(?<!"];
        let found = kinds.into_iter().find(|kind| pattern.contains(kind)).unwrap_or("(?");
        format!("invalid or unsupported Perl syntax: `{}`", found.get(..3).unwrap_or(found))
    } else if let Some(sign) = repetition_without_operand(pattern, error) {
        format!("missing argument to repetition operator: `{sign}`")
    } else {
        return error.to_owned();
    };
    format!("error parsing regexp: {why}")
}

fn repetition_without_operand(pattern: &str, error: &str) -> Option<char> {
    if !error.contains("repetition operator missing expression") {
        return None;
    }
    pattern.chars().find(|c| matches!(c, '*' | '+' | '?'))
}

/// Returns the number of positions of a pattern without compiling it.
pub(crate) fn positions(pattern: &str) -> usize {
    if pattern.len() > MAX_LENGTH { MAX_POSITIONS } else { Scan::of(pattern).positions }
}

/// The effort to compile a class with a table of Unicode: `\w`.
const CLASS: usize = 300;
/// The effort to compile such a class if case is ignored.
const FOLDED_CLASS: usize = 1000;
/// The effort to compile a range whose case is ignored, and which is not known to be short.
const FOLDED_RANGE: usize = 15_000;

/// Returns how much it costs to compile a pattern, besides its length.
pub(crate) fn compile_effort(pattern: &str) -> usize {
    if pattern.len() > MAX_LENGTH {
        return 0;
    }
    let pairs = || pattern.as_bytes().windows(2);
    let classes = pairs().filter(|pair| pair[0] == b'\\' && b"wWpPdDsS".contains(&pair[1])).count();
    if !has_flag(pattern, b'i') {
        return classes * CLASS;
    }
    // With the flag x, white space may follow the hyphen.
    let is_spaced = has_flag(pattern, b'x');
    let is_long = |end: u8| end == b'\\' || !end.is_ascii() || is_spaced;
    let ranges = pairs().filter(|pair| pair[0] == b'-' && is_long(pair[1])).count();
    classes * FOLDED_CLASS + ranges * FOLDED_RANGE
}

/// Whether a group of the pattern sets a flag: `(?i)`, `(?si:`.
fn has_flag(pattern: &str, flag: u8) -> bool {
    pattern
        .split("(?")
        .skip(1)
        .any(|group| group.bytes().take_while(|c| c.is_ascii_alphabetic() || *c == b'-').any(|c| c == flag))
}

/// The sizes of a pattern, as read from its text.
#[derive(Default)]
struct Scan {
    positions: usize,
    most_repeats: usize,
}

impl Scan {
    fn of(pattern: &str) -> Self {
        let mut scan = Scan::default();
        // The positions of the open groups, and of the part that a repetition follows.
        let mut outer: Vec<usize> = Vec::new();
        let (mut sum, mut last) = (0_usize, 0_usize);
        let mut rest = pattern.as_bytes();
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            match first {
                b'(' => {
                    outer.push(sum + last);
                    (sum, last) = (0, 0);
                }
                b')' => (sum, last) = (outer.pop().unwrap_or(0), sum + last),
                b'{' => {
                    let (count, after) = repeats(rest);
                    rest = after;
                    scan.most_repeats = scan.most_repeats.max(count);
                    last = last.saturating_mul(count.max(1)).min(MAX_POSITIONS);
                }
                b'*' | b'+' | b'?' => {}
                first => {
                    sum = (sum + last).min(MAX_POSITIONS);
                    last = 1;
                    rest = match first {
                        b'[' => after_class(rest),
                        b'\\' => after_escape(rest),
                        _ => rest,
                    };
                }
            }
        }
        let total = outer.into_iter().fold(sum + last, usize::saturating_add);
        scan.positions = total.min(MAX_POSITIONS);
        if has_flag(pattern, b'x') {
            // White space and comments are not read here.
            scan.positions = MAX_POSITIONS;
        }
        scan
    }
}

/// Reads the rest of a repetition: `{3}`, `{3,}`, `{3,5}`. Returns the largest number and what follows.
fn repeats(text: &[u8]) -> (usize, &[u8]) {
    let end = text.iter().position(|c| *c == b'}').unwrap_or(text.len());
    let (inner, after) = text.split_at(end);
    let numbers = inner.split(|c| *c == b',').map(|number| {
        let digits = number.iter().filter(|c| c.is_ascii_digit());
        digits.fold(0_usize, |sum, c| sum.saturating_mul(10).saturating_add(usize::from(c - b'0')))
    });
    (numbers.max().unwrap_or(0), after.get(1..).unwrap_or_default())
}

/// Returns what follows a class whose opening bracket was read.
fn after_class(text: &[u8]) -> &[u8] {
    let mut depth = 1;
    let mut is_start = true;
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'\\' => rest = after_escape(rest),
            b'[' => {
                depth += 1;
                is_start = true;
                continue;
            }
            // A negation does not end the start, where a closing bracket is a character of the class.
            b'^' if is_start => continue,
            b']' if !is_start => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        is_start = false;
    }
    rest
}

/// Returns what follows an escaped character whose backslash was read: `\d`, `\pL`, `\p{Greek}`, `\x{41}`.
fn after_escape(text: &[u8]) -> &[u8] {
    let Some((&first, after)) = text.split_first() else { return text };
    let is_named = b"pPxuUb".contains(&first) && after.first() == Some(&b'{');
    // `\b{3}` is a repetition, `\b{start}` is not.
    if !is_named || first == b'b' && after.get(1).is_some_and(u8::is_ascii_digit) {
        return after;
    }
    let end = after.iter().position(|c| *c == b'}').map_or(after.len(), |end| end + 1);
    &after[end..]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_repetitions() {
        for (pattern, want) in [
            ("", 0),
            ("abc", 3),
            ("^[a-z]+$", 3),
            ("[ab]*a[ab]{900}c", 903),
            ("(ab){10}c{2,5}", 25),
            ("((ab){10}x){10}", 210),
            ("(ab|c){3,}", 12),
            (r"\{3\}", 3),
            (r"\p{Greek}{7}\x{41}\b{start}a", 10),
            (r"[]{9}]{2}[^]{9}]{2}[a[b{9}]{9}]{2}[[:alpha:]]{2}", 8),
            (r"[\]{9}]{2}", 2),
            ("(a{900}){900}", MAX_POSITIONS),
            ("(?x) ( a b ) # [\n {2}", MAX_POSITIONS),
        ] {
            assert_eq!(positions(pattern), want, "{pattern}");
        }
    }

    #[test]
    fn classes_and_long_ranges_take_effort() {
        for (pattern, want) in [
            ("^[a-z0-9]+$", 0),
            (r"\w\d\.", 2 * CLASS),
            (r"(?i)\w", FOLDED_CLASS),
            ("(?i)[a-z]+", 0),
            (r"(?si:[\x{0}-\x{10FFFF}])", FOLDED_RANGE),
            ("(?i)[!-\u{10000}]", FOLDED_RANGE),
            ("(?xi)[! - \u{10000}]", FOLDED_RANGE),
            (r"[\x{0}-\x{10FFFF}]", 0),
        ] {
            assert_eq!(compile_effort(pattern), want, "{pattern}");
        }
    }

    #[test]
    fn oversized_patterns_do_not_compile() {
        assert!(compile("^[a-z]{1,1000}$").is_ok());
        for (pattern, why) in [
            ("(".to_owned(), "error parsing regexp: missing closing ): `(`"),
            ("[a".to_owned(), "error parsing regexp: missing closing ]: `[a`"),
            ("*a".to_owned(), "error parsing regexp: missing argument to repetition operator: `*`"),
            ("a(?!b)".to_owned(), "error parsing regexp: invalid or unsupported Perl syntax: `(?!`"),
            (r"\w".repeat(MAX_LENGTH), "longer than"),
            ("a{1001}".to_owned(), "repeat count"),
            (r"\w{1000}".to_owned(), "size limit"),
        ] {
            let found = compile(&pattern).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }
}
