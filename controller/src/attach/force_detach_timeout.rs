//! How long an unhealthy node may keep a volume that no pod uses there. Pure.

use std::time::Duration;

use orlop_apimachinery::duration;

/// The value for a volume that is never force-detached.
const NEVER: &str = "never";

/// Parses the annotation.
///
/// # Errors
/// The annotation is invalid; the text gives the reason.
pub(super) fn parse(text: &str) -> Result<Option<Duration>, String> {
    if text == NEVER {
        return Ok(None);
    }
    duration::parse(text)
        .map(Some)
        .map_err(|error| format!("{error}; write a duration such as 90s, or {NEVER}"))
}

/// The objects with the annotation, in increasing precedence.
const LEVELS: [&str; 3] = ["StorageClass", "PersistentVolume", "Node"];

/// The time after which a volume is force-detached: the node's value, else the volume's, else its class's, else the flag's.
/// Invalid values are skipped; the second part of the result describes them.
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
