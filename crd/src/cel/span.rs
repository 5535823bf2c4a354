//! Durations.

use jiff::SignedDuration;

/// Parses a duration in Go's format: `-1h30m`.
pub(super) fn span(text: &str) -> Option<SignedDuration> {
    let (rest, negative) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
    let span = SignedDuration::try_from(orlop_apimachinery::duration::parse(rest).ok()?).ok()?;
    Some(if negative { -span } else { span })
}
