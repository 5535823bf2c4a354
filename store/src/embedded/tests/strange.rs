//! Foreign directories, jumping clocks, and unusable served copies.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{events, fed, names, open, records, small, story};
use crate::embedded::frame::FORMAT;
use crate::testing::faulty::{Fault, Faulty};
use crate::testing::{Sum, put_one};
use crate::{Embedded, Kv, ManualClock, OpenError, Options, Retention, Revision};

fn refused(dir: &Path, options: Options) -> OpenError {
    match Embedded::<Sum>::open(dir, options) {
        Err(error) => error,
        Ok(store) => panic!("{} was opened at {}", dir.display(), store.head().revision()),
    }
}

#[test]
fn foreign_directories_are_refused_and_left_unchanged() {
    for (name, files) in [
        ("pictures", &["holiday.jpg", "notes/todo.txt"][..]),
        ("another sled", &["db", "conf", "blobs/1", "snap.0000000000000001"]),
        ("a postgres", &["PG_VERSION", "base/1/112"]),
        ("an etcd", &["member/wal/0.tmp", "member/snap/db"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"something").unwrap();
        }
        let refusal = refused(dir.path(), small()).to_string();
        assert!(refusal.contains("is not a data directory of orlop"), "{name}: {refusal}");
        for file in files {
            assert_eq!(fs::read(dir.path().join(file)).unwrap(), b"something", "{name}: {file}");
        }
        for ours in ["LOCK", "STORE", "journal", "high-water"] {
            assert!(!dir.path().join(ours).exists(), "{name}: {ours}");
        }
    }
    // The files that a file system keeps in its root directory do not count as foreign.
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    drop(open(dir.path()));
}

#[tokio::test]
async fn missing_or_unwritable_directory_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"text").unwrap();
    assert!(matches!(refused(&file, small()), OpenError::Io { action: "create", .. }));
    assert_eq!(fs::read(&file).unwrap(), b"text");
    assert!(matches!(refused(Path::new("/proc/orlop"), small()), OpenError::Io { action: "create", .. }));
    // A read-only medium: the error differs from that of a damaged store, and nothing is changed.
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    story(&store, 30).await;
    let wanted = records(&store);
    store.close().await;
    let fault = Fault { op: None, nth: 0, for_good: true, is_full: false };
    let options = Options { files: Arc::new(Faulty::with(fault)), ..small() };
    assert!(matches!(refused(dir.path(), options), OpenError::Io { .. }));
    assert_eq!(records(&open(dir.path())), wanted);
}

#[tokio::test]
async fn named_pipes_in_place_of_files_delay_nothing() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path());
    story(&store, 30).await;
    let wanted = records(&store);
    store.close().await;
    let replace = |path: &Path| {
        fs::rename(path, outside.path().join("good")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    };
    let segment = format!("journal/{}", names(&dir.path().join("journal"))[0]);
    for name in ["LOCK", "STORE", &*segment] {
        let path = dir.path().join(name);
        replace(&path);
        let error = format!("{:?}", refused(dir.path(), small()));
        assert!(error.contains("it is a named pipe, not a regular file"), "{name}: {error}");
        fs::rename(outside.path().join("good"), &path).unwrap();
    }
    // The served copy is created again.
    replace(&dir.path().join("sled/db"));
    assert_eq!(records(&open(dir.path())), wanted);
}

#[tokio::test]
async fn newer_formats_are_refused_with_their_number() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    story(&store, 60).await;
    store.close().await;
    let text = fs::read_to_string(dir.path().join("STORE")).unwrap();
    let id = uuid::Uuid::try_parse(text.lines().nth(2).unwrap().strip_prefix("id ").unwrap()).unwrap();
    let crc = |body: &[u8]| crc32c::crc32c_append(crc32c::crc32c(id.as_bytes()), body);
    let newer = |bytes: &[u8], format_at: usize, crc_at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[format_at] = 9;
        let sum = crc(&bytes[..crc_at]).to_le_bytes();
        bytes[crc_at..crc_at + 4].copy_from_slice(&sum);
        bytes
    };
    let segment = format!("journal/{}", names(&dir.path().join("journal"))[0]);
    let body = text.split("crc ").next().unwrap().replace(&format!("format {FORMAT}"), "format 9");
    let store_text = format!("{body}crc {:08x}\n", crc(body.as_bytes()));
    let mark = fs::read(dir.path().join("high-water")).unwrap();
    let slot = if mark[0] == 0 { 4096 } else { 0 };
    let mut newer_mark = mark.clone();
    newer_mark[slot..slot + 60].copy_from_slice(&newer(&mark[slot..slot + 60], 8, 56));
    let journal = fs::read(dir.path().join(&segment)).unwrap();
    for (file, bytes) in
        [("STORE", store_text.into_bytes()), ("high-water", newer_mark), (&*segment, newer(&journal, 8, 44))]
    {
        let good = fs::read(dir.path().join(file)).unwrap();
        fs::write(dir.path().join(file), bytes).unwrap();
        let error = refused(dir.path(), small());
        let OpenError::TooNew { path, found: 9, .. } = &error else { panic!("{file}: {error:?}") };
        assert!(path.ends_with(file), "{error}");
        fs::write(dir.path().join(file), good).unwrap();
    }
    drop(open(dir.path()));
}

#[tokio::test]
async fn newer_unusable_copy_replaces_the_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut broken = Vec::new();
    for round in 0..3 {
        let store = open(dir.path());
        story(&store, 30).await;
        let wanted = records(&store);
        store.close().await;
        fs::create_dir_all(dir.path().join("sled/blobs")).unwrap();
        fs::write(dir.path().join("sled/blobs/1"), round.to_string()).unwrap();
        let store = open(dir.path());
        assert_eq!(records(&store), wanted);
        store.close().await;
        broken = names(dir.path());
        broken.retain(|name| name.starts_with("sled.broken-"));
        assert_eq!(broken.len(), 1, "round {round}: {broken:?}");
    }
    assert_eq!(fs::read(dir.path().join(&broken[0]).join("blobs/1")).unwrap(), b"2");
}

#[tokio::test]
async fn clock_jump_keeps_time_stamps_monotonic_and_spares_the_newest_events() {
    const YEAR: i64 = 365 * 24 * 3600 * 1000;
    let start = 1_700_000_000_000;
    let clock = Arc::new(ManualClock::new(start));
    let retention = Retention { age: Duration::from_secs(3600), revisions: 200, ..Retention::default() };
    let options = Options { clock: clock.clone(), retention, retain_every: Duration::ZERO, ..small() };
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::<Sum>::open(dir.path(), options.clone()).unwrap();
    story(&store, 400).await;
    assert_eq!(store.oldest(), Revision::ZERO);
    let mut last = 0;
    for (name, jump) in
        [("back", -YEAR), ("far on", 80 * YEAR), ("back again", 1000), ("before the epoch", -start - 5)]
    {
        clock.set(start + jump);
        let revision = put_one(&store, "/r/clock", name).await;
        let stamp = store.head().get("/r/clock").unwrap().time_ms;
        assert!(stamp >= last, "{name}: {stamp} after {last}");
        last = stamp;
        fed(&store).await;
        let kept = revision.0 - store.oldest().0;
        assert!(kept >= 200, "{name}: only {kept} are kept");
    }
    while store.oldest() == Revision::ZERO {
        put_one(&store, "/r/clock", "on").await;
        clock.set(start + 80 * YEAR);
    }
    assert!(store.head().revision().0 - store.oldest().0 >= 200);
    store.close().await;
    clock.set(start);
    let store = Embedded::<Sum>::open(dir.path(), options).unwrap();
    put_one(&store, "/r/clock", "opened again").await;
    assert!(store.head().get("/r/clock").unwrap().time_ms >= last);
    let known = events(&store).await.len();
    assert!(known >= 200, "{known}");
}
