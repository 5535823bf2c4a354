//! The commands that explain, rewind and repair: `orlop why`, `impact`, `history`, `diff`, `get`, `list`, `undelete`, `record`, `unblock`,
//! `pv`, `pvc` and `attachment`. The answers are the server's (group `orlop.dev`, docs/insight.md); here they are asked for and shown.
//!
//! `names` reads what a person writes, `kinds` says which kind a word means, `session` asks the server, `get` and
//! `look` do what only reads, `change` what has a plan, `record` keeps the past in a file, and `render` makes text of answers (pure).

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

use std::io::{IsTerminal as _, Write as _};
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
use self::render::{Look, visible};
use self::session::Session;
use crate::args::TextOrJson;

/// It needs attention, or the person said no.
const ATTENTION: u8 = 1;
/// The question could not be answered, or it could not be done.
const NO_ANSWER: u8 = 2;

/// What is asked, and of whom.
pub(crate) struct Insight {
    pub(crate) deed: Deed,
    pub(crate) namespace: Option<String>,
    pub(crate) server: Endpoint,
}

/// What is asked.
pub(crate) enum Deed {
    /// Why is it as it is?
    Why { object: Named, output: TextOrJson },
    /// What would its deletion take along?
    Impact { object: Named, output: TextOrJson },
    /// Who changed what?
    History { object: Named, limit: u32, token: Option<String>, output: TextOrJson },
    /// What is different? Without `to`: as it is now.
    Diff { object: Named, from: Point, to: Option<Point>, output: TextOrJson },
    /// Objects.
    Get(Get),
    /// The past in a file; `-` is stdout.
    Record { file: PathBuf, from: Option<Point> },
    /// Something that has a plan.
    Change(Change),
}

/// Does it, and says with which code to exit. Answers go to stdout; questions, progress and errors to stderr.
pub(crate) fn run(insight: Insight) -> ExitCode {
    // A filter that is written here can be read.
    let _ = crate::logging::start_for_tool();
    let place = match &insight.server {
        Endpoint::Url { url, .. } | Endpoint::Kubeconfig { server: Some(url), .. } => url.clone(),
        Endpoint::Kubeconfig { server: None, .. } => "the server of the kubeconfig".to_owned(),
    };
    let all = || -> Result<Ended, InsightError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(InsightError::Threads)?;
        runtime.block_on(async {
            let client = client::connect(insight.server).await?;
            perform(client, insight.namespace.as_deref(), &insight.deed).await
        })
    };
    match all() {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::NeedsAttention | Ended::Declined) => ExitCode::from(ATTENTION),
        Err(InsightError::Ask { cause: AskError::Away(cause), .. }) => {
            let cause = error::innermost(&cause);
            let error =
                format!("{place} does not answer ({cause}): is it running? --server URL names another one");
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
    let look = on(std::io::stdout().is_terminal());
    let told = match deed {
        Deed::Why { object, output } => look::why(&session, object, *output, look).await?,
        Deed::Impact { object, output } => look::impact(&session, object, *output, look).await?,
        Deed::History { object, limit, token, output } => {
            look::history(&session, object, *limit, token.as_deref(), *output, look).await?
        }
        Deed::Diff { object, from, to, output } => {
            look::diff(&session, object, from, to.as_ref(), *output, look).await?
        }
        Deed::Get(get) => get::get(&session, get, look).await?,
        Deed::Record { file, from } => {
            let said = record::run(&session, file, from.as_ref()).await?;
            eprintln!("{said}");
            (String::new(), Ended::Well)
        }
        Deed::Change(change) => {
            let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
            let person = change::Person {
                is_there: is_terminal,
                answers: &mut std::io::stdin().lock(),
                out: &mut std::io::stderr(),
                look: on(std::io::stderr().is_terminal()),
            };
            change::change(&session, change, person, look).await?
        }
    };
    // A reader that has gone away has what it wanted.
    let _ = std::io::stdout().write_all(told.0.as_bytes());
    Ok(told.1)
}

/// Colours are for terminals, and for people who have not asked for none (no-color.org).
fn on(is_terminal: bool) -> Look {
    let without = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    Look { colour: is_terminal && !without && !is_dumb, now: Timestamp::now() }
}

#[cfg(test)]
mod tests;
