//! Formats `History` and `Diff`: the writes of an object, and the difference between two revisions.

use serde_json::{Value, json};

use super::changes::changes;
use super::fields::{count, items, text};
use super::look::Style;
use super::page::{Page, Paint};
use super::time::short;

/// Formats all writes of an answer, the newest first.
///
/// `goes_on`: the request continues an earlier one.
pub(crate) fn history(document: &Value, object: &str, goes_on: bool, look: Style) -> String {
    let mut page = Page::new(look);
    let writes = items(document, "items");
    if writes.is_empty() {
        let words = if goes_on { "no older state of " } else { "no state of " };
        page.line(0, &[(Paint::Plain, words), (Paint::Name, object), (Paint::Plain, " is available")]);
    }
    for write in writes {
        one_write(&mut page, write);
    }
    let token = match document["metadata"]["continue"].as_str() {
        Some(token) => token,
        None => text(document, "continue"),
    };
    let (oldest, is_begun) = (count(&document["oldest"]), begins(writes));
    if token.is_empty() && !is_begun && !matches!(oldest.as_str(), "" | "0") {
        page.gap();
        let words = format!("writes before revision {oldest} are no longer available");
        page.line(0, &[(Paint::Quiet, &words)]);
    }
    if !token.is_empty() {
        page.gap();
        page.line(0, &[(Paint::Quiet, "older writes exist; continue with")]);
        page.whole(2, &[(Paint::Plain, "--continue "), (Paint::Plain, token)]);
    }
    page.text()
}

/// Whether the last of these writes created the object.
fn begins(writes: &[Value]) -> bool {
    writes.last().is_some_and(|write| text(write, "type") == "ADDED")
}

fn one_write(page: &mut Page, write: &Value) {
    let (paint, word) = match text(write, "type") {
        "ADDED" => (Paint::Good, "created"),
        "DELETED" => (Paint::Bad, "deleted"),
        "MODIFIED" if asks_for_deletion(write) => (Paint::Bad, "deletion requested"),
        "MODIFIED" => (Paint::Plain, "changed"),
        other => (Paint::Plain, other),
    };
    let (revision, time) = (count(&write["revision"]), short(text(write, "time")));
    let mut writer = String::new();
    if !text(write, "manager").is_empty() {
        writer = format!(" by {}", text(write, "manager"));
    }
    let how: Vec<&str> = [text(write, "operation"), text(write, "subresource")]
        .into_iter()
        // Most writes are updates.
        .filter(|how| !how.is_empty() && *how != "Update")
        .collect();
    if !how.is_empty() {
        writer = format!("{writer} ({})", how.join(", "));
    }
    let pieces = [
        (Paint::Head, revision.as_str()),
        (Paint::Plain, " "),
        (Paint::Quiet, time.as_str()),
        (Paint::Plain, " "),
        (paint, word),
        (Paint::Plain, writer.as_str()),
    ];
    let mut write = write.clone();
    let beats = without_heartbeats(&mut write);
    let is_beat = beats && items(&write, "changes").is_empty();
    let beat = if is_beat { ": heartbeat" } else { "" };
    page.wrapped(0, 4, &[&pieces[..], &[(Paint::Quiet, beat)]].concat());
    changes(page, 4, &write);
}

/// Removes the changes of heartbeat times. Returns whether there were any.
fn without_heartbeats(write: &mut Value) -> bool {
    let Some(changes) = write.get_mut("changes").and_then(Value::as_array_mut) else { return false };
    let before = changes.len();
    changes.retain(|change| {
        change["path"].as_array().and_then(|path| path.last()).is_none_or(|last| last != "lastHeartbeatTime")
    });
    changes.len() < before
}

/// Whether a write sets the deletion timestamp.
fn asks_for_deletion(write: &Value) -> bool {
    let stamp = json!(["metadata", "deletionTimestamp"]);
    items(write, "changes").iter().any(|change| change["op"] == "add" && change["path"] == stamp)
}

/// Formats a difference.
pub(crate) fn diff(document: &Value, object: &str, look: Style) -> String {
    let mut page = Page::new(look);
    let moment = |side: &Value| match side {
        Value::Object(_) => {
            let time = short(text(side, "time"));
            let time = if time.is_empty() { time } else { format!(" ({time})") };
            let absent = if side["exists"] == false { " (the object did not exist)" } else { "" };
            format!("{}{time}{absent}", count(&side["revision"]))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => count(side),
    };
    let (from, to) = (moment(&document["from"]), moment(&document["to"]));
    let to = if to.is_empty() { "now".to_owned() } else { to };
    let span = format!(" from {from} to {to}");
    page.wrapped(0, 4, &[(Paint::Name, object), (Paint::Plain, &span)]);
    if items(document, "changes").is_empty() {
        page.line(2, &[(Paint::Plain, "no differences")]);
    }
    changes(&mut page, 2, document);
    page.text()
}
