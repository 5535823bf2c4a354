//! How much room the disk has, and what may still be written for it. The decisions are pure.
//!
//! As it fills up, the store stops taking writes in this order: what is to be shed first (Events),
//! what adds to what is stored, what changes without growing. Deletes are never refused for the lines drawn here, so
//! there is a way out, and what a person has declared outlives what can be told again.
//!
//! ```text
//! free  ......... shed_first ......... everything that grows ......... the rest but deletes ... 0
//!             twice the least                 the least                a quarter of the least
//! ```
//!
//! A delete is refused only when the file system has no room for it in the journal, or when the served
//! copy has had none for so long that the backlog is full.
//!
//! Another program may fill the disk to the last byte. For that case a **ballast** is kept: a file
//! that holds nothing and is removed when recovery or deletes need its room.

use std::io;
use std::path::Path;

/// What a file system says of its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub free: u64,
    /// Bytes that there are in all.
    pub total: u64,
}

/// Who is asked for room.
pub trait Room: Send + Sync + 'static {
    /// The room of the file system that a directory is on.
    fn space(&self, dir: &Path) -> io::Result<Space>;
}

/// The file system itself: what it keeps back for the superuser does not count as free.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl Room for FileSystem {
    fn space(&self, dir: &Path) -> io::Result<Space> {
        let told = rustix::fs::statvfs(dir)?;
        Ok(Space {
            free: told.f_bavail.saturating_mul(told.f_frsize),
            total: told.f_blocks.saturating_mul(told.f_frsize),
        })
    }
}

/// Free bytes below which nothing is taken that grows, when the options do not say.
const LEAST: u64 = 64 << 20;
/// Bytes of the ballast, when the disk is not a small one.
const BALLAST: u64 = 16 << 20;
/// An update may grow by so much and still count as one that does not: a deletion puts its time and
/// its grace period into an object, and must be possible.
pub(crate) const SLACK: u64 = 256;

/// What a commit does to the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It only deletes.
    Deletes,
    /// It leaves as much as there was.
    Keeps,
    /// It adds.
    Grows,
    /// It writes only what is to be shed first.
    Shed,
}

/// The free bytes at which each effect ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// For what grows.
    pub(crate) least: u64,
    pub(crate) ballast: u64,
}

impl Limits {
    /// The free bytes at which what has ended at a line is taken again, when so many are owed.
    pub(crate) fn resumes(&self, line: u64, missing: u64) -> u64 {
        line.saturating_add(self.least / 8).saturating_add(missing)
    }
}

/// The limits for a store of so many bytes on a file system of so many.
///
/// On a small file system both would be most of it; there the least is an eighth of it and the
/// ballast a sixteenth.
pub(crate) fn limits(least: Option<u64>, ballast: Option<u64>, store: u64, total: u64) -> Limits {
    let default = LEAST.max(store / 10).min((total / 8).max(1 << 20));
    Limits { least: least.unwrap_or(default), ballast: ballast.unwrap_or(BALLAST.min(total / 16)) }
}

/// How far the room has gone down. Each level is left only with some room to spare, so that the
/// store does not go to and fro at the border.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    /// What is to be shed first is not taken.
    pub(crate) sheds: bool,
    /// Nothing is taken that grows.
    pub(crate) full: bool,
}

/// The level for so many free bytes; `missing` bytes are owed to the ballast.
pub(crate) fn level(before: Level, limits: Limits, free: u64, missing: u64) -> Level {
    let free = free.saturating_sub(missing);
    let below = |was: bool, line: u64| free < if was { limits.resumes(line, 0) } else { line };
    Level {
        sheds: below(before.sheds, limits.least.saturating_mul(2)),
        full: below(before.full, limits.least),
    }
}

/// Whether a commit is taken. The error is how many bytes would have to be free.
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

/// Whether the file system refused for want of room.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
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
            ("as told", Some(7), 2000 * MB, 80 * MB, (7, 5 * MB)),
        ] {
            let limits = limits(least, None, store, total);
            assert_eq!((limits.least, limits.ballast), wanted, "{name}");
        }
    }

    #[test]
    fn who_is_taken_when() {
        use Effect::{Deletes, Grows, Keeps, Shed};
        let limits = Limits { least: 800, ballast: 400 };
        let all = [Deletes, Keeps, Grows, Shed];
        // In this order: each level follows from the one before.
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
            ("the ballast has gone", 400, 400, &[Deletes, Keeps]),
            ("its room is owed", 1299, 400, &[Deletes, Keeps]),
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
    fn a_huge_least_takes_only_deletes() {
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
    fn the_file_system_answers() {
        let told = FileSystem.space(&std::env::temp_dir()).expect("it has a size");
        assert!(told.total >= told.free && told.total > 0);
    }
}
