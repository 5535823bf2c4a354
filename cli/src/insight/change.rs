//! Commands that have a plan: show the plan, ask for confirmation, and carry out exactly that plan or nothing.

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use super::error::InsightError;
use super::kinds::Object;
use super::names::{Named, Point};
use super::outcome::Ended;
use super::render::{self, Style};
use super::session::Session;
use crate::args::TextOrJson;

/// The confirmation that the server requires for a dangerous change.
const FORCE_WORDS: &str = "data may be corrupted";

/// A requested change.
pub(crate) struct Change {
    /// The operations, each on one object and with a plan of its own.
    pub(crate) operations: Vec<(Named, Verb)>,
    /// Show the plan only.
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation.
    pub(crate) yes: bool,
    pub(crate) output: TextOrJson,
}

/// The operation on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Recreate the object as it was at a revision or time, or as it was last.
    Undelete { at: Option<Point> },
    /// Make a volume available with its data: to any claim, or to this one (namespace, name).
    KeepData { claim: Option<(String, String)> },
    /// Make a volume available without its data.
    Scrub,
    /// Bind a Lost claim to its volume again.
    Recover,
    /// Move a claim to a namespace, with an optional new name.
    Transfer { namespace: String, name: Option<String> },
    /// Release an attachment.
    Release { force: bool },
    /// Remove orphaned finalizers.
    Unblock { force: bool },
}

/// The user at the terminal.
pub(super) struct Terminal<'a> {
    /// Both stdin and the output are terminals.
    pub(super) is_there: bool,
    pub(super) answers: &'a mut dyn BufRead,
    pub(super) out: &'a mut dyn Write,
    pub(super) look: Style,
}

impl Verb {
    /// The name of the operation in the API and on the command line.
    fn name(&self) -> &'static str {
        match self {
            Verb::Undelete { .. } => "undelete",
            Verb::KeepData { .. } | Verb::Scrub => "reclaim",
            Verb::Recover => "recover",
            Verb::Transfer { .. } => "transfer",
            Verb::Release { .. } => "release",
            Verb::Unblock { .. } => "unblock",
        }
    }

    /// `PlanOptions` without the revision of the plan.
    async fn options(&self, session: &Session) -> Result<Value, InsightError> {
        let mut options = match self {
            Verb::Undelete { at: None } => json!({}),
            Verb::Undelete { at: Some(at) } => json!({ "at": session.revision(at).await? }),
            Verb::KeepData { claim: None } => json!({ "keepData": true }),
            Verb::KeepData { claim: Some((namespace, name)) } => {
                json!({ "keepData": true, "for": { "namespace": namespace, "name": name } })
            }
            Verb::Scrub => json!({ "scrub": true }),
            Verb::Recover => json!({}),
            Verb::Transfer { namespace, name: None } => json!({ "namespace": namespace }),
            Verb::Transfer { namespace, name: Some(name) } => json!({ "namespace": namespace, "name": name }),
            Verb::Release { force: false } | Verb::Unblock { force: false } => json!({}),
            Verb::Release { force: true } | Verb::Unblock { force: true } => json!({ "force": FORCE_WORDS }),
        };
        options["kind"] = json!("PlanOptions");
        options["apiVersion"] = json!("orlop.dev/v1");
        Ok(options)
    }
}

/// Shows the plan of one of the operations, asks for confirmation and carries it out. Results are written to stdout, and so is the plan of
/// a dry run.
pub(super) async fn change(
    session: &Session,
    change: &Change,
    (object, verb): &(Named, Verb),
    person: Terminal<'_>,
    look: Style,
) -> Result<(String, Ended), InsightError> {
    let object = session.object(object)?;
    let options = verb.options(session).await?;
    let plan = send(session, &object, verb, &options, true).await?;
    let is_empty = plan["steps"].as_array().is_none_or(Vec::is_empty);
    if change.dry_run || is_empty {
        let text = match change.output {
            TextOrJson::Text => render::plan(&plan, look) + render::nothing_changed(is_empty),
            TextOrJson::Json => render::json(&plan),
        };
        return Ok((text, Ended::Well));
    }
    if !is_wanted(&plan, change.yes, person)? {
        return Ok((String::new(), Ended::Declined));
    }
    let options = held_to(options, &plan);
    let done = send(session, &object, verb, &options, false).await?;
    let text = match change.output {
        TextOrJson::Text => render::done(&done, look),
        TextOrJson::Json => render::json(&done),
    };
    Ok((text, Ended::Well))
}

/// Pins the revision of the plan, so that the server carries out exactly the plan shown.
fn held_to(mut options: Value, plan: &Value) -> Value {
    options["revision"] = plan["revision"].clone();
    options
}

/// Shows the plan and asks for confirmation. With `--yes`, prints only the summary.
fn is_wanted(plan: &Value, yes: bool, person: Terminal<'_>) -> Result<bool, InsightError> {
    let mut say = |text: &str| -> Result<(), InsightError> {
        person
            .out
            .write_all(text.as_bytes())
            .and_then(|()| person.out.flush())
            .map_err(InsightError::Terminal)
    };
    if yes {
        // `--dry-run` shows the whole plan.
        say(&render::brief(plan, person.look))?;
        return Ok(true);
    }
    say(&render::plan(plan, person.look))?;
    if !person.is_there {
        return Err(InsightError::NobodyToAsk);
    }
    say("\nDo this? [y/N] ")?;
    let mut line = String::new();
    let length = person.answers.read_line(&mut line).map_err(InsightError::Terminal)?;
    if length == 0 {
        // The end of the input leaves the cursor behind the question.
        say("\n")?;
    }
    if matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(true);
    }
    say("nothing was changed\n")?;
    Ok(false)
}

async fn send(
    session: &Session,
    object: &Object,
    verb: &Verb,
    options: &Value,
    is_trial: bool,
) -> Result<Value, InsightError> {
    let name = verb.name();
    let tail = if is_trial { format!("{name}?dryRun=All") } else { name.to_owned() };
    let answer = session.post(&object.insight(&tail), options).await;
    answer.map_err(|cause| {
        let what = format!("{name} {}", object.shown());
        match cause.is_conflict() && !is_trial {
            true => InsightError::Changed { what, cause },
            false => session.explained(what, cause),
        }
    })
}
