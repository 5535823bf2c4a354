//! Writes log lines to stderr, as text or as JSON with one object per line.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, ProcessArgs};

/// An invalid log filter.
#[derive(Debug, thiserror::Error)]
#[error("--log-level `{text}` is not a filter ({problem}); use error, warn, info, debug or trace")]
pub struct LogLevelError {
    text: String,
    problem: String,
}

/// The log filter. `--log-level` takes precedence over `-v` because it is more specific.
fn directives(args: &ProcessArgs) -> String {
    if let Some(level) = &args.log_level {
        return level.clone();
    }
    let level = match args.v.unwrap_or(0) {
        0..=3 => "info",
        4..=5 => "debug",
        6.. => "trace",
    };
    // `-v` is for orlop's own events, not for the frames of each connection. The client logs each request that found
    // no server, but the caller already reports that once.
    format!("warn,kube_client::client::builder=off,orlop={level}")
}

/// Writes each event as one line. The formatter writes an event in one piece, and does not escape line breaks: the name or path of an
/// object with a line break would add lines that the process never logged.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(&one_line(event))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An event without line breaks, except at its end.
fn one_line(event: &[u8]) -> Cow<'_, [u8]> {
    let (text, end) = event.split_at(event.len() - usize::from(event.ends_with(b"\n")));
    if !text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Cow::Borrowed(event);
    }
    let mut line = Vec::with_capacity(event.len() + 16);
    for byte in text {
        match byte {
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            byte => line.push(*byte),
        }
    }
    line.extend_from_slice(end);
    Cow::Owned(line)
}

/// Starts logging. Must be called only once.
pub fn start(args: &ProcessArgs) -> Result<(), LogLevelError> {
    let text = directives(args);
    let filter = EnvFilter::try_new(&text)
        .map_err(|error| LogLevelError { text: text.clone(), problem: error.to_string() })?;
    // A line that cannot be written is lost. Its failure would be reported by `eprintln!`, which panics if stderr cannot be written:
    // the disk of the log is full, or the reader of a pipe has ended.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| OneLine(io::stderr()))
        .log_internal_errors(false);
    match args.log_format {
        LogFormat::Json => builder.json().flatten_event(true).init(),
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).init(),
    }
    Ok(())
}

/// Starts logging for a short-lived command: warnings and errors only.
pub(crate) fn start_for_tool() -> Result<(), LogLevelError> {
    let level = Some("warn".to_owned());
    start(&ProcessArgs { config: None, log_format: LogFormat::Text, log_level: level, v: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(log_level: Option<&str>, v: Option<u8>) -> ProcessArgs {
        ProcessArgs { config: None, log_format: LogFormat::Text, log_level: log_level.map(str::to_owned), v }
    }

    #[test]
    fn verbosity_selects_the_level() {
        let cases = [
            (None, None, "warn,kube_client::client::builder=off,orlop=info"),
            (None, Some(3), "warn,kube_client::client::builder=off,orlop=info"),
            (None, Some(4), "warn,kube_client::client::builder=off,orlop=debug"),
            (None, Some(9), "warn,kube_client::client::builder=off,orlop=trace"),
            (Some("error"), Some(9), "error"),
        ];
        for (level, v, want) in cases {
            let got = directives(&args(level, v));
            assert_eq!(got, want, "{level:?} {v:?}");
            assert!(EnvFilter::try_new(&got).is_ok(), "{got}");
        }
    }

    #[test]
    fn events_are_one_line_each() {
        for (event, want) in [
            ("INFO text\n", "INFO text\n"),
            ("INFO a\nINFO forged\r\n", "INFO a\\nINFO forged\\r\n"),
            ("no end\nof line", "no end\\nof line"),
            ("\n", "\n"),
            ("", ""),
        ] {
            let mut written = Vec::new();
            OneLine(&mut written).write_all(event.as_bytes()).expect("memory");
            assert_eq!(String::from_utf8_lossy(&written), want, "{event:?}");
        }
    }

    #[test]
    fn invalid_filter_is_an_error() {
        let error = start(&args(Some("loud=very=much"), None)).expect_err("no filter");
        assert!(error.to_string().contains("loud=very=much"), "{error}");
    }
}
