//! The steps of an erasure: their bounds, their failures, and what a restart between them leaves.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use super::sensitive::{MAP, SECRET, START_MS, files_with, gone, marker, options, search, write};
use super::{names, records, scratch, small};
use crate::embedded::feed::{ErasedRows, ErasureMarks, Feeder};
use crate::embedded::files::{Disk, File, Files};
use crate::embedded::frame::StoreId;
use crate::embedded::retention::RetentionMarks;
use crate::embedded::sled::Served;
use crate::embedded::{disk_space, purge, read, snapshot, verify};
use crate::testing::{Sum, put_one};
use crate::transform::Transform;
use crate::{Embedded, Event, Key, Kv, ManualClock, Options, Record, Revision, Sensitive, Space, Stored};

/// The pause after a failed step.
pub(super) const PAUSE_MS: i64 = 600_000;

/// The real file system, of which some operations fail, and a disk with a configurable amount of free space.
#[derive(Clone, Default)]
struct Machine(Arc<Mutex<MachineState>>, Arc<AtomicU64>);

#[derive(Default)]
struct MachineState {
    /// Reads from the disk find damaged snapshots.
    is_damaged: bool,
    /// Files with this in their name cannot be removed.
    stuck: Option<String>,
    /// The number of failed removals.
    refused: usize,
    /// The thread that read each snapshot, and whether it read it from the disk.
    reads: Vec<(String, bool)>,
    /// The bytes that are not free.
    used: u64,
}

impl Machine {
    fn state(&self) -> parking_lot::MutexGuard<'_, MachineState> {
        self.0.lock()
    }

    fn note_read(&self, path: &Path, is_from_disk: bool) {
        if path.to_string_lossy().contains(".snap") {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            self.state().reads.push((thread, is_from_disk));
        }
    }

    /// Waits until the upkeep thread has finished at least one round that began after this call.
    async fn round(&self) {
        let wanted = self.1.load(Ordering::SeqCst) + 3;
        until(|| self.1.load(Ordering::SeqCst) >= wanted).await;
    }
}

pub(super) async fn until(reached: impl Fn() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < Duration::from_secs(60), "it takes too long");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Files for Machine {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Disk.create_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Disk.list(path)
    }
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Disk.read(path)
    }
    fn reader(&self, path: &Path) -> io::Result<Option<Box<dyn io::Read>>> {
        self.note_read(path, false);
        Disk.reader(path)
    }
    fn reader_from_disk(&self, path: &Path) -> io::Result<Option<Box<dyn io::Read>>> {
        self.note_read(path, true);
        if !self.state().is_damaged {
            return Disk.reader_from_disk(path);
        }
        let mut bytes = Disk.read(path)?.unwrap_or_default();
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        Ok(Some(Box::new(io::Cursor::new(bytes))))
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Disk.create(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Disk.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.stuck.as_ref().is_some_and(|name| path.to_string_lossy().contains(name)) {
            state.refused += 1;
            return Err(io::Error::other("made to fail"));
        }
        Disk.remove(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Disk.sync_dir(path)
    }
}

impl disk_space::DiskSpace for Machine {
    fn space(&self, _: &Path) -> io::Result<Space> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(Space { free: (1 << 30) - self.state().used, total: 1 << 40 })
    }
}

fn on(machine: &Machine, clock: &Arc<ManualClock>) -> Options {
    Options {
        files: Arc::new(machine.clone()),
        disk_space: Arc::new(machine.clone()),
        min_free_bytes: Some(1 << 20),
        ..options(clock)
    }
}

/// A store whose files contain former versions, by an earlier version of the program.
async fn with_former_versions() -> tempfile::TempDir {
    let dir = scratch();
    let store = Embedded::<Sum>::open(dir.path(), Options { snapshot_bytes: 64, ..small() }).unwrap();
    write(&store).await;
    store.close().await;
    assert!(!files_with(dir.path(), &marker("first")).is_empty());
    dir
}

/// The clock at a time when all versions written by [`with_former_versions`] are due.
fn late() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(START_MS + 60_000))
}

fn is_erased(dir: &Path) -> bool {
    search(dir, &marker("first")).is_ok_and(|found| found.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_is_read_back_from_the_disk_by_the_thread_that_wrote_it() {
    let (dir, machine, clock) = (with_former_versions().await, Machine::default(), late());
    let store = Embedded::<Sum>::open(dir.path(), on(&machine, &clock)).unwrap();
    gone(dir.path(), &marker("first")).await;
    store.close().await;
    assert_eq!(machine.state().reads, [("store-snapshot".to_owned(), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_step_is_repeated_alone_after_a_pause() {
    let (dir, machine, clock) = (with_former_versions().await, Machine::default(), late());
    machine.state().is_damaged = true;
    let [journal, snapshots] = ["journal", "snapshot"].map(|name| dir.path().join(name));
    let before = names(&snapshots);
    let store = Embedded::<Sum>::open(dir.path(), on(&machine, &clock)).unwrap();
    let wanted = records(&store);
    until(|| !machine.state().reads.is_empty()).await;
    machine.round().await;
    let segments = names(&journal);
    assert_eq!(names(&snapshots), before, "the damaged snapshot has no name, and no other one is removed");
    // It is not repeated before the pause is over.
    machine.state().is_damaged = false;
    clock.set(START_MS + 60_000 + PAUSE_MS - 1);
    machine.round().await;
    assert_eq!(machine.state().reads.len(), 1);
    clock.set(START_MS + 60_000 + PAUSE_MS);
    gone(dir.path(), &marker("first")).await;
    assert_eq!(machine.state().reads.len(), 2);
    assert_eq!(names(&journal).last(), segments.last(), "no other segment was started");
    assert_eq!(records(&store), wanted);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_waits_for_free_space_before_its_first_step() {
    let (dir, machine, clock) = (with_former_versions().await, Machine::default(), late());
    // The reserve is free, and hardly more.
    machine.state().used = (1 << 30) - (1 << 20) - 100;
    let files = || ["journal", "snapshot", ""].map(|name| names(&dir.path().join(name)));
    let store = Embedded::<Sum>::open(dir.path(), on(&machine, &clock)).unwrap();
    let before = files();
    until(|| store.past.former.floor() > Revision::ZERO).await;
    for more_ms in [0, PAUSE_MS - 1] {
        clock.set(START_MS + 60_000 + more_ms);
        machine.round().await;
        assert_eq!(files(), before, "after {more_ms} ms");
        machine.state().used = 0;
    }
    clock.set(START_MS + 60_000 + PAUSE_MS);
    gone(dir.path(), &marker("first")).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_an_earlier_attempt_left_are_removed_or_the_erasure_does_not_end() {
    let (dir, machine, clock) = (with_former_versions().await, Machine::default(), late());
    let store = Embedded::<Sum>::open(dir.path(), on(&machine, &clock)).unwrap();
    gone(dir.path(), &marker("first")).await;
    // The store does not know these files: removing them has failed, and the program was not restarted since.
    let leave = |name: &str| {
        let path = dir.path().join("snapshot").join(name);
        std::fs::write(&path, marker("first")).unwrap();
        path
    };
    let left: Vec<PathBuf> =
        ["00000000000000000001.snap", "00000000000000000002.snap.tmp", "00000000000000000003.snap-broken"]
            .map(leave)
            .into();
    machine.state().stuck = Some("00000000000000000001.snap".to_owned());
    put_one(&store, SECRET, &marker("newest")).await;
    clock.set(START_MS + 120_000);
    until(|| machine.state().refused > 0).await;
    machine.round().await;
    assert!(left[0].exists());
    let copies = names(dir.path());
    assert!(!copies.iter().any(|name| name == "sled.next"), "the next step has not begun: {copies:?}");
    machine.state().stuck = None;
    clock.set(START_MS + 120_000 + PAUSE_MS);
    gone(dir.path(), &marker("first")).await;
    gone(dir.path(), &marker("current")).await;
    assert!(!left.iter().any(|path| path.exists()));
    store.close().await;
    drop(store);
    // Offline too.
    leave("00000000000000000001.snap");
    machine.state().stuck = Some("00000000000000000001.snap".to_owned());
    let with = || Options { files: Arc::new(machine.clone()), ..small() };
    let error = purge(dir.path(), &Key::from(SECRET), &with()).unwrap_err();
    assert!(error.to_string().contains("remove old snapshots"), "{error}");
    machine.state().stuck = None;
    purge(dir.path(), &Key::from(SECRET), &with()).unwrap();
    assert!(is_erased(dir.path()));
}

/// The retention compacts the event that made a version a former one before the version is erased, and the store restarts.
#[tokio::test(flavor = "multi_thread")]
async fn version_that_compaction_has_forgotten_is_erased_after_a_restart() {
    let (dir, clock) = (scratch(), Arc::new(ManualClock::new(START_MS)));
    let store = Embedded::<Sum>::open(dir.path(), options(&clock)).unwrap();
    // A first erasure, after which the store no longer suspects unknown versions.
    put_one(&store, SECRET, &marker("zero")).await;
    put_one(&store, SECRET, &marker("first")).await;
    clock.set(START_MS + 60_000);
    gone(dir.path(), &marker("zero")).await;
    put_one(&store, SECRET, &marker("second")).await;
    let head = put_one(&store, MAP, "map").await;
    store.compact(head).await.unwrap();
    store.close().await;
    drop(store);
    assert!(!is_erased(dir.path()), "it is in the journal");
    let store = Embedded::<Sum>::open(dir.path(), options(&clock)).unwrap();
    gone(dir.path(), &marker("first")).await;
    assert_eq!(store.head().get(SECRET).unwrap().value, marker("second"));
    store.close().await;
}

/// An unusable served copy stays as long as the log has announced.
#[tokio::test(flavor = "multi_thread")]
async fn copy_that_was_set_aside_stays_for_the_interval() {
    let (dir, machine, clock) = (with_former_versions().await, Machine::default(), late());
    std::fs::create_dir_all(dir.path().join("sled/blobs")).unwrap();
    std::fs::write(dir.path().join("sled/blobs/1"), "x").unwrap();
    let open = || {
        let mut options = on(&machine, &clock);
        options.sensitive.erase_every = Duration::from_secs(600);
        Embedded::<Sum>::open(dir.path(), options).unwrap()
    };
    let has_copy = || names(dir.path()).iter().any(|name| name.starts_with("sled.broken-"));
    let store = open();
    assert!(has_copy());
    for passed_ms in [0, 300_000, 599_000] {
        clock.set(START_MS + 60_000 + passed_ms);
        machine.round().await;
        assert!(has_copy(), "after {passed_ms} ms");
    }
    store.close().await;
    drop(store);
    // A restart does not start the interval again.
    let store = open();
    machine.round().await;
    assert!(has_copy());
    clock.set(START_MS + 60_000 + 600_000);
    gone(dir.path(), &marker("first")).await;
    assert!(!has_copy());
    store.close().await;
}

/// The value and the stored form of a version.
type VersionOf<'a> = &'a dyn Fn(&Key, u64) -> (Bytes, Stored);

/// A version without encryption.
fn plain(_: &Key, revision: u64) -> (Bytes, Stored) {
    (format!("value {revision}").into(), Stored::Plain)
}

/// The copy of a store with this many versions of one Secret.
pub(super) fn feeder_of(dir: &Path, versions: u64, sensitive: &Sensitive, version: VersionOf<'_>) -> Feeder {
    let served = Arc::new(Served::open(&dir.join("sled"), Duration::ZERO).unwrap());
    let (store, zero) = (StoreId::new(), Revision::ZERO);
    let marks = ErasureMarks::new(sensitive);
    let mut feeder = Feeder::new(served, store, zero, 0, zero, RetentionMarks::default(), marks);
    let mut newest = None;
    let events: Vec<_> = (1..=versions)
        .map(|revision| {
            let (value, stored) = version(&Key::from(SECRET), revision);
            let record = Some(Arc::new(Record {
                key: Key::from(SECRET),
                value,
                stored,
                view: (),
                create_revision: Revision(1),
                mod_revision: Revision(revision),
                time_ms: 0,
            }));
            let prev = std::mem::replace(&mut newest, record.clone());
            let (revision, key) = (Revision(revision), Key::from(SECRET));
            Arc::new(Event { revision, key, time_ms: 0, record, prev })
        })
        .collect();
    feeder.feed(&events).unwrap();
    feeder
}

const VERSIONS: u64 = 2500;

pub(super) fn secrets() -> Sensitive {
    Sensitive { prefixes: vec!["/r/secrets/".to_owned()], ..Sensitive::default() }
}

#[test]
fn rows_are_erased_in_bounded_steps() {
    let dir = scratch();
    let mut feeder = feeder_of(dir.path(), VERSIONS, &secrets(), &plain);
    let mut steps = vec![Revision::ZERO];
    while feeder.erase(&Transform::default(), Revision(VERSIONS)).unwrap() == ErasedRows::Part {
        steps.push(feeder.erasure.rows);
        assert_eq!(feeder.erasure.former.through(feeder.erasure.rows).count(), 0);
    }
    steps.push(feeder.erasure.rows);
    assert_eq!(steps.last(), Some(&Revision(VERSIONS)));
    assert!(steps.windows(2).all(|step| step[0] < step[1] && step[1].0 - step[0].0 <= 1001), "{steps:?}");
    for row in read::log(feeder.served(), feeder.store(), Revision(1), Revision(VERSIONS)) {
        let row = row.unwrap();
        assert_eq!(row.is_erased, row.revision < Revision(VERSIONS), "{}", row.revision);
    }
}

/// A restart in the middle of a compaction finds every event that made a version a former one: `rows` covers the removed ones.
#[test]
fn interrupted_compaction_forgets_no_former_version() {
    let dir = scratch();
    let mut feeder = feeder_of(dir.path(), VERSIONS, &secrets(), &plain);
    assert!(feeder.sweep(Revision(VERSIONS)).unwrap(), "more remains");
    let swept = feeder.swept;
    assert!(swept > Revision(1) && swept < Revision(VERSIONS));
    let loaded = verify::load::<()>(feeder.served(), feeder.store(), &Transform::default(), &secrets());
    let erasure = loaded.unwrap().unwrap().erasure;
    assert_eq!(erasure.rows, swept);
    let marks: Vec<_> = erasure.former.through(Revision(VERSIONS)).collect();
    assert_eq!(marks, (swept.0 + 1..=VERSIONS).map(Revision).collect::<Vec<_>>());
}

#[test]
fn snapshot_of_another_revision_is_no_proof() {
    let dir = scratch();
    let index = crate::snapshot::Index::<()>::new();
    let (store, at) = (StoreId::new(), (Revision(5), 0));
    snapshot::write(&Disk, dir.path(), store, at, &index, snapshot::ReadBack::Require).unwrap();
    let path = snapshot::path_of(dir.path(), Revision(5));
    assert_eq!(snapshot::verify(&Disk, &path, store, Revision(5)), Ok(0));
    assert!(snapshot::verify(&Disk, &path, store, Revision(6)).is_err());
    assert!(snapshot::verify(&Disk, &path, StoreId::new(), Revision(5)).is_err());
}
