//! The query of a log request: upstream's PodLogOptions as a query string. Pure.

use jiff::{SignedDuration, Timestamp};

use crate::runtime::process::log::Stream;

/// The options of a log request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Follow the log until the container has exited.
    pub follow: bool,
    /// Read the previous run.
    pub previous: bool,
    /// Only lines at or after this time.
    pub since: Option<Timestamp>,
    /// Prefix every line with its timestamp.
    pub timestamps: bool,
    /// The number of lines from the end.
    pub tail: Option<usize>,
    /// The maximum number of bytes.
    pub limit: Option<u64>,
    /// Lines of one stream only.
    pub(crate) stream: Option<Stream>,
}

impl LogQuery {
    /// Parses a query string.
    ///
    /// # Errors
    /// An option is invalid.
    pub fn parse(query: &str, now: Timestamp) -> Result<Self, String> {
        let mut all = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let wrong = || format!("{name} {value:?} is not understood");
            let flag = || matches!(&*value, "true" | "1" | "");
            let number = || value.parse::<u32>().map_err(|_| wrong());
            match &*name {
                "follow" => all.follow = flag(),
                "previous" => all.previous = flag(),
                "timestamps" => all.timestamps = flag(),
                "tailLines" => all.tail = Some(usize::try_from(number()?).unwrap_or(usize::MAX)),
                "limitBytes" => all.limit = Some(value.parse().map_err(|_| wrong())?),
                "sinceTime" => all.since = Some(value.parse().map_err(|_| wrong())?),
                "sinceSeconds" => {
                    let ago = SignedDuration::from_secs(i64::from(number()?));
                    all.since = Some(now.checked_sub(ago).unwrap_or(Timestamp::MIN));
                }
                "stream" => {
                    all.stream = match &*value {
                        "" | "All" => None,
                        "Stdout" => Some(Stream::Stdout),
                        "Stderr" => Some(Stream::Stderr),
                        _ => return Err(wrong()),
                    };
                }
                // Like upstream, ignores unknown options.
                _ => {}
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn log_queries_are_parsed_or_rejected() {
        let now = Timestamp::from_second(1000).unwrap();
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let none = LogQuery::default;
        for (query, want) in [
            ("", none()),
            (
                "follow=true&previous=false&timestamps=1&x=y",
                LogQuery { follow: true, timestamps: true, ..none() },
            ),
            ("tailLines=0&limitBytes=7", LogQuery { tail: Some(0), limit: Some(7), ..none() }),
            ("sinceSeconds=60", LogQuery { since: at(940), ..none() }),
            ("sinceTime=1970-01-01T00%3A01%3A00Z", LogQuery { since: at(60), ..none() }),
            ("stream=Stderr", LogQuery { stream: Some(Stream::Stderr), ..none() }),
            ("stream=All", none()),
        ] {
            assert_eq!(LogQuery::parse(query, now), Ok(want), "{query}");
        }
        for query in ["tailLines=-1", "limitBytes=x", "sinceTime=yesterday", "sinceSeconds=", "stream=x"] {
            assert!(LogQuery::parse(query, now).is_err(), "{query}");
        }
    }
}
