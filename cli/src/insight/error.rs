//! Errors of queries and changes.

use std::io;
use std::path::PathBuf;

use http::StatusCode;
use orlop_client::client::ConnectError;

use super::kinds::KindError;

/// Why a request to the server failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("the server does not answer: {}", innermost(.0))]
    Away(Box<kube::Error>),
    #[error("{message}")]
    Refused { code: StatusCode, message: String },
    #[error("the answer broke off: {0}")]
    BrokenOff(String),
    #[error("the answer is no JSON: {0}")]
    NoJson(serde_json::Error),
    #[error("the question cannot be put: {0}")]
    Question(#[from] http::Error),
}

impl AskError {
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, AskError::Refused { code, .. } if *code == StatusCode::NOT_FOUND)
    }

    /// Whether the requested revision has expired.
    pub(super) fn is_expired(&self) -> bool {
        matches!(self, AskError::Refused { code, .. } if *code == StatusCode::GONE)
    }

    /// Whether the object has changed since the plan.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, AskError::Refused { code, .. } if *code == StatusCode::CONFLICT)
    }
}

/// The format that the first line of a recording must declare.
pub(super) const RECORDING_FORMAT: &str = "orlop.dev/stream.1";

/// Why a recording was not saved.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("cannot write {}: {cause}", path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error("cannot write {}: there is no folder {}", path.display(), folder.display())]
    NoFolder { path: PathBuf, folder: PathBuf },
    #[error("nothing was saved: the server broke off: {0}")]
    BrokenOff(String),
    #[error("nothing was saved: line {line} is no JSON ({cause})")]
    NoJson { line: u64, cause: serde_json::Error },
    #[error(
        "nothing was saved: the server sends the form {0:?}, and this program knows {RECORDING_FORMAT:?}"
    )]
    OtherFormat(String),
    #[error("nothing was saved: the server ended with an error: {0}")]
    Refused(String),
    #[error("nothing was saved: the answer ends within a line")]
    Unfinished,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum InsightError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot start threads: {0}")]
    Threads(#[source] std::io::Error),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("cannot {what}: {cause}")]
    Ask { what: String, cause: AskError },
    #[error("cannot {what}: this server has no API group orlop.dev; only orlop itself can tell")]
    Foreign { what: String },
    #[error(
        "cannot {what}: it was deleted at {time} (revision {revision}); bring it back with `orlop undelete {named}`, or see what \
         was before with `orlop history {named}`"
    )]
    Deleted { what: String, time: String, revision: String, named: String },
    #[error(
        "cannot {what}: it was deleted at {time} (revision {revision}); see what was before with `orlop history {named}`"
    )]
    Gone { what: String, time: String, revision: String, named: String },
    #[error(
        "cannot {what} as of {when}: that is no longer available; the oldest available revision is {oldest}"
    )]
    Forgotten { what: String, when: String, oldest: String },
    #[error("nothing was there at {when}: the first write came later")]
    BeforeAll { when: String },
    #[error("the server does not say which revision it was at {time}: give the revision itself")]
    NoRevision { time: String },
    #[error(
        "cannot {what}: something has changed since the plan was made, and nothing was done ({cause}); look again"
    )]
    Changed { what: String, cause: AskError },
    #[error(
        "nothing was done: there is no terminal to ask on; give --yes to do it, or --dry-run to see the plan only"
    )]
    NobodyToAsk,
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[source] std::io::Error),
    #[error(
        "{kind} have names of their own in every namespace: a name and --all-namespaces do not fit together"
    )]
    NameInAll { kind: String },
    #[error("cannot {what}: it was not there then; `orlop history {named}` says when it was, if it ever was")]
    WasNotThere { what: String, named: String },
    #[error("the server gives no table of {kind}: ask with -o yaml or -o json")]
    NoTable { kind: String },
    #[error("the YAML of {kind} cannot be written ({cause}): ask with -o json")]
    Yaml { kind: String, cause: String },
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The innermost cause of a client error, such as "Connection refused".
pub(super) fn innermost(error: &kube::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(below) = error.source() {
        error = below;
    }
    error.to_string()
}
