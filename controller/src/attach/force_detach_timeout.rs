//! How long a node that is not healthy may keep a volume that nobody wants there. Pure.

use std::time::Duration;

use orlop_apimachinery::duration;

/// The word for a volume that is never taken by force.
const NEVER: &str = "never";

/// What an annotation asks for.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<Option<Duration>, String> {
    if text == NEVER {
        return Ok(None);
    }
    duration::parse(text)
        .map(Some)
        .map_err(|error| format!("{error}; write a duration such as 90s, or {NEVER}"))
}

/// Whose annotation it is, the weakest first.
const LEVELS: [&str; 3] = ["StorageClass", "PersistentVolume", "Node"];

/// The time after which a volume is taken by force: the node's word, else the volume's, else that of its class, else the
/// flags'. What cannot be read is passed over; the second part says what and why.
// Tests: NEW-AD-PATIENCE
pub(super) fn force_after(
    flags: Option<Duration>,
    asked: [Option<&str>; 3],
) -> (Option<Duration>, Vec<String>) {
    let (mut patience, mut problems) = (flags, Vec::new());
    for (level, text) in LEVELS.iter().zip(asked) {
        match text.map(parse) {
            None => {}
            Some(Ok(asked)) => patience = asked,
            Some(Err(problem)) => problems.push(format!("{level}: {problem}")),
        }
    }
    (patience, problems)
}
