//! A read-only check of a data directory: the type and state of each file, whether the store would open,
//! and the fix if it would not.
//!
//! The check follows the steps of `recover` without repairing anything. The served copy can be read only
//! by opening it, which changes it, so the check opens a copy in a scratch directory.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::files::create_private_dir;
use super::frame::StoreId;
use super::guard::{deadline, guarded};
use super::high_water::{self, HighWaterFile, HighWaterMark};
use super::identity::{self, Identity};
use super::paths::{RESTORE, StorePaths};
use super::recover::{check_mark, check_segments, compacted_between};
use super::scan::{self, Scan};
use super::sensitive::Sensitive;
use super::sled::{Served, ServedError};
use super::verify::{self, Loaded};
use super::{Options, dir_identity, lock, loss_record, sled_dir, snapshot};
use crate::transform::Transform;
use crate::{OpenError, Revision};

/// Options of a check.
#[derive(Clone)]
pub struct CheckOptions {
    /// The options with which the store would be opened.
    pub options: Options,
    /// Where a copy of the served copy is created, opened and removed again. `None` skips the check of the
    /// served copy.
    pub scratch: Option<PathBuf>,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions { options: Options::default(), scratch: Some(std::env::temp_dir()) }
    }
}

/// The state of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Intact.
    Fine,
    /// Not intact, and repaired when the store is opened.
    Repairable,
    /// Damaged.
    Bad,
}

/// The result for one file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its path below the data directory.
    pub file: String,
    /// The type of the file, and its damage.
    pub what: String,
    /// The state of the file.
    pub state: FileState,
}

/// The outcome of opening the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The store opens without repairs.
    Sound {
        /// The newest revision.
        head: Revision,
    },
    /// The store opens after repairs, with everything that was acknowledged.
    Repairable {
        /// The newest revision.
        head: Revision,
        /// The repairs.
        what: String,
    },
    /// The store does not open; the text gives the reason and the fix.
    Refused(String),
    /// Another process has the store open, so nothing was checked; the text identifies the process.
    InUse(String),
    /// The directory has no store: opening it would create one.
    Empty,
}

impl CheckOutcome {
    /// Whether the store would open with everything that was acknowledged.
    pub fn opens(&self) -> bool {
        match self {
            CheckOutcome::Sound { .. } | CheckOutcome::Repairable { .. } | CheckOutcome::Empty => true,
            CheckOutcome::Refused(_) | CheckOutcome::InUse(_) => false,
        }
    }
}

/// The result of checking a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The result for each file.
    pub lines: Vec<Line>,
    /// The overall result.
    pub verdict: CheckOutcome,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.lines.iter().map(|line| line.file.len()).max().unwrap_or(0);
        for line in &self.lines {
            let state = match line.state {
                FileState::Fine => "ok      ",
                FileState::Repairable => "repair  ",
                FileState::Bad => "DAMAGED ",
            };
            writeln!(f, "{state} {:width$}  {}", line.file, line.what)?;
        }
        match &self.verdict {
            CheckOutcome::Sound { head } => write!(f, "The store is sound; it is at revision {head}."),
            CheckOutcome::Repairable { head, what } => write!(
                f,
                "The store opens with everything that was acknowledged, up to revision {head}. \
                 Opening it will repair: {what}."
            ),
            CheckOutcome::Refused(why) => write!(f, "The store does not open: {why}."),
            CheckOutcome::InUse(holder) => write!(f, "The store is in use ({holder}); nothing was checked."),
            CheckOutcome::Empty => write!(f, "There is no store here."),
        }
    }
}

/// Checks a data directory without changing it. The store must not be open in any process.
pub fn check(dir: impl AsRef<Path>, options: &CheckOptions) -> Report {
    let dir = dir.as_ref();
    match lock::holder(dir) {
        Ok(None) => {}
        Ok(Some(holder)) => return Report { lines: Vec::new(), verdict: CheckOutcome::InUse(holder) },
        Err(error) => {
            let verdict = CheckOutcome::Refused(format!("cannot look at {}: {error}", dir.display()));
            return Report { lines: Vec::new(), verdict };
        }
    }
    let mut check = Check { paths: StorePaths::below(dir), options, lines: Vec::new(), repairs: Vec::new() };
    let verdict = match check.run() {
        Ok(verdict) => verdict,
        Err(error) => CheckOutcome::Refused(error_chain(&error)),
    };
    Report { lines: check.lines, verdict }
}

/// The contents of a served copy.
#[derive(Clone, Copy)]
struct Copied {
    /// The newest revision in the copy.
    applied: Revision,
    /// The oldest revision in the copy's history.
    oldest: Revision,
}

struct Check<'a> {
    paths: StorePaths<'a>,
    options: &'a CheckOptions,
    lines: Vec<Line>,
    /// The repairs that opening would make.
    repairs: Vec<String>,
}

impl Check<'_> {
    fn run(&mut self) -> Result<CheckOutcome, OpenError> {
        let options = &self.options.options;
        let files = &*options.files;
        let root = self.paths.root;
        let found = identity::read(files, root)?;
        let segments =
            scan::list(files, &self.paths.journal).map_err(self.paths.io("list", &self.paths.journal))?;
        let snapshots = snapshot::list(files, &self.paths.snapshots)
            .map_err(self.paths.io("list", &self.paths.snapshots))?;
        let store = match found {
            Identity::Store(store) | Identity::Older(store) => {
                self.fine("STORE", format!("the store {store}"));
                store
            }
            Identity::Missing if dir_identity::was_never_used(&self.paths, files)? => {
                return Ok(CheckOutcome::Empty);
            }
            Identity::Missing | Identity::Broken => {
                let store = scan::named(files, &segments).map_err(self.paths.io("read", root))?;
                let Some(store) = store else {
                    self.bad("STORE", "missing or damaged");
                    return Err(self.paths.damaged(format!("no file identifies the store; {RESTORE}")));
                };
                self.repair("STORE", "missing or damaged; the journal has the store's id");
                store
            }
        };
        let given_up = loss_record::read(&self.paths, files, store)?;
        let snapshots: Vec<_> = snapshots.into_iter().filter(|revision| *revision >= given_up).collect();
        let mark = self.mark(store)?;
        let scan = self.journal(store, given_up);
        let usable = self.snapshots(store, &snapshots, scan.as_ref().ok());
        let scan = scan?;
        check_segments(&self.paths, &scan)?;
        let copy = self.served(store, &scan, &snapshots);
        let applied = copy.map(|copy| copy.applied);
        let head = scan.last().max(applied.unwrap_or_default());
        if applied.is_none() && scan.first() > Revision(1) && !usable {
            return Err(self.paths.damaged(format!(
                "its served copy cannot be used, and no snapshot reaches the journal; {RESTORE}"
            )));
        }
        if let Some(Copied { applied, oldest }) = copy.filter(|copy| copy.applied > scan.last()) {
            if oldest > scan.last() {
                return Err(self.paths.damaged(compacted_between(scan.last(), applied)));
            }
            self.repairs.push("the end of the journal, from the served copy".into());
        }
        if let Some(newest) = snapshots.last().filter(|newest| **newest > head) {
            return Err(self.paths.damaged(format!(
                "revision {newest} was acknowledged (there is a snapshot of it), but the journal ends at {head}; \
                 {RESTORE}"
            )));
        }
        check_mark(&self.paths, files, &scan, store, mark, head)?;
        if self.repairs.is_empty() {
            return Ok(CheckOutcome::Sound { head });
        }
        Ok(CheckOutcome::Repairable { head, what: self.repairs.join("; ") })
    }

    fn mark(&mut self, store: StoreId) -> Result<Option<HighWaterMark>, OpenError> {
        match high_water::read(&*self.options.options.files, self.paths.root, store)? {
            HighWaterFile::Mark(mark) => {
                self.fine(high_water::NAME, format!("revision {} was acknowledged", mark.revision));
                Ok(Some(mark))
            }
            HighWaterFile::Missing | HighWaterFile::Damaged => {
                self.repair(high_water::NAME, "missing or damaged; it is rewritten");
                Ok(None)
            }
            HighWaterFile::Other(other) => {
                self.bad(high_water::NAME, format!("belongs to the store {other}"));
                Err(self.paths.damaged(format!("its high-water mark belongs to the store {other}")))
            }
        }
    }

    fn journal(&mut self, store: StoreId, given_up: Revision) -> Result<Scan, OpenError> {
        let files = &*self.options.options.files;
        let scan = scan::scan(files, self.paths.root, &self.paths.journal, store, given_up);
        match &scan {
            Ok(scan) => {
                for segment in &scan.segments {
                    let (first, last) = (segment.first, Revision(segment.next.0 - 1));
                    let what = if last < first {
                        "empty".to_owned()
                    } else {
                        format!("revisions {first} to {last}")
                    };
                    self.fine(&self.name(&segment.path), what);
                }
            }
            Err(error) => self.bad("journal", error_chain(error)),
        }
        scan
    }

    /// Reads every snapshot. Returns true if a rebuild can start from one of them.
    fn snapshots(&mut self, store: StoreId, snapshots: &[Revision], scan: Option<&Scan>) -> bool {
        let mut usable = false;
        for revision in snapshots {
            let path = snapshot::path_of(&self.paths.snapshots, *revision);
            let name = self.name(&path);
            let files = &*self.options.options.files;
            match snapshot::verify(files, &path, store, *revision) {
                Ok(records) => {
                    self.fine(&name, format!("{records} records at revision {revision}"));
                    usable |= scan.is_some_and(|scan| revision.next() >= scan.first());
                }
                Err(why) => self.bad(&name, why),
            }
        }
        usable
    }

    /// Opens a copy of the served copy, and returns its contents if it is usable.
    fn served(&mut self, store: StoreId, scan: &Scan, snapshots: &[Revision]) -> Option<Copied> {
        let as_the_journal = Copied { applied: scan.last(), oldest: Revision::ZERO };
        if !self.paths.sled.exists() {
            if scan.last() > Revision::ZERO || !snapshots.is_empty() {
                self.repair("sled", "missing; it is rebuilt from the snapshot and the journal");
            }
            return None;
        }
        let Some(scratch) = &self.options.scratch else {
            self.fine("sled", "not looked into");
            return Some(as_the_journal);
        };
        let copy = scratch.join(format!("orlop-check-{}", uuid::Uuid::new_v4()));
        let result = copy_dir(&self.paths.sled, &copy).map_err(ServedError::System).and_then(|()| {
            sled_dir::before_open(&copy)?;
            let (dir, options) = (copy.clone(), self.options.options.clone());
            guarded("opening sled", deadline(self.paths.root, &options), move || {
                let served = Served::open(&dir, options.lock_wait)?;
                let loaded =
                    verify::load::<()>(&served, store, &Transform::default(), &Sensitive::default())?;
                let nothing = Copied { applied: Revision::ZERO, oldest: Revision::ZERO };
                Ok(loaded.map_or(nothing, |Loaded { applied, oldest, .. }| Copied { applied, oldest }))
            })
        });
        if let Err(error) = fs::remove_dir_all(&copy) {
            tracing::warn!(%error, path = %copy.display(), "cannot remove a scratch directory");
        }
        match result {
            Ok(Copied { applied, .. }) if applied.next() < scan.first() => {
                self.repair("sled", format!("ends at revision {applied}, before the journal starts"));
                None
            }
            Ok(copied) => {
                self.fine("sled", format!("up to revision {}", copied.applied));
                Some(copied)
            }
            Err(ServedError::System(error)) => {
                self.fine("sled", format!("not looked into: {error}"));
                Some(as_the_journal)
            }
            Err(ServedError::Unusable(why)) => {
                self.repair(
                    "sled",
                    format!("cannot be used ({why}); it is rebuilt from the snapshot and the journal"),
                );
                None
            }
        }
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.paths.root).unwrap_or(path).display().to_string()
    }

    fn fine(&mut self, file: &str, what: impl Into<String>) {
        self.lines.push(Line { file: file.to_owned(), what: what.into(), state: FileState::Fine });
    }

    fn bad(&mut self, file: &str, what: impl Into<String>) {
        self.lines.push(Line { file: file.to_owned(), what: what.into(), state: FileState::Bad });
    }

    fn repair(&mut self, file: &str, what: impl Into<String>) {
        let what = what.into();
        self.repairs.push(format!("{file} ({what})"));
        self.lines.push(Line { file: file.to_owned(), what, state: FileState::Repairable });
    }
}

/// An error with its causes, as text.
fn error_chain(error: &OpenError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    create_private_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
