//! Formats a `Plan`: the changes of every object before it is carried out, and one line for each object
//! afterwards.

use serde_json::{Value, json};

use super::changes::changes;
use super::fields::{count, items, reference, text};
use super::look::Style;
use super::page::{Page, Paint};

/// Formats a plan.
pub(crate) fn plan(document: &Value, look: Style) -> String {
    let mut page = Page::new(look);
    head(&mut page, document);
    for step in items(document, "steps") {
        let action = text(step, "action");
        let head = format!("{action} ");
        page.wrapped(2, 4, &[(paint(action), &head), (Paint::Name, &reference(&step["object"]))]);
        if !text(step, "message").is_empty() {
            page.line(4, &[(Paint::Plain, text(step, "message"))]);
        }
        changes(&mut page, 4, &as_far_as_it_says_something(step));
    }
    let revision = count(&document["revision"]);
    if !revision.is_empty() {
        page.line(0, &[(Paint::Quiet, &format!("as of revision {revision}"))]);
    }
    page.text()
}

/// The summary and the warnings of a plan.
pub(crate) fn brief(document: &Value, look: Style) -> String {
    let mut page = Page::new(look);
    head(&mut page, document);
    page.text()
}

fn head(page: &mut Page, document: &Value) {
    page.line(0, &[(Paint::Head, text(document, "summary"))]);
    for warning in items(document, "warnings").iter().filter_map(Value::as_str) {
        page.wrapped(0, 9, &[(Paint::Bad, "warning: "), (Paint::Plain, warning)]);
    }
}

/// Removes the metadata and status of an object that is created or deleted as a whole, since they repeat the
/// step. The JSON output includes them.
fn as_far_as_it_says_something(step: &Value) -> Value {
    let mut step = step.clone();
    let is_whole = matches!(text(&step, "action"), "create" | "delete");
    let changes = step.get_mut("changes").and_then(Value::as_array_mut);
    if let Some(changes) = changes.filter(|_| is_whole) {
        changes.retain(|change| change["path"] != json!(["metadata"]) && change["path"] != json!(["status"]));
    }
    step
}

/// The last line of a plan that is not carried out.
pub(crate) fn nothing_changed(is_empty: bool) -> &'static str {
    if is_empty { "nothing to do\n" } else { "nothing was changed\n" }
}

/// Formats the result of a plan.
pub(crate) fn done(document: &Value, look: Style) -> String {
    let mut page = Page::new(look);
    for (index, step) in items(document, "steps").iter().enumerate() {
        let action = text(step, "action");
        let past = match action {
            "create" => "created ",
            "update" => "updated ",
            "delete" => "deleted ",
            _ => "changed ",
        };
        let before = if index == 0 { "done: " } else { "      " };
        let object = reference(&step["object"]);
        page.whole(0, &[(Paint::Good, before), (paint(action), past), (Paint::Name, &object)]);
    }
    page.text()
}

fn paint(action: &str) -> Paint {
    match action {
        "create" => Paint::Good,
        "delete" => Paint::Bad,
        _ => Paint::Warn,
    }
}
