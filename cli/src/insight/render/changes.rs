//! Formats changes of fields: `+` added, `-` removed, `~` changed.

use serde_json::Value;

use super::fields::{items, text};
use super::page::{Page, Paint, fits};

/// Formats all changes.
pub(super) fn changes(page: &mut Page, indent: usize, of: &Value) {
    for change in items(of, "changes") {
        one(page, indent, change);
    }
}

fn one(page: &mut Page, indent: usize, change: &Value) {
    let path = path(&change["path"]);
    let (from, to) = (&change["from"], &change["to"]);
    match text(change, "op") {
        "add" => field(page, indent, Paint::Good, "+ ", &path, to),
        "remove" => field(page, indent, Paint::Bad, "- ", &path, from),
        _ => {
            let line = format!("~ {path}: {from} -> {to}");
            if is_leaf(from) && is_leaf(to) && fits(indent, &line) {
                page.whole(indent, &[(Paint::Warn, "~ "), (Paint::Plain, &line[2..])]);
                return;
            }
            page.line(indent, &[(Paint::Warn, "~ "), (Paint::Plain, &path)]);
            field(page, indent + 2, Paint::Bad, "- ", "", from);
            field(page, indent + 2, Paint::Good, "+ ", "", to);
        }
    }
}

/// A field and everything below it.
fn field(page: &mut Page, indent: usize, paint: Paint, mark: &str, name: &str, value: &Value) {
    if is_leaf(value) {
        let colon = if name.is_empty() { "" } else { ": " };
        let line = format!("{name}{colon}{value}");
        page.wrapped(indent, indent + 2 + mark.len(), &[(paint, mark), (Paint::Plain, &line)]);
        return;
    }
    let colon = if name.is_empty() { "" } else { ":" };
    page.line(indent, &[(paint, mark), (Paint::Plain, &format!("{name}{colon}"))]);
    // A mark without a name needs no further indentation.
    let step = if name.is_empty() { 0 } else { 2 };
    below(page, indent + step + mark.len(), value);
}

/// The content of a map or a list, formatted like YAML.
fn below(page: &mut Page, indent: usize, value: &Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                field(page, indent, Paint::Plain, "", key, value);
            }
        }
        Value::Array(list) => {
            for value in list {
                field(page, indent, Paint::Plain, "- ", "", value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a value fits in one line.
fn is_leaf(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Formats a path: `spec.claimRef`, `metadata.annotations["a.b/c"]`, `status.conditions[type=Ready]`.
fn path(path: &Value) -> String {
    let mut out = String::new();
    for step in path.as_array().map_or(&[][..], Vec::as_slice) {
        match step {
            Value::String(name) => {
                let is_word = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
                let is_place = name.starts_with('[') && name.ends_with(']');
                match (is_word || is_place, is_place || out.is_empty()) {
                    (true, true) => out.push_str(name),
                    (true, false) => out.push_str(&format!(".{name}")),
                    (false, _) => out.push_str(&format!("[{step}]")),
                }
            }
            Value::Object(keys) => {
                let keys: Vec<String> =
                    keys.iter().map(|(key, value)| format!("{key}={}", bare(value))).collect();
                out.push_str(&format!("[{}]", keys.join(",")));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                out.push_str(&format!("[{step}]"))
            }
        }
    }
    if out.is_empty() { "(the whole object)".to_owned() } else { out }
}

/// A value without the quotes of a string.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
