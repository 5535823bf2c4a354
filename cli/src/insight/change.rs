//! What has a plan: shown first, asked about, and then carried out as it was shown or not at all.

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use super::error::InsightError;
use super::kinds::Object;
use super::names::{Named, Point};
use super::outcome::Ended;
use super::render::{self, Look};
use super::session::Session;
use crate::args::TextOrJson;

/// What the server wants to hear from whoever takes on the danger.
const FORCE_WORDS: &str = "data may be corrupted";

/// What is wanted.
pub(crate) struct Change {
    pub(crate) object: Named,
    pub(crate) verb: Verb,
    /// Only the plan.
    pub(crate) dry_run: bool,
    /// Without asking.
    pub(crate) yes: bool,
    pub(crate) output: TextOrJson,
}

/// What is done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// It comes back as it was then, or as it was last.
    Undelete { at: Option<Point> },
    /// A volume is for the next claim, or for this one (namespace, name), with its data.
    KeepData { claim: Option<(String, String)> },
    /// A volume is for the next claim, without its data.
    Scrub,
    /// A Lost claim has its volume again.
    Recover,
    /// A claim goes to a namespace, under a name.
    Transfer { namespace: String, name: Option<String> },
    /// An attachment ends.
    Release { force: bool },
    /// A finalizer goes.
    Unblock { force: bool },
}

/// Who is asked.
pub(super) struct Person<'a> {
    /// There is a terminal on both sides.
    pub(super) is_there: bool,
    pub(super) answers: &'a mut dyn BufRead,
    pub(super) out: &'a mut dyn Write,
    pub(super) look: Look,
}

impl Verb {
    /// As the server and the command line call it.
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

/// Plan, question, deed. What is done goes to stdout; the plan too, when it is all that is wanted.
pub(super) async fn change(
    session: &Session,
    change: &Change,
    person: Person<'_>,
    look: Look,
) -> Result<(String, Ended), InsightError> {
    let object = session.object(&change.object)?;
    let options = change.verb.options(session).await?;
    let plan = send(session, &object, &change.verb, &options, true).await?;
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
    let done = send(session, &object, &change.verb, &options, false).await?;
    let text = match change.output {
        TextOrJson::Text => render::done(&done, look),
        TextOrJson::Json => render::json(&done),
    };
    Ok((text, Ended::Well))
}

/// The plan that was seen is the one that is carried out.
fn held_to(mut options: Value, plan: &Value) -> Value {
    options["revision"] = plan["revision"].clone();
    options
}

/// Shows the plan and asks; its sentence alone where nobody is asked.
fn is_wanted(plan: &Value, yes: bool, person: Person<'_>) -> Result<bool, InsightError> {
    let mut say = |text: &str| -> Result<(), InsightError> {
        person
            .out
            .write_all(text.as_bytes())
            .and_then(|()| person.out.flush())
            .map_err(InsightError::Terminal)
    };
    if yes {
        // Whoever does not want to be asked may look with --dry-run before.
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
        // The end of the input, which leaves the cursor behind the question.
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
