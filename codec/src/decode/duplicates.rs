//! Finds duplicate members in JSON text that is merged before it is fitted to a type.

use std::collections::HashSet;

use super::json::Reader;
use super::source::{Source, SyntaxError, Token};

/// Returns the paths of duplicate members, such as `data.a`, in order of appearance. Invalid JSON has none;
/// the parser that reads it next reports the error.
pub(super) fn find(json: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut reader = Reader::new(json);
    // Duplicates found before a syntax error are dropped: the error is reported instead.
    match value(&mut reader, "", &mut found) {
        Ok(()) => found,
        Err(SyntaxError(_)) => Vec::new(),
    }
}

fn value(reader: &mut Reader<'_>, path: &str, found: &mut Vec<String>) -> Result<(), SyntaxError> {
    match reader.value()? {
        Token::Null | Token::Bool(_) | Token::Number(_) | Token::String(_) => {}
        Token::Array => {
            let mut at = 0;
            while reader.item()? {
                value(reader, &format!("{path}[{at}]"), found)?;
                at += 1;
            }
        }
        Token::Object => {
            let mut seen = HashSet::new();
            while let Some(key) = reader.key()? {
                let below = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
                value(reader, &below, found)?;
                if !seen.insert(key.into_owned()) {
                    found.push(below);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn duplicate_members_are_found_with_their_path() {
        assert_eq!(find(br#"{"data":{"x":"1","x":"2"},"a":[{"b":1,"b":2}]}"#), ["data.x", "a[0].b"]);
        assert!(find(br#"{"a":1,"b":{"a":1}}"#).is_empty());
        assert!(find(br#"{"a":1,"a":"#).is_empty());
    }
}
