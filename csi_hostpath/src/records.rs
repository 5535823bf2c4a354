//! Persistent records: one JSON file per volume and per snapshot, written, synced and renamed into place before
//! the response, so that a crash at any point leaves the old or the new state.
//!
//! `volumes/ID/volume.json` is next to the volume's content, `snapshots/ID/snapshot.json` next to the snapshot's.
//! A directory without a record is left over from an interrupted create or delete, and is removed at the start.
//! Other files are never touched: if there are any, the driver does not start. Only this user can enter `volumes` and `snapshots`: pods
//! reach their volumes through mounts. The driver follows no link in them, and uses no directory of another user.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;
use tonic::Status;

use crate::private_dir::{self, PrivateDirError};
use crate::tree;

/// The kind of a volume's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// A directory, bind-mounted. Its size is not enforced.
    Directory,
    /// A file that contains a file system, mounted through a loop device.
    Image,
    /// A file that is published as a block device.
    Block,
}

/// The source of a volume's initial content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    Snapshot(String),
    Volume(String),
}

/// How a volume is published to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Publication {
    pub(crate) readonly: bool,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) id: String,
    /// The name chosen by the caller; unique among volumes.
    pub(crate) name: String,
    pub(crate) bytes: i64,
    pub(crate) form: Form,
    /// The node that stores the volume; only with topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    #[serde(default)]
    pub(crate) context: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) mutable: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<Source>,
    /// Publications by node.
    #[serde(default)]
    pub(crate) published: BTreeMap<String, Publication>,
    /// Staging paths on this machine.
    #[serde(default)]
    pub(crate) staged: BTreeSet<PathBuf>,
    /// Target paths on this machine, and whether each is read-only.
    #[serde(default)]
    pub(crate) targets: BTreeMap<PathBuf, bool>,
    /// Whether the volume was created for a pod; it is deleted when unpublished.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) ephemeral: bool,
}

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) volume: String,
    pub(crate) bytes: i64,
    pub(crate) form: Form,
    pub(crate) created: Timestamp,
}

/// Why records cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// An I/O error on a file or directory.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file or directory.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file or directory that the driver did not create.
    #[error("{} does not belong to this driver, which has removed nothing; use a separate --data-dir", .0.display())]
    Foreign(PathBuf),
    /// Another user can replace a directory, and with it the data of pods.
    #[error(transparent)]
    Directory(#[from] PrivateDirError),
    /// A file that is not a valid record.
    #[error("{} is damaged: {source}; restore it, or remove its directory if the volume is not needed", path.display())]
    Damaged {
        /// The path of the record.
        path: PathBuf,
        /// The parse error.
        source: serde_json::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> RecordsError + '_ {
    move |source| RecordsError::File { path: path.to_owned(), source }
}

/// All records, in memory.
#[derive(Debug, Default)]
pub(crate) struct RecordState {
    pub(crate) volumes: BTreeMap<String, Volume>,
    pub(crate) snapshots: BTreeMap<String, Snapshot>,
}

/// The records on disk and in memory. Most calls hold the lock while they work, which serializes them; all of
/// them are short. Publishing is the exception, because many volumes are published concurrently: it writes to
/// disk without the lock, and the volume's [`turn`](Self::turn) excludes other calls for that volume.
#[derive(Debug)]
pub(crate) struct Records {
    root: PathBuf,
    state: Mutex<RecordState>,
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// A lock on one volume: the holder alone changes the volume.
pub(crate) type VolumeLock = OwnedMutexGuard<()>;

/// With more locks than this, unused ones are dropped.
const TURNS: usize = 1024;

impl Records {
    /// Reads all records below a directory, which it creates if necessary.
    pub(crate) fn open(root: &Path) -> Result<Self, RecordsError> {
        let mut state = RecordState::default();
        private_dir::prepare_root(root)?;
        for volume in read_all::<Volume>(&root.join("volumes"), "volume.json")? {
            state.volumes.insert(volume.id.clone(), volume);
        }
        for snapshot in read_all::<Snapshot>(&root.join("snapshots"), "snapshot.json")? {
            state.snapshots.insert(snapshot.id.clone(), snapshot);
        }
        Ok(Records { root: root.to_owned(), state: Mutex::new(state), turns: Mutex::default() })
    }

    /// Waits until no other call changes this volume, and locks it.
    pub(crate) async fn turn(&self, id: &str) -> VolumeLock {
        let turn = {
            let mut turns = self.turns.lock();
            if turns.len() > TURNS {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            Arc::clone(turns.entry(id.to_owned()).or_default())
        };
        turn.lock_owned().await
    }

    /// Applies a change planned by `plan` to the locked volume; `None` changes nothing. Other calls see the change
    /// immediately, so that limits are enforced. When this method returns, the change is on disk.
    pub(crate) async fn change(
        self: &Arc<Self>,
        turn: VolumeLock,
        plan: impl FnOnce(&RecordState) -> Result<Option<Volume>, Status>,
    ) -> Result<(), Status> {
        let (before, volume) = {
            let mut state = self.lock();
            let Some(volume) = plan(&state)? else { return Ok(()) };
            (state.volumes.insert(volume.id.clone(), volume.clone()), volume)
        };
        let records = Arc::clone(self);
        let writing = tokio::task::spawn_blocking(move || {
            // Keeps the volume locked until the write ends, even if the caller has disconnected.
            let _turn = turn;
            let written = write(&records.volume_dir(&volume.id), "volume.json", &volume);
            if let (Err(_), Some(before)) = (&written, before) {
                records.lock().volumes.insert(before.id.clone(), before);
            }
            written
        });
        let written = writing.await.map_err(|error| Status::internal(error.to_string()))?;
        Ok(written?)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, RecordState> {
        self.state.lock()
    }

    pub(crate) fn volume_dir(&self, id: &str) -> PathBuf {
        self.root.join("volumes").join(id)
    }

    pub(crate) fn snapshot_dir(&self, id: &str) -> PathBuf {
        self.root.join("snapshots").join(id)
    }

    /// Stores a new or changed volume: on disk, then in memory.
    pub(crate) fn put_volume(&self, state: &mut RecordState, volume: Volume) -> Result<(), RecordsError> {
        write(&self.volume_dir(&volume.id), "volume.json", &volume)?;
        state.volumes.insert(volume.id.clone(), volume);
        Ok(())
    }

    /// Deletes a volume. The record is deleted first, so that a crash leaves a directory without a record.
    pub(crate) fn drop_volume(&self, state: &mut RecordState, id: &str) -> Result<(), RecordsError> {
        remove(&self.volume_dir(id), "volume.json")?;
        state.volumes.remove(id);
        Ok(())
    }

    pub(crate) fn put_snapshot(
        &self,
        state: &mut RecordState,
        snapshot: Snapshot,
    ) -> Result<(), RecordsError> {
        write(&self.snapshot_dir(&snapshot.id), "snapshot.json", &snapshot)?;
        state.snapshots.insert(snapshot.id.clone(), snapshot);
        Ok(())
    }

    pub(crate) fn drop_snapshot(&self, state: &mut RecordState, id: &str) -> Result<(), RecordsError> {
        remove(&self.snapshot_dir(id), "snapshot.json")?;
        state.snapshots.remove(id);
        Ok(())
    }
}

fn read_all<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Vec<T>, RecordsError> {
    private_dir::prepare(dir)?;
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let path = entry.map_err(at(dir))?.path();
        if !fs::symlink_metadata(&path).map_err(at(&path))?.is_dir() {
            return Err(RecordsError::Foreign(path));
        }
        let file = path.join(name);
        match fs::read(&file) {
            Ok(bytes) => all.push(
                serde_json::from_slice(&bytes)
                    .map_err(|source| RecordsError::Damaged { path: file, source })?,
            ),
            // Left over from an unacknowledged create, or from a delete that was interrupted after removing the record.
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_left_over(&path, name) => {
                tracing::info!(path = %path.display(), "removing what a crash left");
                tree::remove(&path).map_err(at(&path))?;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(RecordsError::Foreign(path));
            }
            Err(source) => return Err(RecordsError::File { path: file, source }),
        }
    }
    Ok(all)
}

/// Whether a directory without a record is left over from this driver: its name is a UUID or the ID of an ephemeral
/// volume, and it contains only files that the driver creates. Foreign data is never removed.
fn is_left_over(dir: &Path, name: &str) -> bool {
    let id = dir.file_name().and_then(|id| id.to_str()).unwrap_or_default();
    let is_uuid = uuid::Uuid::try_parse(id).is_ok_and(|uuid| uuid.to_string() == id);
    // Kubernetes makes the IDs of ephemeral volumes from a SHA-256 digest.
    let is_ephemeral = id
        .strip_prefix("csi-")
        .is_some_and(|digest| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let new = format!("{name}.new");
    let is_ours = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| [new.as_str(), "data", "image"].iter().any(|own| entry.file_name() == *own))
    };
    (is_uuid || is_ephemeral) && fs::read_dir(dir).is_ok_and(|entries| entries.into_iter().all(is_ours))
}

fn write(dir: &Path, name: &str, record: &impl Serialize) -> Result<(), RecordsError> {
    fs::create_dir_all(dir).map_err(at(dir))?;
    let file = dir.join(name);
    let is_first = !file.exists();
    let bytes =
        serde_json::to_vec(record).map_err(|source| RecordsError::Damaged { path: file.clone(), source })?;
    let new = dir.join(format!("{name}.new"));
    let written = File::create(&new).and_then(|mut out| out.write_all(&bytes).and_then(|()| out.sync_all()));
    written.map_err(at(&new))?;
    fs::rename(&new, &file).map_err(at(&file))?;
    sync_dir(dir)?;
    // The volume's directory is new only when its first record is written.
    dir.parent().filter(|_| is_first).map_or(Ok(()), sync_dir)
}

fn remove(dir: &Path, name: &str) -> Result<(), RecordsError> {
    let file = dir.join(name);
    match fs::remove_file(&file) {
        // An earlier call failed after this step.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.map_err(at(&file))?,
    }
    if dir.exists() {
        sync_dir(dir)?;
    }
    tree::remove(dir).map_err(at(dir))
}

fn sync_dir(dir: &Path) -> Result<(), RecordsError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(at(dir))
}
