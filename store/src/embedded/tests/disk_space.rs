//! A disk that fills up: which writes are accepted then, and that the store recovers when space is free
//! again.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{events, records, small};
use crate::embedded::files::{Disk, File, Files};
use crate::testing::{Sum, delete, delete_one, put, put_one};
use crate::{CommitError, DiskSpace, Embedded, Kv, Options, Space};

/// A disk with a configurable amount of free space.
#[derive(Clone)]
struct FakeSpace(Arc<AtomicU64>);

impl FakeSpace {
    fn new(free: u64) -> Self {
        FakeSpace(Arc::new(AtomicU64::new(free)))
    }

    fn set(&self, free: u64) {
        self.0.store(free, Ordering::SeqCst);
    }
}

impl DiskSpace for FakeSpace {
    fn space(&self, _: &Path) -> io::Result<Space> {
        Ok(Space { free: self.0.load(Ordering::SeqCst), total: 1 << 40 })
    }
}

const LEAST: u64 = 8000;

fn on(disk_space: &FakeSpace) -> Options {
    Options {
        disk_space: Arc::new(disk_space.clone()),
        min_free_bytes: Some(LEAST),
        shed_first: vec!["/r/events/".into()],
        ..small()
    }
}

async fn until(what: &str, mut reached: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !reached().await {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn try_put(store: &Embedded<Sum>, key: &str, value: &str) -> Result<(), CommitError<Sum>> {
    store.commit(vec![put(store, key, value)]).await.map(drop)
}

fn is_full(result: &Result<(), CommitError<Sum>>) -> bool {
    matches!(result, Err(CommitError::Full { .. }))
}

#[tokio::test]
async fn full_disk_refuses_events_first_and_deletes_last() {
    let dir = tempfile::tempdir().unwrap();
    let disk_space = FakeSpace::new(1 << 30);
    let store = Embedded::<Sum>::open(dir.path(), on(&disk_space)).unwrap();
    for key in ["/r/p/a", "/r/p/b", "/r/p/c", "/r/events/a"] {
        put_one(&store, key, &"x".repeat(1000)).await;
    }
    disk_space.set(2 * LEAST - 1);
    until("Events are shed", async || is_full(&try_put(&store, "/r/events/b", "x").await)).await;
    assert!(is_full(&try_put(&store, "/r/events/a", "").await), "also those that get smaller");
    put_one(&store, "/r/p/d", "specs continue").await;

    disk_space.set(LEAST - 1);
    until("nothing is taken that grows", async || store.usage().full).await;
    let error = try_put(&store, "/r/p/e", "x").await.unwrap_err().to_string();
    let place = dir.path().display().to_string();
    assert!(error.contains(&format!("{} bytes are missing in {place}", LEAST / 8 + 1)), "{error}");
    assert!(is_full(&try_put(&store, "/r/p/a", &"y".repeat(2000)).await));
    put_one(&store, "/r/p/a", &"y".repeat(1000)).await;
    put_one(&store, "/r/p/a", &"y".repeat(1100)).await;
    delete_one(&store, "/r/p/b").await;
    let writes = vec![delete(&store, "/r/p/d"), put(&store, "/r/p/f", "more than has gone")];
    assert!(matches!(store.commit(writes).await, Err(CommitError::Full { .. })), "all or nothing");
    let conflict = vec![put(&store, "/r/p/a", "x"), put(&store, "/r/p/a", "x")];
    assert!(matches!(store.commit(conflict).await, Err(CommitError::Conflict { .. })), "it comes first");

    disk_space.set(LEAST / 4 - 1);
    until("only deletes", async || is_full(&try_put(&store, "/r/p/a", "z").await)).await;
    delete_one(&store, "/r/p/a").await;
    assert_eq!(store.head().range("/r/p/", None).count(), 2);

    disk_space.set(LEAST);
    until("updates again", async || try_put(&store, "/r/p/c", "z").await.is_ok()).await;
    assert!(store.usage().full, "at the border it stays");
    disk_space.set(2 * LEAST);
    until("all is well", async || try_put(&store, "/r/p/e", "x").await.is_ok()).await;
    assert!(is_full(&try_put(&store, "/r/events/b", "x").await), "Events need more");
    disk_space.set(3 * LEAST);
    until("Events too", async || try_put(&store, "/r/events/b", "x").await.is_ok()).await;
    assert_eq!(store.poisoned(), None);
    let before = (records(&store), events(&store).await);
    store.close().await;
    let store = Embedded::<Sum>::open(dir.path(), on(&disk_space)).unwrap();
    assert_eq!((records(&store), events(&store).await), before);
}

#[tokio::test]
async fn ballast_is_released_and_recreated() {
    let dir = tempfile::tempdir().unwrap();
    let ballast = dir.path().join("BALLAST");
    let disk_space = FakeSpace::new(1 << 30);
    let options = || Options { ballast_bytes: Some(1 << 20), ..on(&disk_space) };
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    put_one(&store, "/r/p/a", "x").await;
    let blocks = || crate::embedded::space::allocated_file(&ballast);
    until("it is created, with its own blocks", async || blocks() >= 1 << 20).await;

    disk_space.set(0);
    until("half of it goes", async || {
        let _ = try_put(&store, "/r/p/a", "z").await;
        blocks() == 1 << 19
    })
    .await;
    // This space is free, and reserved for its return.
    disk_space.set(1 << 19);
    until("deletes and small updates", async || try_put(&store, "/r/p/a", "y").await.is_ok()).await;
    assert!(is_full(&try_put(&store, "/r/p/c", "x").await));
    store.close().await;

    // Opening also releases the ballast on a full disk.
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    disk_space.set(0);
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    assert!(!ballast.exists());
    disk_space.set(1 << 30);
    until("it is made again", async || {
        let _ = try_put(&store, "/r/p/b", "x").await;
        ballast.exists()
    })
    .await;
    store.close().await;
}

#[tokio::test]
async fn preallocated_segment_is_removed_when_space_is_short() {
    let dir = tempfile::tempdir().unwrap();
    let next = dir.path().join("journal/next.tmp");
    let disk_space = FakeSpace::new(1 << 30);
    let store =
        Embedded::<Sum>::open(dir.path(), Options { segment_bytes: 64 << 10, ..on(&disk_space) }).unwrap();
    for round in 0..3 {
        until("a segment is prepared", async || {
            put_one(&store, "/r/p/a", &"x".repeat(5000)).await;
            crate::embedded::space::allocated_file(&next) >= 64 << 10
        })
        .await;
        // Whether the writer is accepted or not.
        disk_space.set(if round % 2 == 0 { LEAST - 1 } else { 2 * LEAST - 1 });
        until("it goes", async || {
            let _ = try_put(&store, "/r/p/b", &format!("{round} {}", "x".repeat(100 + round))).await;
            !next.exists()
        })
        .await;
        disk_space.set(1 << 30);
        until("there is room again", async || try_put(&store, "/r/p/c", "x").await.is_ok()).await;
    }
    store.close().await;
}

/// A disk that fails writes for lack of space, and may fail to undo them.
#[derive(Clone, Default)]
struct Scarce {
    full: Arc<AtomicBool>,
    stuck: Arc<AtomicBool>,
}

struct ScarceFile(Box<dyn File>, Scarce);

impl Scarce {
    fn wrap(&self, file: Box<dyn File>) -> Box<dyn File> {
        Box::new(ScarceFile(file, self.clone()))
    }
}

impl Files for Scarce {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Disk.create_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Disk.list(path)
    }
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Disk.read(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(self.wrap(Disk.create(path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(self.wrap(Disk.open(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Disk.sync_dir(path)
    }
}

impl File for ScarceFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.1.full.load(Ordering::SeqCst) {
            self.0.append(&bytes[..bytes.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.append(bytes)
    }
    // As on a copy-on-write file system, which needs space to overwrite zeros.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.1.full.load(Ordering::SeqCst) {
            self.0.write_at(offset, &bytes[..bytes.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.write_at(offset, bytes)
    }
    fn allocate(&mut self, length: u64) -> io::Result<()> {
        if self.1.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.allocate(length)
    }
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.1.stuck.load(Ordering::SeqCst) {
            return Err(io::Error::other("stuck"));
        }
        self.0.truncate(length)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}

#[tokio::test]
async fn group_refused_by_a_full_disk_is_reverted() {
    let dir = tempfile::tempdir().unwrap();
    let files = Scarce::default();
    // Segments are small, so that the failure also hits the creation of one.
    let options = || Options { files: Arc::new(files.clone()), segment_bytes: 600, ..small() };
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    for n in 0..40 {
        let before = store.head().revision();
        let (key, value) = (format!("/r/p/{n}"), "x".repeat(100));
        until("it continues on its own", async || try_put(&store, &key, &value).await.is_ok()).await;
        files.full.store(true, Ordering::SeqCst);
        assert!(is_full(&try_put(&store, "/r/p/refused", "x").await), "{n}");
        files.full.store(false, Ordering::SeqCst);
        assert_eq!(store.head().revision(), before.next(), "{n}: nothing of it is seen");
    }
    store.close().await;
    drop(store);
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    assert_eq!(records(&store).len(), 40);
    store.close().await;
    drop(store);
    // Not at a segment boundary: a segment that could not be created can be removed.
    stuck(dir.path(), &files, Options { segment_bytes: 1 << 20, ..options() }).await;
}

/// A write that cannot be undone has an unknown outcome.
async fn stuck(dir: &Path, files: &Scarce, options: Options) {
    let store = Embedded::<Sum>::open(dir, options.clone()).unwrap();
    let before = records(&store);
    files.full.store(true, Ordering::SeqCst);
    files.stuck.store(true, Ordering::SeqCst);
    assert!(matches!(try_put(&store, "/r/p/a", "x").await, Err(CommitError::Poisoned(_))));
    files.full.store(false, Ordering::SeqCst);
    files.stuck.store(false, Ordering::SeqCst);
    assert!(matches!(try_put(&store, "/r/p/a", "x").await, Err(CommitError::Poisoned(_))));
    store.close().await;
    let store = Embedded::<Sum>::open(dir, options).unwrap();
    assert_eq!(records(&store), before);
}

/// A small file system of its own, which only the superuser can create.
struct Mount(tempfile::TempDir);

impl Mount {
    /// `None` where it cannot be created: the test then prints a message, or fails when ORLOP_REQUIRE_LOOP is
    /// set.
    fn new(megabytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "orlop-test"]).arg(dir.path()).output();
        if mount.is_ok_and(|mount| mount.status.success()) {
            return Some(Mount(dir));
        }
        assert!(std::env::var_os("ORLOP_REQUIRE_LOOP").is_none(), "a tmpfs cannot be mounted");
        // The test harness hides the output of a test that passes.
        let _ = io::Write::write_all(
            &mut io::stderr(),
            b"\nSKIPPED: a disk that is really full: a tmpfs can only be mounted by the superuser. \
              ORLOP_REQUIRE_LOOP=1 makes this a failure\n",
        );
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Another program fills the disk completely, repeatedly, during writes: journal and served copy both run
/// out of space. Nothing is restarted.
#[tokio::test(flavor = "multi_thread")]
async fn store_recovers_from_a_completely_full_disk() {
    let Some(mount) = Mount::new(48) else { return };
    let dir = mount.0.path().join("store");
    let filler = mount.0.path().join("filler");
    // No thresholds, so that the file system itself fails the writes.
    let options = || Options {
        min_free_bytes: Some(0),
        snapshot_bytes: 1 << 20,
        segment_bytes: 256 << 10,
        backlog_bytes: 2 << 20,
        retention: crate::Retention { age: Duration::ZERO, revisions: 100, bytes: 1 << 20 },
        clock: Arc::new(crate::SystemClock::default()),
        ..small()
    };
    let store = Embedded::<Sum>::open(&dir, options()).unwrap();
    let mut refused = 0;
    for round in 0..4 {
        let value = |n: usize| format!("{round} {n} {}", "x".repeat(10_000));
        fill(&filler);
        for n in 0..300 {
            match try_put(&store, &format!("/r/p/{}", n % 20), &value(n)).await {
                Ok(()) => {}
                Err(CommitError::Full { .. }) => refused += 1,
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        let seen = records(&store);
        std::fs::remove_file(&filler).unwrap();
        until("writes are taken again", async || try_put(&store, "/r/p/again", &value(0)).await.is_ok())
            .await;
        until("the served copy continues", async || {
            store.past.backlog.poke();
            store.past.backlog.floor() == store.head().revision()
        })
        .await;
        assert_eq!(store.poisoned(), None);
        assert_eq!(records(&store).len(), seen.len() + usize::from(round == 0), "round {round}");
    }
    assert!(refused > 100, "{refused}");
    let before = records(&store);
    let past = events(&store).await;
    assert!(!past.is_empty());
    store.close().await;
    let store = Embedded::<Sum>::open(&dir, options()).unwrap();
    assert_eq!(records(&store), before);
}

/// The served copy is out of space, so it does not get the events that make versions former ones.
#[tokio::test(flavor = "multi_thread")]
async fn former_versions_are_hidden_while_the_served_copy_waits_for_space() {
    let Some(mount) = Mount::new(48) else { return };
    let filler = mount.0.path().join("filler");
    let clock = Arc::new(crate::ManualClock::new(1_700_000_000_000));
    let sensitive =
        crate::Sensitive { prefixes: vec!["/r/secrets/".to_owned()], ..crate::Sensitive::default() };
    let options = Options {
        min_free_bytes: Some(0),
        segment_bytes: 32 << 20,
        snapshot_bytes: 32 << 20,
        backlog_bytes: 1 << 20,
        clock: clock.clone(),
        sensitive,
        ..small()
    };
    let store = Embedded::<Sum>::open(mount.0.path().join("store"), options).unwrap();
    let first = put_one(&store, "/r/secrets/a", "first").await;
    super::fed(&store).await;
    // The journal has a preallocated segment; sled has nothing.
    until("a segment is preallocated", async || {
        let _ = try_put(&store, "/r/p/a", &"x".repeat(100_000)).await;
        names_end_with(&mount.0.path().join("store/journal"), "next.tmp")
    })
    .await;
    super::fed(&store).await;
    fill(&filler);
    let replaced = put_one(&store, "/r/secrets/a", "second").await;
    for n in 0.. {
        assert!(n < 1000, "the copy is never out of space");
        let noise: String =
            (0..2000).map(|at| char::from(b'a' + ((n * 7919 + at * at * 31) % 26) as u8)).collect();
        if try_put(&store, &format!("/r/p/{n}"), &noise.repeat(10)).await.is_err() {
            break;
        }
    }
    assert!(store.past.backlog.floor() < replaced, "the copy has not got the event");
    assert_eq!(store.at(first, "/r/secrets/").await.unwrap().get("/r/secrets/a").unwrap().value, "first");
    clock.set(1_700_000_000_000 + 60_000);
    until("it is hidden", async || store.past.former.floor() >= replaced).await;
    assert!(store.at(first, "/r/secrets/").await.is_err());
    std::fs::remove_file(&filler).unwrap();
    store.close().await;
}

fn names_end_with(dir: &Path, name: &str) -> bool {
    super::names(dir).iter().any(|found| found == name)
}

fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        if io::Write::write_all(&mut file, &vec![1; size]).is_err() {
            size /= 2;
        }
    }
}
