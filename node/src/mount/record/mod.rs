//! A mounter that only records mounts, for virtual nodes and tests: it returns the same mount table and errors as
//! Linux, and changes no directories. The record is a file, so that it survives a restart of the agent, as mounts
//! do.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::call_queue::describe;
use super::{Changes, Force, Mount, MountError, MountPoint, Mounter, Origin, options};
use orlop_volume::rooted_fs::{self, Durability, FileKind, Resolver};

/// The record, below the agent's directory.
const FILE: &str = "mounts.json";
const MOST_BYTES: u64 = 64 << 20;

/// A mounter that mounts nothing.
#[derive(Debug)]
pub struct RecordingMounter {
    root: PathBuf,
    state: Mutex<RecordState>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct RecordState {
    points: Vec<Recorded>,
    busy: BTreeSet<PathBuf>,
    mounts: VecDeque<RecordedCall>,
    unmounts: VecDeque<RecordedCall>,
    calls: Vec<String>,
}

/// The behavior that a test sets for a call.
#[derive(Debug)]
enum RecordedCall {
    Fail(String),
    Hang(mpsc::Receiver<()>),
}

/// An entry of the record. Its paths must be valid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Recorded {
    target: String,
    root: String,
    fs_type: String,
    source: String,
    options: Vec<String>,
    device: (u32, u32),
}

/// Ends a hang when it is dropped.
#[derive(Debug)]
pub struct Release(#[allow(dead_code, reason = "dropped, never sent on")] mpsc::Sender<()>);

impl RecordingMounter {
    /// For targets below `root`, with the existing record.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn new(root: PathBuf) -> Result<Self, MountError> {
        let file = root.join(FILE);
        let points = match rooted_fs::read_file_below(&root, &file, MOST_BYTES) {
            // An empty file is possible after a crash of the machine.
            Ok(bytes) if bytes.is_empty() => Vec::new(),
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| MountError::Refused {
                what: format!("reading the record of mounts {}", file.display()),
                why: format!("{error}; without it, remove it: nothing is mounted by it"),
                source: Some(error.into()),
            })?,
            Err(error) if error.is_missing() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let state = Mutex::new(RecordState { points, ..RecordState::default() });
        Ok(Self { root, state, changes: watch::Sender::new(0) })
    }

    /// Makes the next mount without another instruction fail with this text.
    pub fn fail_next_mount(&self, why: &str) {
        self.state().mounts.push_back(RecordedCall::Fail(why.to_owned()));
    }

    /// Makes the next unmount fail with this text.
    pub fn fail_next_unmount(&self, why: &str) {
        self.state().unmounts.push_back(RecordedCall::Fail(why.to_owned()));
    }

    /// Blocks the next mount until the returned value is dropped; then the mount continues.
    pub fn hang_next_mount(&self) -> Release {
        let (sender, receiver) = mpsc::channel();
        self.state().mounts.push_back(RecordedCall::Hang(receiver));
        Release(sender)
    }

    /// Blocks the next unmount until the returned value is dropped; then the unmount continues.
    pub fn hang_next_unmount(&self) -> Release {
        let (sender, receiver) = mpsc::channel();
        self.state().unmounts.push_back(RecordedCall::Hang(receiver));
        Release(sender)
    }

    /// Marks a mount as busy or not busy.
    pub fn set_busy(&self, target: &Path, is_busy: bool) {
        let mut state = self.state();
        if is_busy {
            state.busy.insert(target.to_owned());
        } else {
            state.busy.remove(target);
        }
    }

    /// The calls in order, including failed ones: `mounting a at b`, `unmounting b`.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    fn state(&self) -> MutexGuard<'_, RecordState> {
        self.state.lock()
    }

    /// Applies the behavior that a test has set for this call. The lock is released while the call hangs.
    fn act(
        &self,
        queue: fn(&mut RecordState) -> &mut VecDeque<RecordedCall>,
        what: &str,
    ) -> Result<(), MountError> {
        let act = {
            let mut state = self.state();
            state.calls.push(what.to_owned());
            queue(&mut state).pop_front()
        };
        match act {
            None => Ok(()),
            Some(RecordedCall::Fail(why)) => {
                Err(MountError::Refused { what: what.to_owned(), why, source: None })
            }
            Some(RecordedCall::Hang(release)) => {
                // Returns an error when the other end is dropped.
                let _ = release.recv();
                Ok(())
            }
        }
    }

    /// Writes the record and adopts it; a failed write changes neither.
    fn keep(&self, state: &mut RecordState, points: Vec<Recorded>, what: &str) -> Result<(), MountError> {
        let bytes = serde_json::to_vec(&points).map_err(|error| MountError::Refused {
            what: what.to_owned(),
            why: error.to_string(),
            source: None,
        })?;
        // A file without fsync suffices: mounts do not survive a crash of the machine either.
        Resolver::best().write_file(&self.root, &self.root.join(FILE), &bytes, 0o600, Durability::Process)?;
        state.points = points;
        self.changes.send_modify(|number| *number += 1);
        Ok(())
    }
}

impl Mounter for RecordingMounter {
    fn mount(&self, mount: &Mount) -> Result<(), MountError> {
        let what = describe(mount);
        self.act(|state| &mut state.mounts, &what)?;
        let refused = |why: String| MountError::Refused { what: what.clone(), why, source: None };
        let options =
            options::merged(&mount.options, mount.read_only).map_err(|error| refused(error.to_string()))?;
        if mount.target == self.root {
            let why = "it is the directory that everything is below".to_owned();
            return Err(MountError::Unsafe { path: mount.target.clone(), why });
        }
        Resolver::best().open_path(&self.root, &mount.target, OFlags::PATH)?;
        let is_dir = rooted_fs::kind_below(&self.root, &mount.target)? == Some(FileKind::Dir);
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| refused("a path in it is not UTF-8".to_owned()))
        };
        let target = text(&mount.target)?;
        let mut state = self.state();
        let mut points = state.points.clone();
        let new_device = (0, points.iter().map(|point| point.device.1).max().unwrap_or(0) + 1);
        let mut recorded = Recorded {
            target,
            root: "/".to_owned(),
            fs_type: String::new(),
            source: String::new(),
            options: vec![if mount.read_only { "ro" } else { "rw" }.to_owned()],
            device: new_device,
        };
        recorded.options.extend(options.into_iter().filter(|option| option != "ro" && option != "rw"));
        match &mount.origin {
            Origin::Bind(source) => {
                let found = std::fs::metadata(source)
                    .map_err(|error| refused(format!("{} cannot be opened: {error}", source.display())))?;
                if found.is_dir() != is_dir {
                    return Err(refused(
                        "only a directory can be mounted on a directory, and only a file on a file"
                            .to_owned(),
                    ));
                }
                text(source)?;
                // The recorded file system of the source, or the machine's own.
                let above = points.iter().enumerate().filter(|(_, point)| source.starts_with(&point.target));
                let above =
                    above.max_by_key(|(at, point)| (Path::new(&point.target).components().count(), *at));
                let (root, rest) = match above {
                    Some((_, point)) => {
                        recorded.fs_type.clone_from(&point.fs_type);
                        recorded.source.clone_from(&point.source);
                        recorded.device = point.device;
                        (PathBuf::from(&point.root), source.strip_prefix(&point.target).unwrap_or(source))
                    }
                    None => {
                        recorded.fs_type = "recorded".to_owned();
                        recorded.source = "recorded".to_owned();
                        recorded.device = (0, 0);
                        (PathBuf::from("/"), source.strip_prefix("/").unwrap_or(source))
                    }
                };
                recorded.root = text(&root.join(rest))?.trim_end_matches('/').to_owned();
                if recorded.root.is_empty() {
                    recorded.root = "/".to_owned();
                }
            }
            Origin::FileSystem { fs_type, source } => {
                recorded.fs_type.clone_from(fs_type);
                recorded.source.clone_from(source);
            }
            Origin::Memory { bytes } => {
                recorded.fs_type = "tmpfs".to_owned();
                recorded.source = "tmpfs".to_owned();
                recorded.options.extend(bytes.map(|bytes| format!("size={}k", bytes.div_ceil(1024))));
            }
        }
        if !is_dir && !matches!(mount.origin, Origin::Bind(_)) {
            return Err(refused("the target is not a directory".to_owned()));
        }
        // Secrets do not belong in a mount table.
        for option in &mut recorded.options {
            *option = options::redacted(std::slice::from_ref(option));
        }
        points.push(recorded);
        self.keep(&mut state, points, &what)
    }

    fn unmount(&self, target: &Path, force: Force) -> Result<(), MountError> {
        let what = format!("unmounting {}", target.display());
        self.act(|state| &mut state.unmounts, &what)?;
        match Resolver::best().open_parent(&self.root, target) {
            Err(error) if error.is_missing() => {}
            other => drop(other?),
        }
        let mut state = self.state();
        let Some(topmost) = state.points.iter().rposition(|point| Path::new(&point.target) == target) else {
            return Ok(());
        };
        let busy = |by: &str| MountError::Busy { target: target.to_owned(), by: by.to_owned() };
        let is_below = |point: &Recorded| {
            Path::new(&point.target) != target && Path::new(&point.target).starts_with(target)
        };
        if state.points.iter().skip(topmost).any(is_below) {
            return Err(busy("mounts are below it"));
        }
        match force {
            Force::No if state.busy.contains(target) => return Err(busy("something has it open")),
            Force::No | Force::Yes => {}
        }
        let mut points = state.points.clone();
        points.remove(topmost);
        self.keep(&mut state, points, &what)
    }

    fn points(&self) -> Result<Vec<MountPoint>, MountError> {
        let state = self.state();
        Ok(state.points.iter().map(Recorded::point).collect())
    }

    fn changes(&self) -> Result<Changes, MountError> {
        Ok(Changes::of_record(self.changes.subscribe()))
    }
}

impl Recorded {
    fn point(&self) -> MountPoint {
        MountPoint {
            target: PathBuf::from(&self.target),
            root: PathBuf::from(&self.root),
            fs_type: self.fs_type.clone(),
            source: self.source.clone(),
            options: self.options.clone(),
            device: self.device,
        }
    }
}

#[cfg(test)]
mod tests;
