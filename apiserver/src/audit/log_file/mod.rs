//! A log file that is replaced when it has reached its maximum size. Older files lie beside it, with the time of their end in their
//! name, and are removed by number and age.
//!
//! Upstream uses the library lumberjack; the names are the same.

mod backups;
mod dir;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::config::Rotation;
use crate::clock::Clock;
use backups::{BackupName, COMPRESSED, maintain};
pub(super) use dir::RealDir;
use dir::{LogDir, LogFile, OpenedFile};

/// How often old files are removed, if no file is replaced.
const MAINTAIN_EVERY: Duration = Duration::from_secs(3600);

/// Runs the removal and compression of old files.
pub(super) type Spawn = fn(Box<dyn FnOnce() + Send>);

/// The current file, and the rules for older ones.
pub(super) struct RotatingFile {
    dir: Arc<dyn LogDir>,
    name: BackupName,
    rotation: Rotation,
    clock: Clock,
    spawn: Spawn,
    /// `None` if it has to be opened.
    file: Option<Box<dyn LogFile>>,
    length: u64,
    /// The file ends with a part of a line.
    is_torn: bool,
    maintained: Timestamp,
}

impl RotatingFile {
    /// Opens the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn open(
        dir: Arc<dyn LogDir>,
        name: &str,
        rotation: Rotation,
        clock: Clock,
        spawn: Spawn,
    ) -> io::Result<Self> {
        let name = BackupName::new(name);
        let OpenedFile { file, length, is_torn } = dir.open(&name.current())?;
        let maintained = clock();
        let file =
            RotatingFile { dir, name, rotation, clock, spawn, file: Some(file), length, is_torn, maintained };
        file.maintain();
        Ok(file)
    }

    /// Appends complete lines.
    ///
    /// # Errors
    /// They were not written. A part that was written is removed, or separated from later lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let now = (self.clock)();
        let is_full = self.length.saturating_add(lines.len() as u64) > self.rotation.max_bytes;
        if is_full && self.length > 0 && self.rotation.max_bytes > 0 {
            self.rotate(now);
        } else if now.duration_since(self.maintained)
            >= jiff::SignedDuration::try_from(MAINTAIN_EVERY).unwrap_or_default()
        {
            self.maintained = now;
            self.maintain();
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let OpenedFile { file, length, is_torn } = self.dir.open(&self.name.current())?;
                (self.length, self.is_torn) = (length, is_torn);
                file
            }
        };
        if self.is_torn {
            file.append(b"\n")?;
            self.length += 1;
            self.is_torn = false;
        }
        match file.append(lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                self.file = Some(file);
                Ok(())
            }
            Err(error) => {
                // A part that cannot be removed is noticed when the file is opened again.
                if file.truncate(self.length).is_ok() {
                    self.file = Some(file);
                }
                Err(error)
            }
        }
    }

    /// Moves the current file away. If that fails, the file grows beyond its limit: events are more important.
    fn rotate(&mut self, now: Timestamp) {
        // A second file in the same millisecond gets the next one.
        let mut time = now;
        let backup = loop {
            let backup = self.name.at(time);
            let compressed = format!("{backup}{COMPRESSED}");
            if !self.dir.exists(&backup) && !self.dir.exists(&compressed) {
                break backup;
            }
            time += Duration::from_millis(1);
        };
        if let Err(error) = self.dir.rename(&self.name.current(), &backup) {
            tracing::warn!(%error, "the audit log cannot be replaced by a new file, so it grows");
            return;
        }
        (self.file, self.length, self.is_torn, self.maintained) = (None, 0, false, now);
        self.maintain();
    }

    /// Removes and compresses older files.
    fn maintain(&self) {
        let (dir, name, rotation) = (self.dir.clone(), self.name.clone(), self.rotation);
        let now = (self.clock)();
        (self.spawn)(Box::new(move || {
            if let Err(error) = maintain(&*dir, &name, rotation, now) {
                tracing::warn!(%error, "old files of the audit log cannot be removed or compressed");
            }
        }));
    }
}

#[cfg(test)]
mod tests;
