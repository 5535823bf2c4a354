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
    #[error("the response ended early: {0}")]
    BrokenOff(String),
    #[error("the response is not JSON: {0}")]
    NoJson(serde_json::Error),
    #[error("the request cannot be built: {0}")]
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
    #[error("cannot write {}: the directory {} does not exist", path.display(), folder.display())]
    NoFolder { path: PathBuf, folder: PathBuf },
    #[error("nothing was saved: the response of the server ended early: {0}")]
    BrokenOff(String),
    #[error("nothing was saved: line {line} is not JSON ({cause})")]
    NoJson { line: u64, cause: serde_json::Error },
    #[error(
        "nothing was saved: the server sends the format {0:?}, and this version of orlop supports {RECORDING_FORMAT:?}"
    )]
    OtherFormat(String),
    #[error("nothing was saved: the server reported an error: {0}")]
    Refused(String),
    #[error("nothing was saved: the response ends within a line")]
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
    #[error("cannot {what}: this server has no API group orlop.dev; only orlop servers have it")]
    Foreign { what: String },
    #[error(
        "cannot {what}: it was deleted at {time} (revision {revision}); restore it with `orlop undelete {named}`, or show its earlier states with `orlop history {named}`"
    )]
    Deleted { what: String, time: String, revision: String, named: String },
    #[error(
        "cannot {what}: it was deleted at {time} (revision {revision}); show its earlier states with `orlop history {named}`"
    )]
    Gone { what: String, time: String, revision: String, named: String },
    #[error(
        "cannot {what} as of {when}: this state is no longer available; the oldest available revision is {oldest}"
    )]
    Forgotten { what: String, when: String, oldest: String },
    #[error("the store was empty at {when}: the first write is newer")]
    BeforeAll { when: String },
    #[error("the server does not report the revision at {time}: specify a revision")]
    NoRevision { time: String },
    #[error(
        "cannot {what}: an object changed after the plan was made, and nothing was done ({cause}); run the command again"
    )]
    Changed { what: String, cause: AskError },
    #[error(
        "nothing was done: confirmation requires a terminal; use --yes to confirm, or --dry-run to show only the plan"
    )]
    NobodyToAsk,
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[source] std::io::Error),
    #[error("{kind} are namespaced: a name cannot be combined with --all-namespaces")]
    NameInAll { kind: String },
    #[error("cannot {what}: it did not exist then; `orlop history {named}` shows when it existed")]
    WasNotThere { what: String, named: String },
    #[error("the server does not return a table for {kind}: use -o yaml or -o json")]
    NoTable { kind: String },
    #[error("{kind} cannot be converted to YAML ({cause}): use -o json")]
    Yaml { kind: String, cause: String },
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The message about a server that sent no response.
pub(super) fn unreachable(place: &str, cause: &str) -> String {
    match cause.contains("invalid peer certificate") {
        true => format!(
            "the certificate of {place} is not trusted ({cause}): name its authority with --certificate-authority FILE, or \
             use a kubeconfig of the server"
        ),
        false => format!(
            "{place} does not answer ({cause}): check that it runs, or name another server with --server URL"
        ),
    }
}

/// The innermost cause of a client error, such as "Connection refused".
pub(super) fn innermost(error: &kube::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(below) = error.source() {
        error = below;
    }
    error.to_string()
}
