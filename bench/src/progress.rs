//! Progress on stderr.

use std::io::Write as _;

/// Prints a line to stderr: stdout is reserved for results.
pub(crate) fn progress(text: &str) {
    // A closed stderr is no error.
    let _ = writeln!(std::io::stderr(), "bench: {text}");
}
