//! Older files of the log: their names, and which of them to remove or compress.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::dir::LogDir;
use crate::audit::config::Rotation;

/// The time in the name of an older file.
const TIME_FORMAT: &str = "%Y-%m-%dT%H-%M-%S%.3f";
/// The end of the name of a compressed file.
pub(super) const COMPRESSED: &str = ".gz";

/// The name of the file, split for the names of older files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackupName {
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
    pub(super) fn new(name: &str) -> Self {
        let (stem, extension) = match name.rfind('.') {
            Some(at) if at > 0 => name.split_at(at),
            Some(_) | None => (name, ""),
        };
        BackupName { stem: stem.to_owned(), extension: extension.to_owned() }
    }

    pub(super) fn current(&self) -> String {
        format!("{}{}", self.stem, self.extension)
    }

    pub(super) fn at(&self, time: Timestamp) -> String {
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
pub(super) fn maintain(
    dir: &dyn LogDir,
    name: &BackupName,
    rotation: Rotation,
    now: Timestamp,
) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn rotation(max_bytes: u64, max_backups: usize, days: u64, compress: bool) -> Rotation {
        Rotation { max_bytes, max_backups, max_age: Duration::from_secs(days * 86_400), compress }
    }

    #[test]
    fn number_and_age_select_the_files_to_remove() {
        let name = BackupName::new("audit.log");
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        let files = [
            "audit-2026-01-09T00-00-00.000.log",
            "audit-2026-01-08T00-00-00.000.log.gz",
            "audit-2026-01-02T00-00-00.000.log",
            "audit-2025-12-31T23-59-59.000.log",
            "audit.log",
            "audit-notes.log",
            "other-2025-12-31T23-59-59.000.log",
            "audit-2025-12-31T23-59-59.000.txt",
        ];
        let backups = || {
            files
                .iter()
                .filter_map(|file| Some(Backup { name: (*file).to_owned(), time: name.parse(file)? }))
                .collect::<Vec<_>>()
        };
        assert_eq!(backups().len(), 4);
        for (case, max_backups, days, want) in [
            ("1 no limit", 0, 0, &[][..]),
            ("2 by number", 3, 0, &files[3..4]),
            ("3 by age", 0, 7, &files[2..4]),
            ("4 by both", 1, 9, &files[1..4]),
        ] {
            assert_eq!(expired(backups(), rotation(1, max_backups, days, false), now), want, "{case}");
        }
    }

    #[test]
    fn names_of_files_without_extension_are_split() {
        for (name, stem, extension) in [
            ("audit.log", "audit", ".log"),
            ("audit", "audit", ""),
            (".audit", ".audit", ""),
            ("a.b.c", "a.b", ".c"),
        ] {
            let found = BackupName::new(name);
            assert_eq!((found.stem.as_str(), found.extension.as_str()), (stem, extension));
            assert_eq!(found.current(), name);
            let time: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
            assert_eq!(found.parse(&found.at(time)), Some(time));
        }
    }
}
