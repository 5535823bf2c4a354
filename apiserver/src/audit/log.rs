//! Writes events to the log, one per line.
//!
//! Upstream: apiserver `plugin/pkg/audit/log`.

use std::io::{self, Write as _};
use std::sync::Arc;

use orlop_auth::audit::legacy;

use super::config::{LogConfig, LogFormat, LogTarget};
use super::log_file::{RealDir, RotatingFile};
use super::queue::Queue;
use super::queued::QueuedEvent;
use super::sink::{Backend, WriteFailure};
use crate::clock::Clock;

/// The size from which lines are written, bytes.
const WRITE_BYTES: usize = 64 << 10;

/// The log.
pub(super) struct Log {
    output: Output,
    format: LogFormat,
}

enum Output {
    Stdout,
    File(Box<RotatingFile>),
}

impl Log {
    /// Opens the log.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn open(config: &LogConfig, clock: Clock) -> io::Result<Self> {
        let output = match &config.target {
            LogTarget::Stdout => Output::Stdout,
            LogTarget::File(path) => {
                let (dir, name) = RealDir::of(path)?;
                let file = RotatingFile::open(Arc::new(dir), &name, config.rotation, clock, in_background)?;
                Output::File(Box::new(file))
            }
        };
        Ok(Log { output, format: config.format })
    }

    #[cfg(test)]
    pub(super) fn on(file: RotatingFile) -> Self {
        Log { output: Output::File(Box::new(file)), format: LogFormat::Json }
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        match &mut self.output {
            Output::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(lines)?;
                out.flush()
            }
            Output::File(file) => file.append(lines),
        }
    }

    fn write_line(&self, event: &QueuedEvent, lines: &mut Vec<u8>) {
        match self.format {
            LogFormat::Json => event.write_json(lines),
            LogFormat::Legacy => lines.extend_from_slice(legacy::line(&event.event).as_bytes()),
        }
        lines.push(b'\n');
    }
}

/// Compressing a file takes seconds, and must not delay events.
fn in_background(work: Box<dyn FnOnce() + Send>) {
    let thread = std::thread::Builder::new().name("audit-files".to_owned()).spawn(work);
    if let Err(error) = thread {
        tracing::warn!(%error, "old files of the audit log cannot be removed: the system has no threads left");
    }
}

impl Backend for Log {
    fn write(&mut self, events: &[&QueuedEvent], _queue: &Queue) -> Result<(), WriteFailure> {
        let mut failure: Option<WriteFailure> = None;
        let (mut lines, mut count) = (Vec::new(), 0);
        for (nth, event) in events.iter().enumerate() {
            self.write_line(event, &mut lines);
            count += 1;
            if lines.len() < WRITE_BYTES && nth + 1 < events.len() {
                continue;
            }
            if let Err(error) = self.append(&lines) {
                let failed =
                    failure.get_or_insert_with(|| WriteFailure { count: 0, error: error.to_string() });
                failed.count += count;
            }
            lines.clear();
            count = 0;
        }
        failure.map_or(Ok(()), Err)
    }
}
