//! The quarantine for unexplained directories: each is moved here unchanged, listed with its age, and deleted
//! only by an explicit command.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::host::Host;
use crate::paths::Paths;
use orlop_volume::rooted_fs::{self, RootedFsError};

/// The maximum number of orphans of one pod per second.
const MOST_NAMES: usize = 100;
/// The format of the time at the start of a name.
const TIME: &str = "%Y%m%dT%H%M%SZ";
/// Its length.
const TIME_LENGTH: usize = 16;

/// A directory in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its path.
    pub path: PathBuf,
    /// When it was moved; `None` when its name has no time, because another program created it.
    pub since: Option<Timestamp>,
}

/// The name for the directory of a pod.
pub(super) fn name(now: Timestamp, uid: &str) -> String {
    format!("{}-{uid}", now.strftime(TIME))
}

fn since(name: &str) -> Option<Timestamp> {
    let (time, rest) = name.split_at_checked(TIME_LENGTH)?;
    let at = DateTime::strptime(TIME, time).ok().filter(|_| rest.starts_with('-'))?;
    TimeZone::UTC.to_timestamp(at).ok()
}

/// Moves a directory into quarantine, on the same file system. Blocks.
pub(super) fn move_in(from: &Path, room: &Path, name: &str) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o750).create(room)?;
    for attempt in 0..MOST_NAMES {
        let to = match attempt {
            0 => room.join(name),
            _ => room.join(format!("{name}-{attempt}")),
        };
        // A rename would replace an empty directory of this name.
        if std::fs::symlink_metadata(&to).is_ok() {
            continue;
        }
        std::fs::rename(from, &to)?;
        return Ok(to);
    }
    Err(io::Error::other("too many of this name are there"))
}

/// Moves a directory back because something is mounted in it. Blocks.
pub(super) fn move_out(from: &Path, to: &Path) -> io::Result<()> {
    // Fails if the path exists again.
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// The content of the quarantine, sorted by name. Blocks.
///
/// # Errors
/// The quarantine cannot be listed or is not a directory.
pub fn list(paths: &Paths) -> Result<Vec<Quarantined>, RootedFsError> {
    let room = paths.quarantine();
    let entries = match rooted_fs::list_below(paths.root(), &room) {
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        other => other?,
    };
    let entries = entries
        .into_iter()
        .map(|entry| Quarantined { since: entry.name.to_str().and_then(since), path: room.join(entry.name) });
    Ok(entries.collect())
}

/// Deletes a directory in quarantine with its content. Links are not followed, and nothing is deleted when
/// something is mounted in it.
///
/// # Errors
/// The remaining directory, and the reason.
pub async fn purge(host: &Host, path: &Path) -> Result<(), String> {
    let room = host.paths.quarantine();
    let points = host.mounts.points().map_err(|error| error.to_string())?;
    let in_the_way = |target: &Path| target == room || target.starts_with(path);
    if let Some(point) = points.iter().find(|point| in_the_way(&point.target)) {
        return Err(format!("something is mounted at {}; unmount it", point.target.display()));
    }
    let (root, gone) = (host.paths.root().to_owned(), path.to_owned());
    let what = format!("deleting {}", path.display());
    let roots = host.config.host_path_roots.clone();
    let remove = move || rooted_fs::remove_unprotected_below(&root, &gone, &roots.protected_ids());
    let deleted = host.mounts.run("quarantine", what, move |_| Ok(remove()?)).await;
    deleted.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_contains_the_time() {
        let at = Timestamp::from_second(1_700_000_000).unwrap_or_default();
        assert_eq!(name(at, "u-1"), "20231114T221320Z-u-1");
        for (name, expected) in [
            ("20231114T221320Z-u-1", Some(at)),
            ("20231114T221320Z-u-1-7", Some(at)),
            ("20231114T221320Z", None),
            ("20231314T221320Z-u", None),
            ("20231114T221320Zü-u", None),
            ("2023111éT221320Z-u", None),
            ("backup", None),
            ("", None),
        ] {
            assert_eq!(since(name), expected, "{name}");
        }
    }
}
