//! Lines of a capture, and the point up to which a capture is replayed. Pure.

use std::str::FromStr;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::insight::lines::FORMAT;

/// A revision of the file, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The state at this revision.
    Revision(u64),
    /// The state at the end of this millisecond since the epoch.
    TimeMs(i64),
}

impl Until {
    /// Whether a write is later. Without a time, only the revision is compared.
    pub(super) fn is_before(self, revision: u64, time_ms: Option<i64>) -> bool {
        match self {
            Until::Revision(until) => until < revision,
            Until::TimeMs(until) => time_ms.is_some_and(|time_ms| until < time_ms),
        }
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Until::Revision).map_err(|_| "the number is too large".to_owned());
        }
        let time: Result<Timestamp, _> = text.parse();
        time.map(|time| Until::TimeMs(time.as_millisecond()))
            .map_err(|_| "must be a revision (a number) or a time such as 2026-01-31T12:00:00Z".to_owned())
    }
}

/// The type of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineType {
    /// The first line; `until` is the last revision, if the capture has one.
    Header {
        until: Option<u64>,
    },
    Added,
    Modified,
    Deleted,
    Synced,
    Progress,
    /// An error that ended the capture, with its message.
    Error(String),
}

/// A parsed line.
#[derive(Clone, Debug)]
pub(super) struct CaptureLine {
    pub(super) said: LineType,
    /// Zero for an error.
    pub(super) revision: u64,
    /// The time of a write, in milliseconds since the epoch.
    pub(super) time_ms: i64,
    /// The resource of a write.
    pub(super) resource: String,
    /// The object of a write.
    pub(super) object: Value,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type")]
    ty: String,
    format: Option<String>,
    revision: Option<String>,
    until: Option<String>,
    time: Option<String>,
    resource: Option<String>,
    object: Option<Value>,
    message: Option<String>,
}

impl CaptureLine {
    /// Parses a line; `first` marks the first line, which must be a header.
    pub(super) fn parse(bytes: &[u8], first: bool) -> Result<Self, String> {
        let raw: Result<Raw, _> = serde_json::from_slice(bytes);
        let raw = match raw {
            Ok(raw) => raw,
            Err(_) if first => return Err("this is no capture: the first line is no HEADER".to_owned()),
            Err(error) => return Err(format!("it is damaged: {error}")),
        };
        let said = match raw.ty.as_str() {
            "HEADER" => match raw.format.as_deref() {
                Some(FORMAT) => LineType::Header { until: raw.until.as_deref().map(number).transpose()? },
                other => {
                    let other = other.unwrap_or_default();
                    return Err(format!("the format is {other:?}, but this program reads only {FORMAT:?}"));
                }
            },
            _ if first => return Err("this is no capture: the first line is no HEADER".to_owned()),
            "ADDED" => LineType::Added,
            "MODIFIED" => LineType::Modified,
            "DELETED" => LineType::Deleted,
            "SYNCED" => LineType::Synced,
            "PROGRESS" => LineType::Progress,
            "ERROR" => LineType::Error(raw.message.unwrap_or_default()),
            other => return Err(format!("{other:?} is no type of a line")),
        };
        let revision = match (&said, raw.revision.as_deref()) {
            (LineType::Error(_), _) => 0,
            (_, Some(text)) => number(text)?,
            (_, None) => return Err("it has no revision".to_owned()),
        };
        let mut line =
            CaptureLine { said, revision, time_ms: 0, resource: String::new(), object: Value::Null };
        if matches!(line.said, LineType::Added | LineType::Modified | LineType::Deleted) {
            let time = raw.time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
            line.time_ms = time.ok_or("it has no time")?.as_millisecond();
            line.resource = raw.resource.ok_or("it has no resource")?;
            line.object = raw.object.filter(Value::is_object).ok_or("it has no object")?;
        }
        Ok(line)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no revision"))
}
