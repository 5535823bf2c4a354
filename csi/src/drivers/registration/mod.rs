//! Driver registration: a driver creates a socket in the plugin directory, reports its name and CSI socket there, and is
//! notified that it was registered (upstream: kubelet's pluginmanager, registration v1). When the socket disappears, the driver is
//! removed, unless it is registered by another socket as well.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use crate::driver_name;
use crate::registration::registration_client::RegistrationClient;
use crate::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use crate::socket;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::folder::Folder;
use super::{Drivers, Endpoint};

/// The plugin type that a CSI driver reports.
const CSI_PLUGIN: &str = "CSIPlugin";
/// Interval between reads of the directory while one of its sockets does not respond, or without change
/// notifications from the kernel.
const PERIOD: Duration = Duration::from_secs(1);
/// Interval between reads without a notification: a file system may have been mounted over the directory.
const LONG: Duration = Duration::from_secs(60);
/// The longest that a driver may take to report its identity.
const PATIENCE: Duration = Duration::from_secs(5);

/// Distinguishes a socket from a later one with the same name. File systems reuse inode numbers, so the time of the last change
/// is compared as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SocketId {
    inode: u64,
    changed: (i64, i64),
}

impl SocketId {
    fn of(meta: &std::fs::Metadata) -> Self {
        SocketId { inode: meta.ino(), changed: (meta.ctime(), meta.ctime_nsec()) }
    }
}

/// A socket that was seen, and the driver behind it.
struct SeenSocket {
    at: Endpoint,
    stop: CancellationToken,
    mark: SocketId,
}

/// Follows a directory until `shutdown`. Drivers in `named` are never removed from here.
pub(super) async fn follow(drivers: &Drivers, named: &[Endpoint], dir: &Path, shutdown: &CancellationToken) {
    let mut follower = Follower::new(drivers, named, dir, shutdown);
    let mut said = None;
    let mut folder = None;
    loop {
        if folder.is_none() {
            // Watched before the directory is read, so that no change is missed.
            folder = Folder::of(dir).ok();
        }
        let Some(looked) = shutdown.run_until_cancelled(follower.look()).await else { return };
        let is_settled = looked.is_ok() && follower.unanswered == 0;
        match looked {
            Ok(()) => said = None,
            Err(error) => {
                let why = error.to_string();
                if said.as_ref() != Some(&why) {
                    tracing::warn!(dir = %dir.display(), why, "the directory of --csi-plugin-dir cannot be read");
                    said = Some(why);
                }
            }
        }
        let wait = if is_settled && folder.is_some() { LONG } else { PERIOD };
        tokio::select! {
            () = shutdown.cancelled() => return,
            result = changed(&mut folder) => if result.is_err() { folder = None },
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn changed(folder: &mut Option<Folder>) -> std::io::Result<()> {
    match folder {
        Some(folder) => folder.changed().await,
        None => std::future::pending().await,
    }
}

/// A directory and the sockets found in it.
struct Follower<'a> {
    drivers: &'a Drivers,
    named: &'a [Endpoint],
    dir: &'a Path,
    shutdown: &'a CancellationToken,
    seen: BTreeMap<OsString, SeenSocket>,
    /// Sockets that have not reported an identity yet.
    unanswered: usize,
    /// One task for each socket. Dropping it aborts them.
    tasks: JoinSet<()>,
}

impl<'a> Follower<'a> {
    fn new(
        drivers: &'a Drivers,
        named: &'a [Endpoint],
        dir: &'a Path,
        shutdown: &'a CancellationToken,
    ) -> Self {
        Follower {
            drivers,
            named,
            dir,
            shutdown,
            seen: BTreeMap::new(),
            unanswered: 0,
            tasks: JoinSet::new(),
        }
    }

    /// Reads the directory once.
    async fn look(&mut self) -> std::io::Result<()> {
        let now = sockets(self.dir)?;
        let all = now.len();
        while self.tasks.try_join_next().is_some() {}
        let (mut gone, mut replaced) = (BTreeSet::new(), BTreeSet::new());
        self.seen.retain(|name, known| {
            let mark = now.get(name);
            if mark == Some(&known.mark) {
                return true;
            }
            known.stop.cancel();
            let left = if mark.is_some() { &mut replaced } else { &mut gone };
            left.insert(known.at.name.clone());
            false
        });
        // A replaced socket may belong to the same driver, which is not removed then.
        gone.retain(|name| !replaced.contains(name));
        self.left(gone);
        let new = now.into_iter().filter(|(name, _)| !self.seen.contains_key(name));
        let dir = self.dir;
        let asked = new.map(|(name, mark)| async move { (register(&dir.join(&name)).await, name, mark) });
        for (info, name, mark) in futures::future::join_all(asked).await {
            let Some(info) = info else { continue };
            let at = Endpoint { name: info.name, endpoint: info.endpoint };
            replaced.remove(&at.name);
            let stop = self.keep(at.clone());
            self.seen.insert(name, SeenSocket { at, stop, mark });
        }
        self.left(replaced);
        self.unanswered = all.saturating_sub(self.seen.len());
        Ok(())
    }

    /// Removes the drivers of missing sockets. A driver with another socket is contacted there immediately, because
    /// it may have been reached through the missing one.
    fn left(&mut self, names: BTreeSet<String>) {
        for name in names {
            let other = self.seen.iter().find(|(_, known)| known.at.name == name);
            let Some((socket, at)) = other.map(|(socket, known)| (socket.clone(), known.at.clone())) else {
                if !self.named.iter().any(|at| at.name == name) {
                    self.drivers.remove(&name);
                }
                continue;
            };
            let stop = self.keep(at);
            if let Some(known) = self.seen.get_mut(&socket) {
                std::mem::replace(&mut known.stop, stop).cancel();
            }
        }
    }

    /// Polls a driver until the returned token is cancelled.
    fn keep(&mut self, at: Endpoint) -> CancellationToken {
        let stop = self.shutdown.child_token();
        let (drivers, ended) = (self.drivers.clone(), stop.clone());
        self.tasks.spawn(async move { drivers.keep(at, ended).await });
        stop
    }
}

/// The sockets of a directory by name, each with the mark that distinguishes a new socket of the same name.
fn sockets(dir: &Path) -> std::io::Result<BTreeMap<OsString, SocketId>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(meta) = entry.metadata() else { continue };
        if meta.file_type().is_socket() {
            found.insert(entry.file_name(), SocketId::of(&meta));
        }
    }
    Ok(found)
}

/// Queries a registration socket for its driver, and confirms the registration.
async fn register(path: &Path) -> Option<PluginInfo> {
    let channel = socket::connect(&path.display().to_string()).ok()?;
    let mut client = RegistrationClient::new(channel);
    let info = match tokio::time::timeout(PATIENCE, client.get_info(InfoRequest {})).await {
        Ok(Ok(info)) => info.into_inner(),
        Ok(Err(error)) => {
            tracing::debug!(socket = %path.display(), %error, "cannot register the driver of this socket");
            return None;
        }
        Err(_) => return None,
    };
    if info.r#type != CSI_PLUGIN {
        return None;
    }
    if let Err(why) = driver_name::check(&info.name) {
        tracing::debug!(socket = %path.display(), why, "cannot register the driver of this socket");
        return None;
    }
    let info = PluginInfo {
        // A driver without a CSI socket of its own serves it where it registers (kubelet does the same).
        endpoint: if info.endpoint.is_empty() { path.display().to_string() } else { info.endpoint },
        ..info
    };
    let status = RegistrationStatus { plugin_registered: true, error: String::new() };
    match tokio::time::timeout(PATIENCE, client.notify_registration_status(status)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::debug!(driver = info.name, %error, "the driver does not hear that it was taken");
        }
        Err(_) => {
            tracing::debug!(driver = info.name, "the driver did not acknowledge its registration")
        }
    }
    Some(info)
}

#[cfg(test)]
mod tests;
