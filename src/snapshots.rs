//! Periodic snapshots: files with all objects in a directory, of which the newest are kept.
//!
//! An error does not stop the server: it is logged and counted, and the snapshot is retried when the next one is
//! due. If nothing has changed since the last file, no snapshot is taken.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use orlop_apiserver::{OMITTED_FROM_SNAPSHOTS, Projection, Server};
use orlop_cli::config::Schedule;
use orlop_cli::error::chain;
use orlop_store::archive::{self, ArchiveError};
use orlop_store::{Kv, Revision};
use tokio_util::sync::CancellationToken;

use crate::data_dir::{self, DataDirError};

const PREFIX: &str = "orlop-";
const SUFFIX: &str = ".snapshot";
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// A periodic snapshot file. Its name contains the time and the revision, so that the file need not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    name: String,
    time: String,
    revision: Revision,
}

fn name_of(time: Timestamp, revision: Revision) -> String {
    format!("{PREFIX}{}-{}{SUFFIX}", time.strftime(TIME), revision)
}

fn parse(name: &str) -> Option<Named> {
    let (time, revision) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
    if time.len() != 16 || !time.ends_with('Z') {
        return None;
    }
    let revision = Revision(revision.parse().ok()?);
    Some(Named { name: name.to_owned(), time: time.to_owned(), revision })
}

/// The snapshot files in a directory, oldest first.
fn list(dir: &Path) -> io::Result<Vec<Named>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        found.extend(parse(&entry?.file_name().to_string_lossy()));
    }
    found.sort_by(|a, b| (&a.time, a.revision).cmp(&(&b.time, b.revision)));
    Ok(found)
}

/// The time until the next snapshot is due; a restart does not delay it.
fn due_in(every: Duration, newest: Option<&Named>, now: Timestamp) -> Duration {
    let taken = newest.and_then(|newest| {
        let time = jiff::civil::DateTime::strptime(TIME, &newest.time).ok()?;
        time.to_zoned(jiff::tz::TimeZone::UTC).ok()
    });
    let Some(taken) = taken else { return Duration::ZERO };
    let since = now.duration_since(taken.timestamp());
    every.saturating_sub(Duration::try_from(since).unwrap_or_default())
}

/// Creates the directory of the snapshots. Refuses a directory of another user, and warns if other users can replace files in it.
pub(crate) fn prepare(dir: &Path) -> Result<(), DataDirError> {
    use std::os::unix::fs::MetadataExt as _;
    let failed = |error| DataDirError::Create { path: dir.to_owned(), error };
    data_dir::create(dir).map_err(failed)?;
    // After the creation, because another user may have created the directory in the meantime.
    data_dir::check_owner("--snapshot-dir", dir)?;
    let mode = fs::metadata(dir).map_err(failed)?.mode() & 0o7777;
    if mode & 0o022 != 0 {
        tracing::warn!(
            "other users can replace the snapshots in {} (mode {mode:o}): run `chmod go-w {}`",
            dir.display(),
            dir.display()
        );
    }
    Ok(())
}

/// Takes snapshots until it is stopped.
pub(crate) async fn run(
    schedule: Schedule,
    store: Arc<dyn Kv<Projection>>,
    server: Server,
    stop: CancellationToken,
) {
    let newest = list(&schedule.dir).ok().and_then(|mut found| found.pop());
    let mut wait = due_in(schedule.every, newest.as_ref(), Timestamp::now());
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = schedule.every;
        let (schedule, store) = (schedule.clone(), store.clone());
        let taken = tokio::task::spawn_blocking(move || once(&schedule, &*store, Timestamp::now())).await;
        match taken {
            Ok(Ok(Some(path))) => {
                tracing::info!("saved a snapshot in {}", path.display());
                server.count_snapshot("success", Some(Timestamp::now().as_second()));
            }
            Ok(Ok(None)) => server.count_snapshot("unchanged", None),
            Ok(Err(error)) => {
                tracing::error!("no snapshot could be saved: {}", chain(&error));
                server.count_snapshot("failure", None);
            }
            Err(error) => {
                tracing::error!("no snapshot could be saved: {error}");
                server.count_snapshot("failure", None);
            }
        }
    }
}

/// Takes a snapshot if something has changed, and removes surplus files.
fn once(
    schedule: &Schedule,
    store: &dyn Kv<Projection>,
    now: Timestamp,
) -> Result<Option<PathBuf>, ArchiveError> {
    let io = |action| move |source| ArchiveError::Io { action, path: schedule.dir.clone(), source };
    data_dir::create(&schedule.dir).map_err(io("create"))?;
    let picture = store.head();
    let mut found = list(&schedule.dir).map_err(io("look into"))?;
    // The file may belong to another store, which only its header shows.
    let same = found.last().is_some_and(|newest| {
        newest.revision == picture.revision()
            && archive::header(&schedule.dir.join(&newest.name))
                .is_ok_and(|header| header.store == store.id())
    });
    if same {
        return Ok(None);
    }
    let name = name_of(now, picture.revision());
    let path = schedule.dir.join(&name);
    archive::save(&path, |out| {
        archive::write(out, store.id(), now.as_millisecond(), &picture, &OMITTED_FROM_SNAPSHOTS)
    })?;
    found.retain(|known| known.name != name);
    let many = (found.len() + 1).saturating_sub(schedule.keep);
    for old in &found[..many] {
        let old = schedule.dir.join(&old.name);
        if let Err(error) = fs::remove_file(&old) {
            tracing::warn!("the old snapshot {} cannot be removed: {error}", old.display());
        }
    }
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_store::{Expect, Key, Memory, Op, View, Write};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    #[test]
    fn restart_does_not_delay_the_next_snapshot() {
        let every = Duration::from_secs(3600);
        let newest = parse(&name_of(at(0), Revision(7))).unwrap();
        assert_eq!(newest.revision, Revision(7));
        for (name, newest, now, wanted) in [
            ("there is none", None, 0, 0),
            ("just taken", Some(&newest), 0, 3600),
            ("some time ago", Some(&newest), 1000, 2600),
            ("long ago", Some(&newest), 9000, 0),
            ("in the future", Some(&newest), -50, 3600),
        ] {
            assert_eq!(due_in(every, newest, at(now)), Duration::from_secs(wanted), "{name}");
        }
        for other in ["orlop-.snapshot", "orlop-20231114T221320Z-x.snapshot", "notes.txt", "orlop-7.snapshot"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn directory_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        prepare(&dir.path().join("new/one")).unwrap();
        if !orlop_test_support::privileges::has_root("a directory of another user") {
            return;
        }
        std::os::unix::fs::chown(dir.path(), Some(65_534), None).unwrap();
        let error = prepare(dir.path()).unwrap_err();
        assert!(error.to_string().contains("set --snapshot-dir to a new directory"), "{error}");
    }

    #[tokio::test]
    async fn newest_snapshots_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let schedule = Schedule { every: Duration::from_secs(1), dir: dir.path().join("kept/here"), keep: 2 };
        let store = Memory::<Projection>::new();
        let names = || list(&schedule.dir).unwrap().iter().map(|file| file.revision.0).collect::<Vec<_>>();
        for (n, wanted) in [vec![1], vec![1, 2], vec![2, 3], vec![3, 4]].into_iter().enumerate() {
            let key = Key::from(format!("/registry/pods/default/{n}"));
            let value = bytes::Bytes::from_static(b"{}");
            let view = Projection::of(&key, &value);
            let write = Write { key, expect: Expect::Absent, op: Op::Put { value, view } };
            store.commit(vec![write]).await.unwrap();
            let path = once(&schedule, &store, at(n as i64)).unwrap().unwrap();
            archive::check(&path).unwrap();
            assert_eq!(names(), wanted);
            assert_eq!(once(&schedule, &store, at(100)).unwrap(), None, "nothing has changed");
        }
        fs::write(schedule.dir.join("notes.txt"), "stays").unwrap();
        fs::remove_dir_all(&schedule.dir).unwrap();
        fs::write(&schedule.dir, "in the way").unwrap();
        assert!(once(&schedule, &store, at(9)).is_err());
    }
}
