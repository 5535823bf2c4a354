//! The commands that explain, rewind and repair: `orlop why`, `impact`, `history`, `diff`, `get`, `list`,
//! `undelete`, `record`, `unblock`, `pv`, `pvc` and `attachment`. The server computes the answers (group
//! `orlop.dev`, docs/insight.md); the commands request and print them.
//!
//! `names` parses the names of objects and revisions, `kinds` finds the kind of a word, `session` sends the
//! requests, `get` and `look` are the read-only commands, `change` the commands with a plan, `record` saves the
//! past in a file, `several` repeats a command for several objects, and `render` formats answers as text (pure).

mod change;
mod error;
mod get;
mod kinds;
mod look;
pub(crate) mod names;
mod outcome;
mod record;
mod render;
mod session;
mod several;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use jiff::Timestamp;
use kube::Client;
use orlop_client::client::{self, Endpoint};

pub(crate) use self::change::{Change, Verb};
use self::error::{AskError, InsightError};
pub(crate) use self::get::Get;
use self::names::{Named, Point};
use self::outcome::Ended;
use self::render::{Style, visible};
use self::session::Session;
use self::several::{Streams, each};
use crate::args::TextOrJson;
use crate::local_admin;

/// Exit code: the object needs attention, or the user declined.
const ATTENTION: u8 = 1;
/// Exit code: a question could not be answered, or the change failed.
const NO_ANSWER: u8 = 2;

/// The request and its server.
pub(crate) struct Insight {
    pub(crate) deed: Deed,
    pub(crate) namespace: Option<String>,
    pub(crate) server: Endpoint,
}

/// The request.
pub(crate) enum Deed {
    /// Explain the state of the objects.
    Why { objects: Vec<Named>, output: TextOrJson },
    /// Show what deleting each object would remove.
    Impact { objects: Vec<Named>, output: TextOrJson },
    /// List the changes of the objects.
    History { objects: Vec<Named>, limit: u32, token: Option<String>, output: TextOrJson },
    /// Compare two revisions of each object. Without the second one, with the current state.
    Diff { objects: Vec<(Named, Point, Option<Point>)>, output: TextOrJson },
    /// Read objects.
    Get(Get),
    /// Save the past in a file; `-` is stdout.
    Record { file: PathBuf, from: Option<Point> },
    /// Carry out a change that has a plan.
    Change(Change),
}

/// Runs the command and returns the exit code. Answers are written to stdout; questions, progress and errors to
/// stderr.
pub(crate) fn run(insight: Insight) -> ExitCode {
    // The built-in filter is always valid.
    let _ = crate::logging::start_for_tool();
    let place = match &insight.server {
        Endpoint::Url { url, .. } | Endpoint::Kubeconfig { server: Some(url), .. } => {
            client::without_password(url).into_owned()
        }
        Endpoint::Certificate(certificate) => certificate.url.clone(),
        Endpoint::Kubeconfig { server: None, .. } => "the server of the kubeconfig".to_owned(),
    };
    let all = || -> Result<Ended, InsightError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(InsightError::Threads)?;
        runtime.block_on(async {
            let client = local_admin::connect(insight.server).await?;
            perform(client, insight.namespace.as_deref(), &insight.deed).await
        })
    };
    match all() {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::NeedsAttention | Ended::Declined) => ExitCode::from(ATTENTION),
        Ok(Ended::Failed) => ExitCode::from(NO_ANSWER),
        Err(InsightError::Ask { cause: AskError::Away(cause), .. }) => {
            let cause = error::innermost(&cause);
            let error = error::unreachable(&place, &cause);
            eprintln!("error: {}", visible(&error));
            ExitCode::from(NO_ANSWER)
        }
        Err(error) => {
            eprintln!("error: {}", visible(&error.to_string()));
            ExitCode::from(NO_ANSWER)
        }
    }
}

async fn perform(client: Client, namespace: Option<&str>, deed: &Deed) -> Result<Ended, InsightError> {
    let session = Session::begin(client, namespace).await?;
    // Before the first request: with a mistyped kind, the command does nothing.
    for object in deed.objects() {
        session.object(object)?;
    }
    let look = on(std::io::stdout().is_terminal());
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let mut streams = Streams { out: &mut out, err: &mut err };
    match deed {
        Deed::Why { objects, output } => {
            let why = async |object: &Named| look::why(&session, object, *output, look).await;
            each(objects, *output, streams, why).await
        }
        Deed::Impact { objects, output } => {
            let impact = async |object: &Named| look::impact(&session, object, *output, look).await;
            each(objects, *output, streams, impact).await
        }
        Deed::History { objects, limit, token, output } => {
            let token = token.as_deref();
            let history =
                async |object: &Named| look::history(&session, object, *limit, token, *output, look).await;
            each(objects, *output, streams, history).await
        }
        Deed::Diff { objects, output } => {
            let diff = async |(object, from, to): &(Named, Point, Option<Point>)| {
                look::diff(&session, object, from, to.as_ref(), *output, look).await
            };
            each(objects, *output, streams, diff).await
        }
        Deed::Get(get) => {
            let (text, ended) = get::get(&session, get, look).await?;
            streams.answer(0, &text, TextOrJson::Text);
            Ok(ended)
        }
        Deed::Record { file, from } => {
            let said = record::run(&session, file, from.as_ref()).await?;
            eprintln!("{said}");
            Ok(Ended::Well)
        }
        Deed::Change(change) => {
            let mut worst = Ended::Well;
            // The first failure ends the command, and the remaining objects are unchanged.
            for (index, operation) in change.operations.iter().enumerate() {
                let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
                let person = change::Terminal {
                    is_there: is_terminal,
                    answers: &mut std::io::stdin().lock(),
                    out: &mut std::io::stderr(),
                    look: on(std::io::stderr().is_terminal()),
                };
                let (text, ended) = change::change(&session, change, operation, person, look).await?;
                streams.answer(index, &text, change.output);
                worst = worst.max(ended);
            }
            Ok(worst)
        }
    }
}

impl Deed {
    /// The objects that the user named.
    pub(crate) fn objects(&self) -> Vec<&Named> {
        match self {
            Deed::Why { objects, .. } | Deed::Impact { objects, .. } | Deed::History { objects, .. } => {
                objects.iter().collect()
            }
            Deed::Diff { objects, .. } => objects.iter().map(|(object, ..)| object).collect(),
            Deed::Change(change) => change.operations.iter().map(|(object, _)| object).collect(),
            Deed::Get(_) | Deed::Record { .. } => Vec::new(),
        }
    }
}

/// Colours are used on terminals, unless NO_COLOR is set (no-color.org).
fn on(is_terminal: bool) -> Style {
    let without = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    Style { colour: is_terminal && !without && !is_dumb, now: Timestamp::now() }
}

#[cfg(test)]
mod tests;
