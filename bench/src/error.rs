//! The errors of `orlop bench`, one variant per operation.

use std::path::PathBuf;

/// Why a row, or the whole run, could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A flag has an unusable value.
    #[error("{flag} {value}: {problem}")]
    Flag { flag: &'static str, value: String, problem: String },
    /// A file or a directory of the run itself.
    #[error("{what} {}: {error}", path.display())]
    File { what: &'static str, path: PathBuf, error: std::io::Error },
    /// A process that bench started exited or did not become ready.
    #[error("the {problem}; the end of its log:\n{log}")]
    Child { problem: String, log: String },
    /// A connection could not be opened, or it broke.
    #[error("{url} cannot be reached: {problem}")]
    Connect { url: String, problem: String },
    /// A response that is malformed or unexpected.
    #[error("{what} at {url}: {problem}")]
    Request { url: String, what: String, problem: String },
    /// An expected condition was not reached in time.
    #[error("timeout after {seconds} s: {what}")]
    Late { what: String, seconds: u64 },
}
