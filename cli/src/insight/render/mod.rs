//! Text for people of the server's answers, and the answers themselves for machines. All of it is pure: an answer and a [`Look`] in, text out.
//!
//! `page` keeps lines within 80 columns and paints them, `characters` makes visible what a terminal would obey; every text of the
//! API goes through both. A field that is missing is passed over: a newer server may say more or less than is known here.

mod changes;
mod characters;
mod history;
mod page;
mod plan;
mod table;
mod time;
mod why;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;

pub(super) use self::characters::visible;
pub(super) use self::history::{diff, history};
pub(super) use self::plan::{brief, done, nothing_changed, plan};
pub(super) use self::table::table;
pub(super) use self::time::short;
pub(super) use self::why::why;

/// How text is to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// With colours.
    pub(super) colour: bool,
    /// What "in 4 min" is counted from.
    pub(super) now: Timestamp,
}

/// As JSON. What a terminal would obey is escaped, which changes nothing of what it says.
pub(super) fn json(value: &Value) -> String {
    let mut out = String::new();
    for c in format!("{value:#}\n").chars() {
        if c == '\n' || !characters::is_obeyed(c) {
            out.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// As YAML. Where that has a character that a terminal would obey it is JSON, which is YAML too and can escape it.
///
/// # Errors
/// What cannot be written, in the words of the library.
pub(super) fn yaml(value: &Value) -> Result<String, String> {
    let text = serde_saphyr::to_string(value).map_err(|error| error.to_string())?;
    let is_plain = text.chars().all(|c| c == '\n' || !characters::is_obeyed(c));
    Ok(if is_plain { text } else { json(value) })
}

/// A text of an answer, or nothing.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The items of a list of an answer, or none.
fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A number that the API may write as text.
fn count(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

/// `PersistentVolumeClaim default/data`.
fn reference(reference: &Value) -> String {
    let kind = match (text(reference, "kind"), text(reference, "resource")) {
        ("", resource) => resource,
        (kind, _) => kind,
    };
    let name = match (text(reference, "namespace"), text(reference, "name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    format!("{kind} {name}").trim().to_owned()
}
