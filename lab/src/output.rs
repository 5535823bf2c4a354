//! Text on the terminal.

use std::io::Write as _;

/// Prints a line. A closed stdout is not an error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
