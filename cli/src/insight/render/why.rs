//! Formats `Why`: a summary, followed by a tree of causes, candidates and blocking finalizers, each with its fix.

use serde_json::Value;

use super::fields::{count, items, reference, text};
use super::look::Style;
use super::page::{Page, Paint};
use super::time::moment;

/// How many of the nearest volumes are shown; the JSON output has all of them.
const NEAREST: usize = 3;

/// Causes that an existing volume may resolve. Other causes, such as waiting for a pod or a driver, do not list
/// volumes.
const SEARCHES: [&str; 4] = ["NoVolumeFits", "ReservedUnfit", "NoProvisioner", "ClassMissing"];

/// The answer as text.
pub(crate) fn why(document: &Value, look: Style) -> String {
    let mut page = Page::new(look);
    let (paint, words) = severity(text(document, "severity"));
    let object = reference(&document["object"]);
    let state = match text(document, "state") {
        "" => ": ".to_owned(),
        state => format!(" is {state}: "),
    };
    page.line(0, &[(Paint::Name, &object), (Paint::Plain, &state), (paint, &words)]);
    let (summary, causes) = (text(document, "summary"), items(document, "causes"));
    // The summary may already contain one of the causes, which is then not repeated.
    let is_said = |cause: &&Value| {
        let message = text(cause, "message");
        !message.is_empty() && summary.contains(message)
    };
    let (same, others): (Vec<&Value>, Vec<&Value>) = causes.iter().partition(is_said);
    sentence(&mut page, summary, same.first().map_or("", |cause| text(cause, "code")));
    for cause in same {
        below(&mut page, cause);
    }
    for cause in others {
        page.gap();
        sentence(&mut page, text(cause, "message"), text(cause, "code"));
        below(&mut page, cause);
    }
    let has_fix = causes.iter().any(|cause| cause["fix"].is_object());
    if causes.is_empty() || causes.iter().any(|cause| SEARCHES.contains(&text(cause, "code"))) {
        candidates(&mut page, &document["candidates"], has_fix);
    }
    blocked_by(&mut page, items(document, "blocked_by"), summary);
    page.text()
}

fn severity(word: &str) -> (Paint, String) {
    match word {
        "ok" => (Paint::Good, "all is well".to_owned()),
        "waiting" => (Paint::Warn, "waiting, which can be normal".to_owned()),
        "attention" => (Paint::Bad, "it needs attention".to_owned()),
        other => (Paint::Bad, other.to_owned()),
    }
}

/// A sentence and its code, which can be searched for.
fn sentence(page: &mut Page, message: &str, code: &str) {
    let code = if code.is_empty() { String::new() } else { format!(" [{code}]") };
    page.line(2, &[(Paint::Plain, message), (Paint::Quiet, &code)]);
}

/// The details of a cause.
fn below(page: &mut Page, cause: &Value) {
    see(page, 4, items(cause, "objects"), text(cause, "message"));
    let until = text(cause, "until");
    if !until.is_empty() {
        let until = moment(until, page.look().now);
        page.wrapped(4, 6, &[(Paint::Warn, "continues automatically at "), (Paint::Plain, &until)]);
    }
    fix(page, 4, &cause["fix"]);
}

/// The objects of a cause, one per line so that names can be copied. Objects that the sentence names are omitted.
fn see(page: &mut Page, indent: usize, objects: &[Value], sentence: &str) {
    for object in objects.iter().filter(|object| !sentence.contains(text(object, "name"))) {
        page.wrapped(indent, indent + 4, &[(Paint::Quiet, "see "), (Paint::Name, &reference(object))]);
    }
}

fn fix(page: &mut Page, indent: usize, fix: &Value) {
    if !fix.is_object() {
        return;
    }
    page.wrapped(indent, indent + 5, &[(Paint::Good, "fix: "), (Paint::Plain, text(fix, "message"))]);
    let command = match text(fix, "command") {
        "" => patch_command(&fix["patch"]).unwrap_or_default(),
        command => command.to_owned(),
    };
    if !command.is_empty() {
        page.whole(indent + 5, &[(Paint::Quiet, "$ "), (Paint::Plain, &command)]);
    }
}

/// The command that applies a patch.
fn patch_command(patch: &Value) -> Option<String> {
    let (target, body) = (patch.get("target")?, patch.get("body")?);
    let kind = match text(target, "resource") {
        "" => text(target, "kind"),
        resource => resource,
    };
    let namespace = match text(target, "namespace") {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    let (name, how) = (text(target, "name"), text(patch, "type"));
    // A quote ends the quoted text, is quoted itself, and starts the quoted text again.
    let body = body.to_string().replace('\'', r"'\''");
    Some(format!("kubectl patch {kind} {name}{namespace} --type={how} -p '{body}'"))
}

fn candidates(page: &mut Page, candidates: &Value, has_fix: bool) {
    let (fit, total) = (count(&candidates["fit"]), count(&candidates["total"]));
    // For a single candidate, the cause has all details.
    if matches!(total.as_str(), "" | "0" | "1") {
        return;
    }
    page.gap();
    let rules: Vec<String> = items(candidates, "by_rule")
        .iter()
        .map(|rule| format!("{} by {}", count(&rule["count"]), text(rule, "rule")))
        .collect();
    let against = if rules.is_empty() { String::new() } else { format!("; ruled out: {}", rules.join(", ")) };
    let head = format!("{fit} of {total} volumes fit");
    page.wrapped(2, 4, &[(Paint::Head, &head), (Paint::Plain, &against)]);
    let nearest = items(candidates, "nearest");
    for (index, volume) in nearest.iter().take(NEAREST).enumerate() {
        page.line(4, &[(Paint::Name, text(volume, "volume"))]);
        for verdict in items(volume, "verdicts").iter().filter(|verdict| verdict["ok"] != true) {
            one_verdict(page, verdict);
        }
        if index == 0 && !has_fix {
            fix(page, 6, &volume["fix"]);
        }
    }
    let more = nearest.len().saturating_sub(NEAREST);
    if more > 0 {
        page.line(4, &[(Paint::Quiet, &format!("{more} more, and all rules: -o json"))]);
    }
}

/// A rule that a volume fails.
fn one_verdict(page: &mut Page, verdict: &Value) {
    let (rule, message) = (text(verdict, "rule"), text(verdict, "message"));
    let detail = if message.is_empty() { String::new() } else { format!(": {message}") };
    page.wrapped(6, 8, &[(Paint::Bad, rule), (Paint::Plain, &detail)]);
}

fn blocked_by(page: &mut Page, blocks: &[Value], summary: &str) {
    if blocks.is_empty() {
        return;
    }
    page.gap();
    page.line(2, &[(Paint::Head, "its deletion is blocked by")]);
    for block in blocks {
        page.line(4, &[(Paint::Name, text(block, "finalizer"))]);
        let owner = text(block, "owner");
        if owner == "unknown" {
            page.line(6, &[(Paint::Quiet, "its owner is unknown")]);
        } else if !owner.is_empty() {
            page.wrapped(6, 8, &[(Paint::Quiet, "to be removed by "), (Paint::Plain, owner)]);
        }
        let message = text(block, "message");
        if !summary.contains(message) {
            page.line(6, &[(Paint::Plain, message)]);
        }
        see(page, 6, items(block, "objects"), text(block, "message"));
        fix(page, 6, &block["fix"]);
    }
}
