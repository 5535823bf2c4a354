//! Reads schedules. The errors are those of upstream's parser, because the API server returns them.

use std::num::IntErrorKind;
use std::time::Duration;

use super::{Field, Fields, Schedule, Times, time_zone};
use crate::duration;

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

/// The descriptors, and the fields that they stand for.
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
const EVERY: &str = "@every ";

impl Schedule {
    /// Parses a schedule. It may begin with a time zone: `TZ=Europe/Berlin 0 9 * * *`.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let zoned = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
        let (zone, rest) = match zoned {
            None => (None, text),
            Some(zoned) => {
                let (name, rest) = zoned.split_once(' ').unwrap_or((zoned, ""));
                let zone = time_zone(name)
                    .ok_or_else(|| format!("provided bad location {name}: unknown time zone {name}"))?;
                (Some(zone), rest.trim())
            }
        };
        let times = if rest.starts_with('@') { descriptor(rest)? } else { Times::Fields(fields(rest)?) };
        Ok(Self { zone, times })
    }
}

fn fields(text: &str) -> Result<Fields, String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else {
        let (wanted, found) = (FIELDS.len(), fields.len());
        return Err(format!("expected exactly {wanted} fields, found {found}: [{}]", fields.join(" ")));
    };
    let [minutes, hours, days, months, weekdays] = &FIELDS;
    Ok(Fields {
        minute: field(minute, minutes)?,
        hour: field(hour, hours)?,
        day: field(day, days)?,
        month: field(month, months)?,
        weekday: field(weekday, weekdays)?,
    })
}

fn descriptor(text: &str) -> Result<Times, String> {
    if let Some((_, equivalent)) = DESCRIPTORS.iter().find(|(name, _)| *name == text) {
        return fields(equivalent).map(Times::Fields);
    }
    let Some(interval) = text.strip_prefix(EVERY) else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    let interval =
        duration::parse(interval).map_err(|why| format!("failed to parse duration {text}: {why}"))?;
    // Whole seconds, and at least one.
    Ok(Times::Every(Duration::from_secs(interval.as_secs().max(1))))
}

fn field(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let mut field = Field { values: 0, is_any: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let part = range(part, bounds)?;
        field.values |= part.values;
        field.is_any |= part.is_any;
    }
    Ok(field)
}

/// A value, a range or `*`, with or without a step: `5`, `1-5/2`, `*/10`.
fn range(text: &str, bounds: &Bounds) -> Result<Field, String> {
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
    // The values are at most 59.
    let values = (start..=end).filter(|value| (value - start).is_multiple_of(step));
    let values = values.fold(0, |all, value| all | 1_u64 << value);
    Ok(Field { values, is_any: step == 1 && matches!(ends[0], "*" | "?") })
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
            assert_eq!(Schedule::parse(text).map(drop), want.map_err(str::to_owned), "{text}");
        }
    }
}
