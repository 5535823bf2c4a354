//! Reads the JSON of a patch. Errors have the messages of Go's `encoding/json`.

use serde_json::Value;

use crate::decode::values::check_json;
use serde_json::error::Category;

/// Parses a patch.
///
/// # Errors
/// Go's error text.
pub(super) fn read(patch: &[u8]) -> Result<Value, String> {
    check_json(patch)?;
    serde_json::from_slice(patch).map_err(|error| go_text(&error, patch))
}

/// The JSON type name of a value, as in Go's errors.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_text(error: &serde_json::Error, patch: &[u8]) -> String {
    if error.classify() == Category::Eof {
        return "unexpected end of JSON input".to_owned();
    }
    let text = error.to_string();
    let at = offset(patch, error.line(), error.column());
    let Some(found) = patch.get(at).map(|byte| char::from(*byte)) else { return text };
    let context = match text.split(" at line").next().unwrap_or_default() {
        "expected value" => "looking for beginning of value",
        "expected ident" => return literal(patch, at),
        "key must be a string" | "trailing comma" if found != ']' => {
            "looking for beginning of object key string"
        }
        "trailing comma" => "looking for beginning of value",
        "expected `:`" => "after object key",
        "expected `,` or `}`" => "after object key:value pair",
        "expected `,` or `]`" => "after array element",
        "trailing characters" => "after top-level value",
        "invalid number" => "in numeric literal",
        "invalid escape" => "in string escape code",
        _ if text.starts_with("control character") => "in string literal",
        _ => return text,
    };
    format!("invalid character {found:?} {context}")
}

/// Converts the line and column of an error, both counted from one, to a byte offset.
fn offset(patch: &[u8], line: usize, column: usize) -> usize {
    let before: usize =
        patch.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    before + column.saturating_sub(1)
}

/// The error for a word that starts like `true`, `false` or `null` but differs at `at`.
fn literal(patch: &[u8], at: usize) -> String {
    for word in ["true", "false", "null"] {
        for matched in 1..word.len() {
            let Some(start) = at.checked_sub(matched) else { break };
            if patch.get(start..at) == word.as_bytes().get(..matched) {
                let (found, expected) = (char::from(patch[at]), char::from(word.as_bytes()[matched]));
                return format!("invalid character {found:?} in literal {word} (expecting '{expected}')");
            }
        }
    }
    format!("invalid character {:?} looking for beginning of value", char::from(patch[at]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_json_is_reported_with_go_messages() {
        for (patch, expected) in [
            ("", "unexpected end of JSON input"),
            (" ", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{nope", "invalid character 'n' looking for beginning of object key string"),
            ("[nope", "invalid character 'o' in literal null (expecting 'u')"),
            ("[\n tru?]", "invalid character '?' in literal true (expecting 'e')"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("{}\n\n}", "invalid character '}' after top-level value"),
        ] {
            assert_eq!(read(patch.as_bytes()), Err(expected.to_owned()), "{patch:?}");
        }
    }

    proptest! {
        #[test]
        fn reading_arbitrary_bytes_never_panics(patch in prop::collection::vec(any::<u8>(), 0..24)) {
            let _ = read(&patch);
        }

        #[test]
        fn reading_json_like_text_never_panics(patch in "[\\[\\]{}:,\"ntf\\\\ \nulrae1.-]{0,16}") {
            let _ = read(patch.as_bytes());
        }
    }
}
