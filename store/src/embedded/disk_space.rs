//! Free disk space, and which writes it permits. The decisions are pure.
//!
//! As the disk fills up, the store refuses writes in this order: those below the `shed_first` prefixes
//! (Events), writes that add to the store, updates that do not grow. Deletes are never refused at these
//! thresholds, so space can always be freed, and declared objects outlast reproducible ones.
//!
//! ```text
//! free  ......... shed_first ......... everything that grows ......... the rest but deletes ... 0
//!             twice the least                 the least                a quarter of the least
//! ```
//!
//! A delete is refused only when the file system has no space for it in the journal, or when the served
//! copy has had none for so long that the backlog is full.
//!
//! Another program may fill the disk completely. For that case the store has a **ballast**: a file without
//! data. Deletes may use half of its space, and recovery the rest.

use std::io;
use std::path::Path;

/// The space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can be written.
    pub free: u64,
    /// The size in bytes.
    pub total: u64,
}

/// Reports disk space.
pub trait DiskSpace: Send + Sync + 'static {
    /// The space of the file system that contains a directory.
    fn space(&self, dir: &Path) -> io::Result<Space>;
}

/// The real file system. Space reserved for the superuser does not count as free.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl DiskSpace for FileSystem {
    fn space(&self, dir: &Path) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(Space {
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }
}

/// The default for the free bytes below which writes that grow the store are refused.
const LEAST: u64 = 64 << 20;
/// The size of the ballast on a disk that is not small.
const BALLAST: u64 = 16 << 20;
/// An update may grow by this many bytes and still count as not growing: a deletion adds its time and its
/// grace period to an object, and must be possible.
pub(crate) const SLACK: u64 = 256;

/// The effect of a commit on the disk space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Only deletes.
    Deletes,
    /// Leaves the size unchanged.
    Keeps,
    /// Adds data.
    Grows,
    /// Writes only below the `shed_first` prefixes.
    Shed,
}

/// The thresholds of free bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Below this, writes that grow the store are refused.
    pub(crate) least: u64,
    pub(crate) ballast: u64,
}

impl Limits {
    /// The free bytes at which writes refused at a threshold are accepted again, when the ballast lacks
    /// `missing` bytes.
    pub(crate) fn resumes(&self, line: u64, missing: u64) -> u64 {
        line.saturating_add(self.least / 8).saturating_add(missing)
    }
}

/// The limits for a store of `store` bytes on a file system of `total` bytes.
///
/// On a small file system, the defaults would be most of the disk; there the minimum is an eighth of it and
/// the ballast a sixteenth.
pub(crate) fn limits(least: Option<u64>, ballast: Option<u64>, store: u64, total: u64) -> Limits {
    let default = LEAST.max(store / 10).min((total / 8).max(1 << 20));
    Limits { least: least.unwrap_or(default), ballast: ballast.unwrap_or(BALLAST.min(total / 16)) }
}

/// Which writes are refused. Each level has a hysteresis, so that the store does not flap at the
/// threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    /// Writes below the `shed_first` prefixes are refused.
    pub(crate) sheds: bool,
    /// Writes that grow the store are refused.
    pub(crate) full: bool,
}

/// The level at this many free bytes, when the ballast lacks `missing` bytes.
pub(crate) fn level(before: Level, limits: Limits, free: u64, missing: u64) -> Level {
    let free = free.saturating_sub(missing);
    let below = |was: bool, line: u64| free < if was { limits.resumes(line, 0) } else { line };
    Level {
        sheds: below(before.sheds, limits.least.saturating_mul(2)),
        full: below(before.full, limits.least),
    }
}

/// Whether a commit is accepted. The error is the number of bytes that would have to be free.
pub(crate) fn admits(
    level: Level,
    limits: Limits,
    free: u64,
    missing: u64,
    effect: Effect,
) -> Result<(), u64> {
    let resumes = |line| limits.resumes(line, missing);
    match effect {
        Effect::Deletes => Ok(()),
        Effect::Keeps if free >= limits.least / 4 => Ok(()),
        Effect::Keeps => Err(limits.least / 4),
        Effect::Grows if level.full => Err(resumes(limits.least)),
        Effect::Shed if level.sheds || level.full => Err(resumes(limits.least.saturating_mul(2))),
        Effect::Grows | Effect::Shed => Ok(()),
    }
}

/// Whether the error means that the file system is full.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn limits_follow_store_and_disk() {
        for (name, least, store, total, wanted) in [
            ("a small store on a large disk", None, 10 * MB, 100_000 * MB, (64 * MB, 16 * MB)),
            ("a large store", None, 2000 * MB, 100_000 * MB, (200 * MB, 16 * MB)),
            ("a small disk", None, 10 * MB, 80 * MB, (10 * MB, 5 * MB)),
            ("as reported", Some(7), 2000 * MB, 80 * MB, (7, 5 * MB)),
        ] {
            let limits = limits(least, None, store, total);
            assert_eq!((limits.least, limits.ballast), wanted, "{name}");
        }
    }

    #[test]
    fn free_space_decides_which_writes_are_accepted() {
        use Effect::{Deletes, Grows, Keeps, Shed};
        let limits = Limits { least: 800, ballast: 400 };
        let all = [Deletes, Keeps, Grows, Shed];
        // The order matters: each level follows from the previous one.
        let mut now = Level::default();
        for (name, free, missing, wanted) in [
            ("plenty", 5000, 0, &all[..]),
            ("at twice the least", 1600, 0, &all),
            ("below it", 1599, 0, &[Deletes, Keeps, Grows]),
            ("at it again: not yet", 1650, 0, &[Deletes, Keeps, Grows]),
            ("some to spare", 1700, 0, &all),
            ("at the least", 800, 0, &[Deletes, Keeps, Grows]),
            ("below the least", 799, 0, &[Deletes, Keeps]),
            ("not yet", 899, 0, &[Deletes, Keeps]),
            ("some to spare", 900, 0, &[Deletes, Keeps, Grows]),
            ("a quarter of the least", 200, 0, &[Deletes, Keeps]),
            ("less", 199, 0, &[Deletes]),
            ("nothing", 0, 0, &[Deletes]),
            ("the ballast has been removed", 400, 400, &[Deletes, Keeps]),
            ("the ballast needs space first", 1299, 400, &[Deletes, Keeps]),
            ("and there again", 1300, 400, &[Deletes, Keeps, Grows]),
            ("all is well", 2100, 400, &all),
        ] {
            now = level(now, limits, free, missing);
            let taken: Vec<_> = all
                .into_iter()
                .filter(|effect| admits(now, limits, free, missing, *effect).is_ok())
                .collect();
            assert_eq!(taken, wanted, "{name}");
        }
    }

    #[test]
    fn huge_minimum_accepts_only_deletes() {
        let limits = limits(Some(u64::MAX), None, 0, 100_000 * MB);
        let now = level(level(Level::default(), limits, 1000 * MB, 0), limits, 1000 * MB, 32 * MB);
        assert!(now.full && now.sheds);
        for (effect, wanted) in [
            (Effect::Deletes, Ok(())),
            (Effect::Keeps, Err(u64::MAX / 4)),
            (Effect::Grows, Err(u64::MAX)),
            (Effect::Shed, Err(u64::MAX)),
        ] {
            assert_eq!(admits(now, limits, 1000 * MB, 32 * MB, effect), wanted, "{effect:?}");
        }
    }

    #[test]
    fn file_system_reports_its_space() {
        let space = FileSystem.space(&std::env::temp_dir()).expect("it has a size");
        assert!(space.total >= space.free && space.total > 0);
    }
}
