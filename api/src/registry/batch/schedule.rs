//! The schedule of a CronJob: five fields, or a descriptor such as `@hourly`.
//!
//! Upstream: github.com/robfig/cron/v3 (`ParseStandard`), whose errors are part of the API.

use std::num::IntErrorKind;

use orlop_apimachinery::duration;

use super::time_zone::is_known;

/// The values of a field.
struct Bounds {
    min: u64,
    max: u64,
    /// Names of the values from `min`.
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: &MONTHS },
    Bounds { min: 0, max: 6, names: &DAYS },
];

const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const EVERY: &str = "@every ";

/// Checks a schedule. It may begin with a time zone.
///
/// # Errors
/// Why it is invalid.
pub(super) fn check_schedule(text: &str) -> Result<(), String> {
    let zoned = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
    let rest = match zoned {
        None => text,
        Some(zoned) => {
            let (zone, rest) = zoned.split_once(' ').unwrap_or((zoned, ""));
            if !matches!(zone, "" | "Local") && !is_known(zone) {
                return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
            }
            rest.trim()
        }
    };
    if rest.starts_with('@') {
        return check_descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (wanted, found) = (FIELDS.len(), fields.len());
        return Err(format!("expected exactly {wanted} fields, found {found}: [{}]", fields.join(" ")));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(field, bounds)| {
        let mut parts = field.split(',').filter(|part| !part.is_empty());
        parts.try_for_each(|part| check_range(part, bounds))
    })
}

fn check_descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix(EVERY) {
        Some(interval) => {
            let parsed = duration::parse(interval).map(drop);
            parsed.map_err(|why| format!("failed to parse duration {text}: {why}"))
        }
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// A value, a range or `*`, with or without a step: `5`, `1-5/2`, `*/10`.
fn check_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').take(3).collect();
    let ends: Vec<&str> = parts[0].split('-').take(3).collect();
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [one] => value(one, bounds).map(|one| (one, one))?,
        [start, end] => (value(start, bounds)?, value(end, bounds)?),
        _ => {
            // An invalid first value is reported before the number of hyphens.
            value(ends[0], bounds)?;
            return Err(format!("too many hyphens: {text}"));
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {text}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn value(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| **name == lower) {
        Some(at) => Ok(bounds.min + u64::try_from(at).unwrap_or_default()),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}")
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_checked() {
        for (text, want) in [
            ("*/5 * * * *", Ok(())),
            ("0 9-17/2 1,15 JAN-mar mon", Ok(())),
            ("? ? ? ? ?", Ok(())),
            ("5/15 * * * *", Ok(())),
            (",0, * * * *", Ok(())),
            ("@hourly", Ok(())),
            ("@every 1h30m", Ok(())),
            ("TZ=UTC 0 * * * *", Ok(())),
            ("CRON_TZ=Europe/Berlin @daily", Ok(())),
            ("every day", Err("expected exactly 5 fields, found 2: [every day]")),
            ("* * * * * *", Err("expected exactly 5 fields, found 6: [* * * * * *]")),
            ("61 * * * *", Err("end of range (61) above maximum (59): 61")),
            ("* * 0 * *", Err("beginning of range (0) below minimum (1): 0")),
            ("5-1 * * * *", Err("beginning of range (5) beyond end of range (1): 5-1")),
            ("*/0 * * * *", Err("step of range should be a positive number: */0")),
            ("1-2-3 * * * *", Err("too many hyphens: 1-2-3")),
            ("1/2/3 * * * *", Err("too many slashes: 1/2/3")),
            ("a * * * *", Err("failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax")),
            ("-1 * * * *", Err("failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax")),
            ("@often", Err("unrecognized descriptor: @often")),
            ("@every x", Err("failed to parse duration @every x: time: invalid duration \"x\"")),
            ("TZ=Mars 0 * * * *", Err("provided bad location Mars: unknown time zone Mars")),
            ("TZ=UTC", Err("expected exactly 5 fields, found 0: []")),
        ] {
            assert_eq!(check_schedule(text), want.map_err(str::to_owned), "{text}");
        }
    }
}
