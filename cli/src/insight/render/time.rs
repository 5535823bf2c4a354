//! Formats points in time.

use jiff::Timestamp;

/// Formats a time: `2026-01-31T12:00:00Z (in 4 min 10 s)`. Invalid times are returned unchanged.
pub(super) fn moment(text: &str, now: Timestamp) -> String {
    let Ok(then) = text.parse::<Timestamp>() else { return text.to_owned() };
    let seconds = then.as_second() - now.as_second();
    let span = span(seconds.unsigned_abs());
    match seconds {
        0 => format!("{text} (now)"),
        1.. => format!("{text} (in {span})"),
        i64::MIN..0 => format!("{text} ({span} ago)"),
    }
}

/// Truncates a time to seconds.
pub(crate) fn short(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => text.to_owned(),
    }
}

/// A duration in its two largest units.
fn span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let largest = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(units.len() - 1);
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, name) in units.iter().skip(largest).take(2) {
        let count = rest / unit;
        rest %= unit;
        if count > 0 {
            parts.push(format!("{count} {name}"));
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn durations_have_two_units() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        for (text, wanted) in [
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z (now)"),
            ("2026-01-31T12:04:10Z", "2026-01-31T12:04:10Z (in 4 min 10 s)"),
            ("2026-01-31T14:00:59Z", "2026-01-31T14:00:59Z (in 2 h)"),
            ("2026-01-29T11:00:00Z", "2026-01-29T11:00:00Z (2 d 1 h ago)"),
            ("soon", "soon"),
        ] {
            assert_eq!(moment(text, now), wanted);
        }
        assert_eq!(short("2026-01-31T12:00:00.123456Z"), "2026-01-31T12:00:00Z");
    }
}
