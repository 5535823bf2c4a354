//! The errors of `orlop bench`, one variant per operation.

use std::path::PathBuf;

/// Why a row (or all rows) could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A flag names something that cannot be used.
    #[error("{flag} {value}: {problem}")]
    Flag { flag: &'static str, value: String, problem: String },
    /// A file or a directory of the run itself.
    #[error("{what} {}: {error}", path.display())]
    File { what: &'static str, path: PathBuf, error: std::io::Error },
    /// A server of our own does not run.
    #[error("the server that bench started {problem}; the end of its log:\n{log}")]
    Child { problem: String, log: String },
    /// No connection, or it broke.
    #[error("{url} cannot be reached: {problem}")]
    Connect { url: String, problem: String },
    /// An answer that is none, or that is not the one that was needed.
    #[error("{what} at {url}: {problem}")]
    Request { url: String, what: String, problem: String },
    /// What had to happen did not.
    #[error("waited {seconds} s in vain: {what}")]
    Late { what: String, seconds: u64 },
}
