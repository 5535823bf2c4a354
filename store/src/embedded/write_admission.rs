//! Admission control in front of the journal: checks the free disk space by time and by bytes, and manages
//! the ballast file.
//!
//! An idle store makes no checks: the committer checks before a group, readers of [`Usage`] on request, and
//! the thread behind the writers when it has work anyway.

use orlop_apimachinery::input_file;
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::disk_space::{self, DiskSpace, Effect, Level, Limits, Space};
use super::{Options, space};
use crate::Usage;
use crate::commit::Shortage;
use crate::data_size::{ValueSize, WriteSize};

/// How long, and for how many written bytes, a check of the free space stays valid.
const FRESH: Duration = Duration::from_millis(250);
const FRESH_BYTES: u64 = 1 << 20;
/// The minimum interval between measurements of the store's size.
const SIZE_FRESH: Duration = Duration::from_secs(10);
/// The ballast is released when less than one part in this many of its size is free.
const NEARLY_NOTHING: u64 = 4;
/// The interval between attempts to create the ballast.
const BALLAST_AGAIN: Duration = Duration::from_secs(60);

/// The part of the ballast that only the next opening of the store may release, one part in this many: another program can take what a
/// running store releases, and recovery needs space.
const FOR_OPENING: u64 = 2;

/// The ballast: a file without data, cut or deleted to free its space.
pub(super) const BALLAST: &str = "BALLAST";

/// The last known state of the disk, and which writes it permits.
pub(crate) struct WriteAdmission {
    dir: PathBuf,
    place: Arc<str>,
    disk_space: Arc<dyn DiskSpace>,
    least: Option<u64>,
    ballast: Option<u64>,
    shed_first: Vec<String>,
    state: Mutex<AdmissionState>,
}

struct AdmissionState {
    space: Space,
    store: u64,
    level: Level,
    /// The size of the existing ballast in bytes.
    held: u64,
    looked_at: Option<Instant>,
    sized_at: Option<Instant>,
    written: u64,
    /// The check has failed, and a warning has been logged.
    blind: bool,
    /// When creating the ballast last failed; a warning has been logged.
    no_ballast: Option<Instant>,
}

impl WriteAdmission {
    pub(crate) fn new(dir: &Path, options: &Options) -> Self {
        let held = space::allocated_file(&dir.join(BALLAST));
        WriteAdmission {
            dir: dir.to_owned(),
            place: dir.display().to_string().into(),
            disk_space: options.disk_space.clone(),
            least: options.min_free_bytes,
            ballast: options.ballast_bytes,
            shed_first: options.shed_first.clone(),
            state: Mutex::new(AdmissionState {
                space: Space { free: u64::MAX, total: u64::MAX },
                store: 0,
                level: Level::default(),
                held,
                looked_at: None,
                sized_at: None,
                written: 0,
                blind: false,
                no_ballast: None,
            }),
        }
    }

    /// Called before the store is opened: recovery may have to write, so the ballast is released when almost no
    /// space is left.
    pub(crate) fn before_opening(&self) {
        let mut state = self.lock();
        self.look(&mut state, true);
        if state.held > 0 && state.space.free < state.held {
            self.release(&mut state, 0, "the store is to be opened");
        }
    }

    /// The effect of a commit on the disk space. Each write is a key with the sizes of its current and its new
    /// value.
    pub(crate) fn effect(&self, writes: &[WriteSize<'_>]) -> Effect {
        let (mut deletes, mut shed, mut grows) = (true, true, false);
        let (mut before, mut after) = (0_u64, 0_u64);
        for &(key, old, new) in writes {
            before += old.map_or(0, ValueSize::on_disk) as u64;
            let Some(new) = new else { continue };
            deletes = false;
            after += new.on_disk() as u64;
            grows |= old.is_none();
            before += disk_space::SLACK;
            shed &= self.shed_first.iter().any(|prefix| key.as_str().starts_with(prefix.as_str()));
        }
        if deletes {
            Effect::Deletes
        } else if shed {
            Effect::Shed
        } else if grows || after > before {
            Effect::Grows
        } else {
            Effect::Keeps
        }
    }

    /// Whether a commit with this effect is accepted now.
    pub(crate) fn admits(&self, effect: Effect) -> Result<(), Shortage> {
        let mut state = self.lock();
        self.look(&mut state, false);
        let is_for_deletes = matches!(effect, Effect::Deletes | Effect::Keeps);
        if is_for_deletes && state.space.free < state.held / NEARLY_NOTHING {
            self.release_while_running(&mut state, "nearly nothing is free");
        }
        let limits = self.limits(&state);
        let missing = limits.ballast.saturating_sub(state.held);
        let free = state.space.free;
        disk_space::admits(state.level, limits, free, missing, effect)
            .map_err(|needed| self.shortage(free, needed))
    }

    /// Whether some commits are refused, as of the last check.
    pub(crate) fn is_short(&self) -> bool {
        let level = self.lock().level;
        level.sheds || level.full
    }

    /// Called when the file system had no space for a group. Returns true if space was freed and a retry is
    /// worthwhile.
    pub(crate) fn refused(&self) -> bool {
        let mut state = self.lock();
        self.look(&mut state, true);
        state.level = Level { sheds: true, full: true };
        self.release_while_running(&mut state, "a write was refused")
    }

    /// The shortage to report for a commit that found the disk full.
    pub(crate) fn no_space(&self) -> Shortage {
        let state = self.lock();
        let limits = self.limits(&state);
        let missing = limits.ballast.saturating_sub(state.held);
        self.shortage(state.space.free, limits.resumes(limits.least, missing))
    }

    /// Counts written bytes.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.lock().written += bytes;
    }

    /// Whether a file of this size fits beside the reserved space.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        self.look(&mut state, true);
        let limits = self.limits(&state);
        state.space.free >= bytes.saturating_add(limits.least)
    }

    /// Whether to retry the served copy: the space that deletes require is free.
    pub(crate) fn has_some(&self) -> bool {
        self.leaves_some(0)
    }

    /// Whether that space remains free after writing a file of this size.
    pub(crate) fn leaves_some(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        self.look(&mut state, true);
        state.space.free >= bytes.saturating_add(self.limits(&state).least / 4)
    }

    /// Recreates the ballast when there is space for it, and logs changes of the disk's state.
    pub(crate) fn settle(&self) {
        let mut state = self.lock();
        self.look(&mut state, false);
        let limits = self.limits(&state);
        let failed_just_now = state.no_ballast.is_some_and(|failed| failed.elapsed() < BALLAST_AGAIN);
        if state.held >= limits.ballast
            || state.level.full
            || state.space.free < limits.resumes(limits.least, limits.ballast)
            || failed_just_now
        {
            return;
        }
        drop(state);
        // Not under the lock: creating the file is slow, and writers need the lock.
        let path = self.dir.join(BALLAST);
        let made = make(&path, limits.ballast);
        let mut state = self.lock();
        match made {
            Ok(()) => {
                state.held = limits.ballast;
                state.no_ballast = None;
                tracing::debug!(path = %path.display(), bytes = limits.ballast, "ballast is held");
            }
            Err(error) => {
                if state.no_ballast.replace(Instant::now()).is_none() {
                    tracing::warn!(%error, path = %path.display(), "cannot make the ballast file; trying on");
                }
                let _ = std::fs::remove_file(&path);
            }
        }
        state.looked_at = None;
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut state = self.lock();
        self.look(&mut state, false);
        let needed = self.limits(&state).least;
        let free = (!state.blind).then_some(state.space.free);
        Usage {
            size: space::allocated(&self.dir),
            free,
            least: needed,
            full: state.level.full,
            ..Usage::default()
        }
    }

    /// Checks the free space, unless the last check is still valid.
    fn look(&self, state: &mut AdmissionState, again: bool) {
        let fresh = state.looked_at.is_some_and(|at| at.elapsed() < FRESH) && state.written < FRESH_BYTES;
        if fresh && !again {
            return;
        }
        if state.sized_at.is_none_or(|at| at.elapsed() >= SIZE_FRESH) {
            state.sized_at = Some(Instant::now());
            state.store = space::allocated(&self.dir);
        }
        state.looked_at = Some(Instant::now());
        state.written = 0;
        match self.disk_space.space(&self.dir) {
            Ok(space) => {
                state.space = space;
                state.blind = false;
            }
            Err(error) => {
                // A failed check is no reason to stop: writes fail when the file system is full.
                state.space = Space { free: u64::MAX, total: u64::MAX };
                if !std::mem::replace(&mut state.blind, true) {
                    tracing::warn!(%error, place = %self.place, "cannot read the free space of the disk");
                }
            }
        }
        let limits = self.limits(state);
        let missing = limits.ballast.saturating_sub(state.held);
        let before = state.level;
        state.level = disk_space::level(before, limits, state.space.free, missing);
        self.tell(before, state, limits);
    }

    fn tell(&self, before: Level, state: &AdmissionState, limits: Limits) {
        let Level { sheds, full } = state.level;
        let (free, least, place) = (state.space.free, limits.least, &self.place);
        if full && !before.full {
            tracing::error!(%place, free, least, "the disk is nearly full: only deletes and updates that do not grow are taken");
        } else if before.full && !full {
            tracing::warn!(%place, free, "the disk has free space again, writes are accepted");
        } else if sheds && !before.sheds {
            tracing::warn!(%place, free, prefixes = ?self.shed_first, "the disk fills up: these are not taken any more");
        } else if before.sheds && !sheds {
            tracing::info!(%place, free, "the disk has ample free space again");
        }
    }

    /// Frees the part of the ballast that a running store may use. Returns true if there was such a part.
    fn release_while_running(&self, state: &mut AdmissionState, why: &str) -> bool {
        let remains = self.limits(state).ballast / FOR_OPENING;
        self.release(state, remains, why)
    }

    /// Cuts the ballast to a size. Returns true if it was larger.
    fn release(&self, state: &mut AdmissionState, remains: u64, why: &str) -> bool {
        if state.held <= remains {
            return false;
        }
        let path = self.dir.join(BALLAST);
        let released = if remains == 0 { std::fs::remove_file(&path) } else { cut(&path, remains) };
        match released {
            Ok(()) => {
                let bytes = state.held - remains;
                tracing::warn!(path = %path.display(), bytes, why, "freed space of the ballast file");
                state.held = remains;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => state.held = 0,
            Err(error) => {
                tracing::error!(%error, path = %path.display(), "cannot free space of the ballast file");
                return false;
            }
        }
        self.look(state, true);
        true
    }

    fn limits(&self, state: &AdmissionState) -> Limits {
        disk_space::limits(
            self.least,
            self.ballast,
            state.store.saturating_sub(state.held),
            state.space.total,
        )
    }

    fn shortage(&self, free: u64, needed: u64) -> Shortage {
        Shortage { free, needed, place: self.place.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, AdmissionState> {
        self.state.lock()
    }
}

fn cut(path: &Path, bytes: u64) -> io::Result<()> {
    input_file::open(path, std::fs::OpenOptions::new().write(true))?.set_len(bytes)
}

/// Creates a file with allocated blocks.
fn make(path: &Path, bytes: u64) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = input_file::open(path, &mut options)?;
    let reserved = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes);
    match reserved {
        Ok(()) => {}
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            let zeros = vec![0; 1 << 20];
            let mut left = bytes;
            while left > 0 {
                let part = left.min(zeros.len() as u64);
                io::Write::write_all(&mut &file, &zeros[..part as usize])?;
                left -= part;
            }
        }
        Err(error) => return Err(error.into()),
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn failed_ballast_creation_is_retried_after_a_minute() {
        let dir = tempfile::tempdir().unwrap();
        let ballast = dir.path().join(BALLAST);
        let options =
            Options { min_free_bytes: Some(0), ballast_bytes: Some(64 << 10), ..Options::default() };
        let write_admission = WriteAdmission::new(dir.path(), &options);
        std::fs::create_dir(&ballast).unwrap();
        // The size of a directory does not count as ballast.
        write_admission.lock().held = 0;
        write_admission.settle();
        let failed = write_admission.lock().no_ballast;
        assert!(failed.is_some());
        std::fs::remove_dir(&ballast).unwrap();
        write_admission.settle();
        assert!(!ballast.exists(), "no retry within the interval");
        write_admission.lock().no_ballast = failed.and_then(|failed| failed.checked_sub(BALLAST_AGAIN));
        write_admission.settle();
        assert!(ballast.exists());
        assert_eq!(write_admission.lock().no_ballast, None);
        assert_eq!(write_admission.lock().held, 64 << 10);
    }

    #[test]
    fn named_pipe_in_place_of_the_ballast_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let ballast = dir.path().join(BALLAST);
        let options =
            Options { min_free_bytes: Some(0), ballast_bytes: Some(64 << 10), ..Options::default() };
        let write_admission = WriteAdmission::new(dir.path(), &options);
        rustix::fs::mkfifoat(rustix::fs::CWD, &ballast, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        write_admission.settle();
        assert!(write_admission.lock().no_ballast.is_some());
        write_admission.lock().no_ballast = None;
        write_admission.settle();
        assert!(ballast.is_file());
    }

    /// A disk with this many free bytes.
    struct Disk(std::sync::atomic::AtomicU64);

    impl DiskSpace for Disk {
        fn space(&self, _: &Path) -> io::Result<Space> {
            Ok(Space { free: self.0.load(std::sync::atomic::Ordering::SeqCst), total: 1 << 40 })
        }
    }

    /// Another program may take what a running store frees. Recovery at the next start still has its part.
    #[test]
    fn running_store_never_releases_the_part_for_opening() {
        const SIZE: u64 = 64 << 10;
        let dir = tempfile::tempdir().unwrap();
        let ballast = dir.path().join(BALLAST);
        let disk = Arc::new(Disk((1 << 30).into()));
        let options = Options {
            min_free_bytes: Some(1 << 20),
            ballast_bytes: Some(SIZE),
            disk_space: disk.clone(),
            ..Options::default()
        };
        let running = WriteAdmission::new(dir.path(), &options);
        running.settle();
        assert_eq!(space::allocated_file(&ballast), SIZE);
        disk.0.store(0, std::sync::atomic::Ordering::SeqCst);
        running.lock().looked_at = None;
        running.admits(Effect::Grows).unwrap_err();
        assert_eq!(space::allocated_file(&ballast), SIZE, "a write that is refused releases nothing");
        running.admits(Effect::Deletes).unwrap();
        assert_eq!(space::allocated_file(&ballast), SIZE / FOR_OPENING);
        assert!(!running.refused(), "nothing more is released");
        assert_eq!(space::allocated_file(&ballast), SIZE / FOR_OPENING);
        let opening = WriteAdmission::new(dir.path(), &options);
        assert_eq!(opening.lock().held, SIZE / FOR_OPENING);
        opening.before_opening();
        assert!(!ballast.exists());
    }
}
