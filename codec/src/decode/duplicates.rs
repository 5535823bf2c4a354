//! Finds duplicate members in JSON text that is merged before it is fitted to a type.

use std::collections::HashSet;

use super::json::Reader;
use super::source::{Source, SyntaxError, Token};
use super::walk::{MAX_DEPTH, MAX_FINDINGS, MAX_FINDINGS_TEXT, Step, join};

/// Returns the paths of duplicate members, such as `data.a`, in order of appearance: at most
/// [`MAX_FINDINGS`] of them, and none after [`MAX_FINDINGS_TEXT`] bytes. Invalid JSON has none; the parser that
/// reads it next reports the error.
pub(super) fn find(json: &[u8]) -> Vec<String> {
    let mut search = Search { reader: Reader::new(json), path: Vec::new(), found: Vec::new(), text: 0 };
    // Duplicates found before a syntax error are dropped: the error is reported instead.
    match search.value() {
        Ok(()) => search.found,
        Err(SyntaxError(_)) => Vec::new(),
    }
}

struct Search<'a> {
    reader: Reader<'a>,
    /// The position in the document. A path is written only for a duplicate: a long key near the root would
    /// otherwise be copied for every value below it.
    path: Vec<Step<'a>>,
    found: Vec<String>,
    /// Total length of `found`, bytes.
    text: usize,
}

impl Search<'_> {
    fn value(&mut self) -> Result<(), SyntaxError> {
        let token = self.reader.value()?;
        // The decoder rejects what is nested more deeply.
        if self.path.len() > MAX_DEPTH {
            return self.reader.skip(&token);
        }
        match token {
            Token::Null | Token::Bool(_) | Token::Number(_) | Token::String(_) => {}
            Token::Array => {
                let mut at = 0;
                while self.reader.item()? {
                    self.path.push(Step::Index(at));
                    self.value()?;
                    self.path.pop();
                    at += 1;
                }
            }
            Token::Object => {
                let mut seen = HashSet::new();
                while let Some(key) = self.reader.key()? {
                    self.path.push(Step::Key(key.clone()));
                    self.value()?;
                    self.path.pop();
                    if seen.contains(&key) {
                        self.note(&key);
                    } else {
                        seen.insert(key);
                    }
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, key: &str) {
        if self.found.len() < MAX_FINDINGS && self.text <= MAX_FINDINGS_TEXT {
            let path = join(&self.path, key);
            self.text += path.len();
            self.found.push(path);
        }
    }
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

    #[test]
    fn long_keys_above_many_values_cost_linear_time() {
        let text = |n: usize| format!("{{\"{}\":[{}0]}}", "k".repeat(16 * n), "0,".repeat(4 * n));
        orlop_apimachinery::thread_time::assert_linear("long key", 4_000, text, |text| find(text.as_bytes()));
    }

    #[test]
    fn number_of_paths_is_bounded() {
        assert_eq!(find(format!("{{{}\"a\":1}}", "\"a\":1,".repeat(1000)).as_bytes()).len(), 100);
    }

    #[test]
    fn deep_documents_are_not_descended() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(9_000), "]".repeat(9_000));
        assert!(find(deep.as_bytes()).is_empty());
    }
}
