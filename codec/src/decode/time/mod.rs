//! Parses RFC 3339 times and rejects invalid ones as Go's `time.Parse` does.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde_json::Value;

/// The layout of `metav1.Time`.
const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
/// The layout of `metav1.MicroTime`.
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Converts a `metav1.Time` with any fraction and offset to UTC with whole seconds. The zero time becomes
/// `null`. The error is the complete message.
pub(super) fn seconds(text: String) -> Result<Value, String> {
    let parsed = Parsed::read(&text, SECONDS)?;
    if parsed.is_zero() {
        return Ok(Value::Null);
    }
    if text.len() == "2006-01-02T15:04:05Z".len() && text.ends_with('Z') && !text.contains(['.', ',']) {
        return Ok(Value::String(text));
    }
    let utc = parsed.utc(&text)?;
    Ok(Value::String(utc.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

/// Converts a `metav1.MicroTime` with exactly six decimals to UTC with six decimals.
pub(super) fn micros(text: String) -> Result<Value, String> {
    let parsed = Parsed::read(&text, MICROS)?;
    if parsed.is_zero() {
        return Ok(Value::Null);
    }
    if text.len() == "2006-01-02T15:04:05.000000Z".len() && text.ends_with('Z') {
        return Ok(Value::String(text));
    }
    let utc = parsed.utc(&text)?;
    Ok(Value::String(utc.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()))
}

/// Formats seconds since 1970 as [`seconds`] does.
pub(super) fn from_unix_seconds(seconds: i64) -> Option<String> {
    let moment = jiff::Timestamp::from_second(seconds).ok()?;
    Some(Offset::UTC.to_datetime(moment).strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Formats microseconds since 1970 as [`micros`] does.
pub(super) fn from_unix_micros(micros: i64) -> Option<String> {
    let moment = jiff::Timestamp::from_microsecond(micros).ok()?;
    Some(Offset::UTC.to_datetime(moment).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

/// The parsed components of a time.
#[derive(Clone, Copy)]
struct Parsed {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    micros: u32,
    /// Seconds east of UTC.
    offset: i32,
}

impl Parsed {
    fn is_zero(&self) -> bool {
        let date = (self.year, self.month, self.day) == (1, 1, 1);
        date && self.hour + self.minute + self.second + self.micros == 0 && self.offset == 0
    }

    fn utc(&self, text: &str) -> Result<DateTime, String> {
        let small = |part: u32| i8::try_from(part).unwrap_or_default();
        let year = i16::try_from(self.year).unwrap_or_default();
        let nanos = i32::try_from(self.micros * 1000).unwrap_or_default();
        let (hour, minute, second) = (small(self.hour), small(self.minute), small(self.second));
        DateTime::new(year, small(self.month), small(self.day), hour, minute, second, nanos)
            .and_then(|local| local.checked_sub(jiff::SignedDuration::from_secs(self.offset.into())))
            .map_err(|_| refuse(text, "year out of range"))
    }

    fn read(text: &str, layout: &'static str) -> Result<Parsed, String> {
        let mut cursor = Cursor { text, layout, rest: text };
        let year = cursor.number("2006", 4)?;
        cursor.mark("-")?;
        let month = cursor.number("01", 2)?;
        cursor.range("month", (1..=12).contains(&month))?;
        cursor.mark("-")?;
        let day = cursor.number("02", 2)?;
        cursor.mark("T")?;
        let hour = cursor.hour()?;
        cursor.range("hour", hour < 24)?;
        cursor.mark(":")?;
        let minute = cursor.number("04", 2)?;
        cursor.range("minute", minute < 60)?;
        cursor.mark(":")?;
        let second = cursor.number("05", 2)?;
        cursor.range("second", second < 60)?;
        let micros = if layout == MICROS { cursor.six_decimals()? } else { cursor.any_decimals() };
        let offset = cursor.offset()?;
        if !cursor.rest.is_empty() {
            return Err(refuse(text, &format!("extra text: {:?}", cursor.rest)));
        }
        cursor.range("day", (1..=days(year, month)).contains(&day))?;
        Ok(Parsed { year, month, day, hour, minute, second, micros, offset })
    }
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `parsing time "x": month out of range`
fn refuse(text: &str, why: &str) -> String {
    format!("parsing time {text:?}: {why}")
}

#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a str,
    layout: &'static str,
    rest: &'a str,
}

impl Cursor<'_> {
    /// `parsing time "x" as "2006-...": cannot parse "x" as "2006"`
    fn fail(&self, element: &str) -> String {
        let Cursor { text, layout, rest } = self;
        format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}")
    }

    fn range(&self, part: &str, within: bool) -> Result<(), String> {
        if within { Ok(()) } else { Err(refuse(self.text, &format!("{part} out of range"))) }
    }

    fn mark(&mut self, mark: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(mark).ok_or_else(|| self.fail(mark))?;
        Ok(())
    }

    fn number(&mut self, element: &str, width: usize) -> Result<u32, String> {
        let digits = self.rest.get(..width).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        let number = digits.and_then(|part| part.parse().ok()).ok_or_else(|| self.fail(element))?;
        self.rest = &self.rest[width..];
        Ok(number)
    }

    /// Go also accepts a one-digit hour.
    fn hour(&mut self) -> Result<u32, String> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        self.number("15", digits.max(1))
    }

    fn six_decimals(&mut self) -> Result<u32, String> {
        let whole = *self;
        let micros = self.mark(".").and_then(|()| self.number("000000", 6));
        micros.map_err(|_| whole.fail(".000000"))
    }

    fn any_decimals(&mut self) -> u32 {
        if let Some(tail) = self.rest.strip_prefix(['.', ','])
            && tail.starts_with(|c: char| c.is_ascii_digit())
        {
            self.rest = tail.trim_start_matches(|c: char| c.is_ascii_digit());
        }
        0
    }

    fn offset(&mut self) -> Result<i32, String> {
        let whole = *self;
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let sign = match self.rest.bytes().next() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) | None => return Err(self.fail("Z07:00")),
        };
        self.rest = &self.rest[1..];
        let mut parts = || -> Result<(u32, u32), String> {
            let hours = self.number("", 2)?;
            self.mark(":")?;
            let minutes = self.number("", 2)?;
            Ok((hours, minutes))
        };
        let (hours, minutes) = parts().map_err(|_| whole.fail("Z07:00"))?;
        // Go accepts offsets of 24 hours and of 60 minutes, because they occur in practice.
        whole.range("time zone offset hour", hours <= 24)?;
        whole.range("time zone offset minute", minutes <= 60)?;
        let seconds = hours * 3600 + minutes * 60;
        Ok(sign * i32::try_from(seconds).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
