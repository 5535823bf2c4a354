//! A log file that is replaced when it has reached its maximum size. Older files lie beside it, with the time of their end in their
//! name, and are removed by number and age.
//!
//! Upstream uses the library lumberjack; the names are the same.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::config::Rotation;
use super::log_dir::{LogDir, LogFile};
use crate::clock::Clock;

/// The time in the name of an older file.
const TIME_FORMAT: &str = "%Y-%m-%dT%H-%M-%S%.3f";
const COMPRESSED: &str = ".gz";
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

/// The name of the file, split for the names of older files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BackupName {
    stem: String,
    /// With its dot.
    extension: String,
}

/// An older file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Backup {
    name: String,
    time: Timestamp,
}

impl BackupName {
    fn new(name: &str) -> Self {
        let (stem, extension) = match name.rfind('.') {
            Some(at) if at > 0 => name.split_at(at),
            Some(_) | None => (name, ""),
        };
        BackupName { stem: stem.to_owned(), extension: extension.to_owned() }
    }

    fn current(&self) -> String {
        format!("{}{}", self.stem, self.extension)
    }

    fn at(&self, time: Timestamp) -> String {
        let shown = time.to_zoned(TimeZone::UTC).strftime(TIME_FORMAT).to_string();
        format!("{}-{shown}{}", self.stem, self.extension)
    }

    /// The time in the name of an older file; `None` for any other file.
    fn parse(&self, name: &str) -> Option<Timestamp> {
        let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
        let time = name.strip_prefix(&self.stem)?.strip_prefix('-')?.strip_suffix(&self.extension)?;
        let time = DateTime::strptime("%Y-%m-%dT%H-%M-%S%.f", time).ok()?;
        time.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp())
    }
}

/// The older files to remove: those beyond the maximum number, and those that are too old.
fn expired(mut backups: Vec<Backup>, rotation: Rotation, now: Timestamp) -> Vec<String> {
    backups.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| b.name.cmp(&a.name)));
    let kept = if rotation.max_backups == 0 { usize::MAX } else { rotation.max_backups };
    let is_old = |backup: &Backup| {
        let age = Duration::try_from(now.duration_since(backup.time)).unwrap_or_default();
        !rotation.max_age.is_zero() && age > rotation.max_age
    };
    let numbered = backups.into_iter().enumerate();
    numbered.filter(|(nth, backup)| *nth >= kept || is_old(backup)).map(|(_, backup)| backup.name).collect()
}

/// Removes and compresses older files.
fn maintain(dir: &dyn LogDir, name: &BackupName, rotation: Rotation, now: Timestamp) -> io::Result<()> {
    let found = dir.names()?;
    let backups = found.iter().filter_map(|file| {
        let time = name.parse(file)?;
        Some(Backup { name: file.clone(), time })
    });
    let backups: Vec<Backup> = backups.collect();
    let old = expired(backups.clone(), rotation, now);
    let mut result = Ok(());
    for file in &old {
        result = result.and(dir.remove(file));
    }
    let plain = backups.iter().filter(|backup| !backup.name.ends_with(COMPRESSED));
    for backup in plain.filter(|backup| rotation.compress && !old.contains(&backup.name)) {
        let compressed = dir.compress(&backup.name, &format!("{}{COMPRESSED}", backup.name));
        result = result.and(compressed);
    }
    result
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
        let (file, length) = dir.open(&name.current())?;
        let maintained = clock();
        let file = RotatingFile {
            dir,
            name,
            rotation,
            clock,
            spawn,
            file: Some(file),
            length,
            // The last line may be incomplete after a power cut; an empty line does no harm.
            is_torn: length > 0,
            maintained,
        };
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
                let (file, length) = self.dir.open(&self.name.current())?;
                self.length = length;
                self.is_torn |= length > 0;
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
                if file.truncate(self.length).is_ok() {
                    self.file = Some(file);
                } else {
                    self.is_torn = true;
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
