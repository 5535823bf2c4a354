//! Converts YAML bodies to documents in memory. Like upstream, it reads only the first document of a stream
//! and reports duplicate keys with their lines.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

use super::{MAX_FINDINGS, MAX_FINDINGS_TEXT};

/// Maximum total length of the scalars of a document with its aliases expanded, bytes: twice the longest body.
const MAX_TEXT: usize = 6 << 20;
/// Maximum number of values that are recorded for aliases, and of those that aliases repeat.
const MAX_ANCHORED: usize = 250_000;

/// Maximum number of values that a document of this size, bytes, repeats by aliases: its lists and objects count twice, for their end.
pub(super) fn replayed_max(bytes: usize) -> usize {
    bytes.saturating_mul(2).saturating_add(1_000).min(MAX_ANCHORED)
}

/// Maximum number of values that are recorded for the aliases of a document of this size, bytes. A value within many anchors is recorded
/// once for each.
pub(super) fn recorded_max(bytes: usize) -> usize {
    bytes.saturating_mul(20).saturating_add(1_000).min(MAX_ANCHORED)
}

/// The repeated keys of a document, within the limits of all findings.
#[derive(Debug, Default)]
struct Duplicates {
    found: Vec<String>,
    /// Total length of `found`, bytes.
    text: usize,
}

impl Duplicates {
    fn note(&mut self, line: u64, key: &str) {
        if self.found.len() >= MAX_FINDINGS || self.text > MAX_FINDINGS_TEXT {
            return;
        }
        let text = format!("line {line}: key {key:?} already set in map");
        self.text += text.len();
        self.found.push(text);
    }
}

/// A YAML document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) value: Value,
    /// `line 9: key "a" already set in map`, in order.
    pub(super) duplicates: Vec<String>,
}

/// Reads the first document. A text with only whitespace and comments is `null`. The error is a complete message, such as
/// `yaml: line 3: ...`.
pub(super) fn read(body: &[u8]) -> Result<Document, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid UTF-8 in the document".to_owned())?;
    let text = first_document(text);
    if text.lines().all(is_blank) {
        return Ok(Document { value: Value::Null, duplicates: Vec::new() });
    }
    let duplicates = RefCell::new(Duplicates::default());
    let mut options = Options::default();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options.legacy_octal_numbers = true;
    options.with_snippet = false;
    // Aliases repeat what they name, so that a document may be longer than its text.
    let budget = options.budget.get_or_insert_default();
    budget.max_total_scalar_bytes = MAX_TEXT;
    budget.max_recorded_anchor_bytes = MAX_TEXT;
    budget.max_recorded_anchor_events = recorded_max(body.len());
    options.alias_limits.max_total_replayed_events = replayed_max(body.len());
    let value = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        Node { duplicates: &duplicates }.deserialize(deserializer)
    });
    let value = value.map_err(|error| complaint(&error, text))?;
    Ok(Document { value, duplicates: duplicates.into_inner().found })
}

/// Formats an error as `yaml: line 3: ...`, with go-yaml's text for common mistakes.
fn complaint(error: &serde_saphyr::Error, document: &str) -> String {
    let line = error.location().map_or(1, |location| location.line().max(1));
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.split(" at line ").next().unwrap_or(first);
    if message.starts_with("alias replay limit exceeded") {
        return format!("yaml: line {line}: the aliases of the document repeat too many values");
    }
    if let Some(limit) = message.strip_prefix("budget breached: ") {
        return format!("yaml: line {line}: the document is too deep or too large ({limit})");
    }
    let (line, said) = in_go_words(message, line as usize, document);
    match line {
        0 => format!("yaml: {said}"),
        _ => format!("yaml: line {line}: {said}"),
    }
}

/// Translates an error message and its line to those of go-yaml. go-yaml counts lines from zero, adds one for
/// errors of its scanner but not of its parser, and omits line zero.
fn in_go_words(message: &str, line: usize, document: &str) -> (u64, String) {
    const EXPECTED: &str = "did not find expected ";
    let ended = document.lines().count();
    let of_scanner = |line: usize, said: &str| (if line > 1 { line as u64 } else { 0 }, said.to_owned());
    let of_parser = |line: usize, said: &str| (line as u64, said.to_owned());
    let or_close = |bracket: &str| match bracket.contains("'['") {
        true => format!("{EXPECTED}',' or ']'"),
        false => format!("{EXPECTED}',' or '}}'"),
    };
    if message.contains("found a tab") {
        // The tab is at the start of the line after the current scalar.
        return of_scanner(line + 1, "found a tab character that violates indentation");
    }
    if message.starts_with("unexpected character: `\\u") {
        return (0, "control characters are not allowed".to_owned());
    }
    if message.starts_with("unexpected character") || message.starts_with("tabs disallowed") {
        return of_scanner(line, "found character that cannot start any token");
    }
    if message.starts_with("unclosed quote") || message.starts_with("invalid indentation in multiline quoted")
    {
        return of_scanner(document.matches('\n').count() + 1, "found unexpected end of stream");
    }
    if message.starts_with("simple key expected") {
        return of_scanner(line + 1, "could not find expected ':'");
    }
    if let Some(bracket) = message.strip_prefix("unclosed bracket ") {
        return of_parser(ended, &or_close(bracket));
    }
    if let Some(brackets) = message.strip_prefix("mismatched bracket ") {
        return of_parser(line - 1, &or_close(&brackets[..brackets.len().min(3)]));
    }
    if message.starts_with("misplaced bracket") {
        return of_parser(line - 1, &format!("{EXPECTED}<document start>"));
    }
    match message.find(EXPECTED) {
        Some(at) => of_parser(line - 1, &message[at..]),
        None => {
            let said = message.rsplit("while parsing a quoted scalar, ").next().unwrap_or(message);
            of_scanner(line, said)
        }
    }
}

/// Whether a line is blank, a comment, or a document start marker.
fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#') || line == "---"
}

/// The text up to the marker that ends the first document.
fn first_document(text: &str) -> &str {
    let mut has_content = false;
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        let is_mark = |mark: &str| {
            line.strip_prefix(mark)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        };
        if has_content && (is_mark("---") || is_mark("...")) {
            return &text[..end];
        }
        has_content |= !is_blank(line) && !line.starts_with('%');
        end += line.len();
    }
    text
}

/// Any YAML value.
#[derive(Clone, Copy)]
struct Node<'d> {
    duplicates: &'d RefCell<Duplicates>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // Go writes a float with a zero fraction as an integer.
        let is_whole = value.fract() == 0.0 && value.abs() < 1e15;
        #[expect(clippy::cast_possible_truncation, reason = "whole and far within 64 bits")]
        let whole = is_whole.then_some(value as i64).map(Value::from);
        Ok(whole.or_else(|| Number::from_f64(value).map(Value::Number)).unwrap_or_default())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            let line = key.referenced.line();
            let key = key.value;
            let value = access.next_value_seed(self)?;
            if members.contains_key(&key) {
                self.duplicates.borrow_mut().note(line, &key);
            }
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests;
