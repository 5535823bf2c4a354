//! The built-in scrubber: empties a volume with policy Recycle on a node whose runtime runs no processes. The
//! binder creates a recycler pod for that (`controller/src/pv/recycle.rs`); instead of running its shell, the
//! agent deletes the content of the volume and reports the result as that of the pod.
//!
//! The deletion is irreversible, so everything is checked before the first file is deleted: the pod is exactly
//! the one that the binder creates and is not being deleted; the volume is read from the server and is Released
//! (or Failed, after an attempt) with policy Recycle; the pod's volume has the source of that volume; and the
//! directory is where that source is. A pod from a custom template of the administrator fails these checks and
//! needs a runtime that runs it.
//!
//! The scrubber does not follow links or cross into other file systems: a mount below the directory is an error
//! before anything is deleted.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use orlop_client::api::Api;
use orlop_client::client::{is_not_found, message_of};
use orlop_volume::object;
use rustix::fs::{Dir, OFlags};
use tokio_util::sync::CancellationToken;

use crate::mount::{MountError, MountPoint, Mounts};
use crate::objects::Objects;
use crate::volume::PodKey;
use orlop_volume::file_location::FileIds;
use orlop_volume::host_path_roots::HostPathRoots;
use orlop_volume::rooted_fs::{self, Resolver, RootedFsError, Stay};

mod preconditions;
#[cfg(test)]
mod tests;

use preconditions::is_plain;
pub use preconditions::{decide, volume_of};

/// The directory to be emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScrubTarget {
    /// A directory of this machine.
    HostPath(PathBuf),
    /// A directory of an NFS server, which is mounted for the pod.
    Nfs {
        /// The server.
        server: String,
        /// The directory on it.
        path: String,
    },
}

/// A recycler pod and its volume. Only [`read`] creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recycler {
    volume: String,
    target: ScrubTarget,
}

/// The result of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// Deleted entries of the top level; entries below them are not counted.
    pub entries: u64,
}

/// A volume was not emptied. The message becomes the pod's `status.message`.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// The pod or the volume does not pass the checks, or no longer does.
    #[error("pod {pod} is not the recycler of a released volume, nothing was deleted: {why}")]
    NotSure {
        /// Namespace and name.
        pod: String,
        /// The failed check.
        why: String,
    },
    /// The server cannot be read.
    #[error("cannot read {what}, nothing was deleted: {why}")]
    Read {
        /// Kind and name.
        what: String,
        /// The error of the server.
        why: String,
    },
    /// The directory is not that of the volume.
    #[error("{} is not the directory of volume {volume}, nothing was deleted: {why}", dir.display())]
    Place {
        /// The directory.
        dir: PathBuf,
        /// The PersistentVolume.
        volume: String,
        /// The mismatch.
        why: String,
    },
    /// An entry cannot be deleted.
    #[error("volume {volume} could not be emptied: {source}")]
    Delete {
        /// The PersistentVolume.
        volume: String,
        /// The entry and the error.
        source: RootedFsError,
    },
    /// The directory is not empty after the deletion.
    #[error(
        "volume {volume} is not empty after it was scrubbed: {left} exists; another process uses the volume"
    )]
    Left {
        /// The PersistentVolume.
        volume: String,
        /// One of the remaining names.
        left: String,
    },
    /// The mount table cannot be read.
    #[error("the table of mounts cannot be read, nothing was deleted: {0}")]
    Mounts(#[from] MountError),
    /// The pod is being deleted, or its deadline is over.
    #[error("scrubbing of volume {volume} was broken off; part of it is deleted")]
    Cancelled {
        /// The PersistentVolume.
        volume: String,
    },
    /// The deleting thread panicked.
    #[error(
        "scrubbing of volume {volume} was broken off by a failure of the agent; part of it may be deleted"
    )]
    Panicked {
        /// The PersistentVolume.
        volume: String,
    },
}

/// Whether a pod looks like a recycler, which the agent itself runs, with [`read`] and [`scrub`], when no runtime
/// does.
pub fn is_recycler(pod: &Pod) -> bool {
    volume_of(pod).is_ok()
}

/// Reads the pod and its volume from the server and runs the checks.
///
/// # Errors
/// A check fails, or the server cannot be read.
pub async fn read(client: &Client, pod: &PodKey) -> Result<Recycler, ScrubError> {
    let shown = format!("{}/{}", pod.namespace, pod.name);
    let not_sure = |why: &str| ScrubError::NotSure { pod: shown.clone(), why: why.to_owned() };
    let unread = |what: String, why: String| ScrubError::Read { what, why };
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let live = match api.get(&pod.name).await {
        Ok(live) if object::uid(&live.metadata) == pod.uid => live,
        Ok(_) => return Err(not_sure("another pod has its name")),
        Err(error) if is_not_found(&error) => return Err(not_sure("the pod does not exist")),
        Err(error) => return Err(unread(format!("pod {shown}"), message_of(&error))),
    };
    let name = volume_of(&live).map_err(not_sure)?;
    let volume = match Objects::new(client.clone()).volume(name).await {
        Ok(volume) => volume,
        Err(error) if is_not_found(&error.cause) => {
            return Err(not_sure(&format!("there is no volume {name}")));
        }
        Err(error) => return Err(unread(format!("volume {name}"), error.to_string())),
    };
    decide(&live, &volume).map_err(|why| not_sure(&why))
}

impl Recycler {
    /// The PersistentVolume.
    pub fn volume(&self) -> &str {
        &self.volume
    }

    /// The directory to be emptied.
    pub fn target(&self) -> &ScrubTarget {
        &self.target
    }

    /// Checks that a directory is that of the volume, as far as paths and the mount table can show. `agent` is the
    /// agent's own directory, `roots` the directories in which hostPath volumes may be emptied.
    fn check(
        &self,
        dir: &Path,
        agent: &Path,
        roots: &HostPathRoots,
        points: &[MountPoint],
    ) -> Result<(), String> {
        if !is_plain(dir) {
            return Err("it is no absolute path of plain names".to_owned());
        }
        match &self.target {
            ScrubTarget::HostPath(path) => {
                if dir != path {
                    return Err(format!("the volume is {}", path.display()));
                }
                if roots.containing(dir).is_none() {
                    return Err(
                        "it is not in a directory that --host-path-roots of the node agent allows".to_owned()
                    );
                }
                if dir.starts_with(agent) || agent.starts_with(dir) {
                    return Err("the agent's own directory is in it, or it is in that".to_owned());
                }
            }
            ScrubTarget::Nfs { server, path } => {
                let Some(point) = points.iter().rfind(|point| point.target == dir) else {
                    return Err("nothing is mounted there".to_owned());
                };
                // The kernel reports the mounted directory, even for a bind mount of a part of it.
                let (source, wanted) = (export(&point.source), export(&format!("{server}:{path}")));
                if !matches!(point.fs_type.as_str(), "nfs" | "nfs4") || source != wanted || point.root != *"/"
                {
                    return Err(format!("{} is mounted there, the volume is {server}:{path}", point.source));
                }
            }
        }
        match points.iter().find(|point| point.target != dir && point.target.starts_with(dir)) {
            Some(below) => Err(format!(
                "{} is mounted below it; unmount it, or empty the volume yourself",
                below.target.display()
            )),
            None => Ok(()),
        }
    }
}

/// Normalizes an NFS source: `[::1]:/a/` and `::1:/a` are equal.
fn export(source: &str) -> String {
    let source = source.replace(['[', ']'], "");
    match source.trim_end_matches('/') {
        short if short.ends_with(':') => format!("{short}/"),
        short => short.to_owned(),
    }
}

/// Deletes everything in the directory of a volume and verifies that it is empty. Blocks; checks `cancel` before
/// each entry of the top level. `agent` is the agent's own directory, `points` the mount table.
///
/// # Errors
/// The directory is not that of the volume, or it is not empty afterwards. What is already deleted is lost.
pub fn scrub(
    recycler: &Recycler,
    dir: &Path,
    agent: &Path,
    roots: &HostPathRoots,
    points: &[MountPoint],
    cancel: &CancellationToken,
) -> Result<Scrubbed, ScrubError> {
    let volume = || recycler.volume.clone();
    let place = |why: String| ScrubError::Place { dir: dir.to_owned(), volume: volume(), why };
    recycler.check(dir, agent, roots, points).map_err(place)?;
    // No component may be a link, because its target is not what the volume names.
    let opened = rooted_fs::open_dir_below(Path::new("/"), dir).map_err(|error| place(error.to_string()))?;
    let protected = match recycler.target {
        ScrubTarget::HostPath(_) => roots.protected_ids(),
        // It is mounted in the agent's own directory.
        ScrubTarget::Nfs { .. } => FileIds::new(),
    };
    let is_outside = rooted_fs::ensure_dir_outside(&opened, dir, &protected);
    is_outside.map_err(|error| place(error.to_string()))?;
    let failed = |source: RootedFsError| ScrubError::Delete { volume: volume(), source };
    let mut entries = 0;
    for name in names(&opened, dir).map_err(failed)? {
        if cancel.is_cancelled() {
            return Err(ScrubError::Cancelled { volume: volume() });
        }
        // By file descriptor, because the path may refer to another directory by now.
        let held = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        rooted_fs::remove_unprotected_below(&held, Path::new(&name), &protected).map_err(failed)?;
        entries += 1;
    }
    match names(&opened, dir).map_err(failed)?.first() {
        None => Ok(Scrubbed { entries }),
        Some(left) => Err(ScrubError::Left { volume: volume(), left: left.to_string_lossy().into_owned() }),
    }
}

/// Performs a complete scrub for a pod: read, check, delete. `dir` is the path of its volume
/// ([`crate::plugin::Plugin::path`]). The only limit is `cancel`, which is triggered by `activeDeadlineSeconds`
/// or the deletion of the pod.
///
/// # Errors
/// Those of [`read`] and [`scrub`].
pub async fn run(
    client: &Client,
    mounts: &Mounts,
    agent: &Path,
    roots: &HostPathRoots,
    pod: &PodKey,
    dir: &Path,
    cancel: CancellationToken,
) -> Result<Scrubbed, ScrubError> {
    let recycler = read(client, pod).await?;
    let points = mounts.points()?;
    let (volume, agent, dir) = (recycler.volume.clone(), agent.to_owned(), dir.to_owned());
    let roots = roots.clone();
    let (done, outcome) = tokio::sync::oneshot::channel();
    let work = move || {
        // The receiver may be gone.
        let _ = done.send(scrub(&recycler, &dir, &agent, &roots, &points, &cancel));
    };
    // A server that does not respond blocks only this thread.
    if std::thread::Builder::new().name("scrub".to_owned()).spawn(work).is_err() {
        return Err(ScrubError::Panicked { volume });
    }
    outcome.await.unwrap_or(Err(ScrubError::Panicked { volume }))
}

fn names(dir: &OwnedFd, shown: &Path) -> Result<Vec<OsString>, RootedFsError> {
    let wrong = |errno: rustix::io::Errno| RootedFsError::Refused {
        path: shown.to_owned(),
        why: format!("the directory cannot be read: {errno}"),
        source: errno.into(),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let again = Resolver::best().open(dir, Path::new(""), flags, Stay::InMount).map_err(wrong)?;
    let mut dir = Dir::new(again).map_err(wrong)?;
    let mut names = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry.map_err(wrong)?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
