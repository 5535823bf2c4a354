//! Durations and points in time.

use jiff::{SignedDuration, Timestamp};

/// Parses a duration in Go's format: `-1h30m`.
pub(super) fn span(text: &str) -> Option<SignedDuration> {
    let (rest, negative) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
    let span = SignedDuration::try_from(orlop_apimachinery::duration::parse(rest).ok()?).ok()?;
    Some(if negative { -span } else { span })
}

/// Parses a point in time as in RFC 3339: `2026-01-02T03:04:05.6+07:00`.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    let is_like = |text: &str, pattern: &str| {
        text.len() == pattern.len()
            && text
                .bytes()
                .zip(pattern.bytes())
                .all(|(c, want)| if want == b'0' { c.is_ascii_digit() } else { c == want })
    };
    let (start, mut rest) = (text.get(..19)?, text.get(19..)?);
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        rest = &fraction[digits..];
    }
    let is_zone = rest == "Z" || is_like(rest, "+00:00") || is_like(rest, "-00:00");
    if !is_like(start, "0000-00-00T00:00:00") || !is_zone {
        return None;
    }
    text.parse().ok()
}

/// Whether CEL has a point in time: the years 1 to 9999.
pub(super) fn is_in_range(seconds: i64) -> bool {
    (-62_135_596_800..=253_402_300_799).contains(&seconds)
}
