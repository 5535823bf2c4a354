//! Durations in human-readable form (`5m10s`, `3d4h`) and in Go's format (`1h5m0s`).

use std::time::Duration;

use crate::quoted;

/// Formats a duration as the `AGE` column of a table shows it; `seconds` is a whole number,
/// rounded towards zero. A duration more than a second in the future is `<invalid>`, because the clocks disagree.
pub fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;

    // The larger unit, and the smaller one unless it is zero.
    let two = |large: i64, a: char, small: i64, b: char| {
        if small == 0 { format!("{large}{a}") } else { format!("{large}{a}{small}{b}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, 'm', s % MINUTE, 's'),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, 'h', s % HOUR / MINUTE, 'm'),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, 'd', s % DAY / HOUR, 'h'),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, 'y', s % YEAR / DAY, 'd'),
        s => format!("{}y", s / YEAR),
    }
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3600 * 1_000_000_000),
];

/// Parses a duration in Go's format: `15s`, `1h5m`, `1.5s`, `0`.
///
/// # Errors
/// Returns Go's error text. Negative durations are rejected as well: no caller can wait for a negative time.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_len = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text)));
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        total = whole
            .checked_mul(*nanos)
            .and_then(|n| n.checked_add(fraction_of(fraction, *nanos)))
            .and_then(|n| total.checked_add(n))
            .filter(|n| i64::try_from(*n).is_ok())
            .ok_or_else(invalid)?;
        rest = after;
    }
    Ok(Duration::from_nanos(total))
}

/// Converts `0.<digits>` of a unit to nanoseconds, truncated. Digits after the 18th are below a nanosecond.
fn fraction_of(digits: &str, nanos: u64) -> u64 {
    let mut value: u128 = 0;
    let mut scale: u128 = 1;
    for digit in digits.bytes().take(18) {
        value = value * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    // Below `nanos`, so it fits.
    u64::try_from(value * u128::from(nanos) / scale).unwrap_or(0)
}

/// Formats a duration as Go does: `0s`, `500ms`, `1.5s`, `1h5m0s`.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (unit, per) = match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => ("ns", 1),
        1_000..1_000_000 => ("\u{b5}s", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => {
            let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
            let minutes = nanos / 60_000_000_000;
            return match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, m) => format!("{m}m{seconds}s"),
                (h, m) => format!("{h}h{m}m{seconds}s"),
            };
        }
    };
    format!("{}{unit}", decimal(nanos, per))
}

/// Formats `value / per` as a decimal without trailing zeros; `per` is a power of ten.
fn decimal(value: u128, per: u128) -> String {
    let whole = value / per;
    if value.is_multiple_of(per) {
        return whole.to_string();
    }
    let width = per.ilog10() as usize;
    let fraction = format!("{:0width$}", value % per);
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn human_durations() {
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        for (seconds, expected) in [
            (i64::MIN, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (310, "5m10s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (3 * HOUR + 59, "3h"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (48 * HOUR - 1, "47h"),
            (48 * HOUR, "2d"),
            (50 * HOUR, "2d2h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (730 * DAY - 1, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY - 1, "7y364d"),
            (8 * 365 * DAY, "8y"),
            (9 * 365 * DAY + 5, "9y"),
        ] {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn go_durations() {
        for (text, nanos, canonical) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("15s", 15_000_000_000, "15s"),
            ("1h5m", 3_900_000_000_000, "1h5m0s"),
            ("500ms", 500_000_000, "500ms"),
            ("1.5s", 1_500_000_000, "1.5s"),
            (".5h", 1_800_000_000_000, "30m0s"),
            ("1.s", 1_000_000_000, "1s"),
            ("+2us", 2_000, "2\u{b5}s"),
            ("1m1m", 120_000_000_000, "2m0s"),
            ("1.0000001ms", 1_000_000, "1ms"),
        ] {
            let parsed = parse(text).unwrap();
            assert_eq!(parsed.as_nanos(), nanos, "{text}");
            assert_eq!(format(parsed), canonical, "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for (text, error) in [
            ("", "time: invalid duration \"\""),
            ("-5s", "time: invalid duration \"-5s\""),
            ("s", "time: invalid duration \"s\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5d", "time: unknown unit \"d\" in duration \"5d\""),
            ("99999999999h", "time: invalid duration \"99999999999h\""),
            ("9999999999999999999999s", "time: invalid duration \"9999999999999999999999s\""),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn formatted_durations_parse_back(nanos in 0..i64::MAX as u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn parsing_never_panics(text in "(\\PC|[0-9hmsun.+-]){0,12}") {
            let _ = parse(&text);
        }
    }
}
