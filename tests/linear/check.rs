//! The check of all rules.

use super::causes::Causes;
use super::history::History;
use super::log::{Faults, Log};
use super::{register, revisions, streams};

/// Every fault of a history.
pub(crate) fn check(history: &History) -> Faults {
    let mut faults = Faults::default();
    let log = Log::of(history, &mut faults);
    if !faults.0.is_empty() {
        // Without a log there is nothing to compare with.
        return faults;
    }
    let causes = Causes::of(history, &log, &mut faults);
    let known = revisions::check(history, &log, &causes, &mut faults);
    streams::check(history, &log, &causes, &known, &mut faults);
    register::check(history, &log, &causes, &mut faults);
    faults
}
