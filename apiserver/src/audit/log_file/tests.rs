//! Tests of rotation, with a manual clock and injected errors.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use tempfile::TempDir;

use super::*;
use crate::audit::log::Log;
use crate::audit::queue::Queue;
use crate::audit::queued::testing::queued;
use crate::audit::sink::Backend as _;

const DAY: i64 = 86_400;

fn here(work: Box<dyn FnOnce() + Send>) {
    work();
}

/// Which operations fail.
#[derive(Default)]
struct Faults {
    /// The next appends write half of their bytes and fail.
    appends: AtomicUsize,
    truncates: AtomicUsize,
    renames: AtomicUsize,
}

impl Faults {
    fn hits(count: &AtomicUsize) -> bool {
        count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

struct FaultyDir {
    dir: RealDir,
    faults: Arc<Faults>,
}

struct FaultyFile {
    file: Box<dyn LogFile>,
    faults: Arc<Faults>,
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl LogFile for FaultyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if Faults::hits(&self.faults.appends) {
            self.file.append(&bytes[..bytes.len() / 2])?;
            return Err(full());
        }
        self.file.append(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if Faults::hits(&self.faults.truncates) {
            return Err(full());
        }
        self.file.truncate(length)
    }
}

impl LogDir for FaultyDir {
    fn open(&self, name: &str) -> io::Result<OpenedFile> {
        let opened = self.dir.open(name)?;
        Ok(OpenedFile {
            file: Box::new(FaultyFile { file: opened.file, faults: self.faults.clone() }),
            ..opened
        })
    }

    fn exists(&self, name: &str) -> bool {
        self.dir.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if Faults::hits(&self.faults.renames) {
            return Err(full());
        }
        self.dir.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.dir.remove(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.dir.names()
    }

    fn compress(&self, from: &str, to: &str) -> io::Result<()> {
        self.dir.compress(from, to)
    }
}

struct Rig {
    dir: TempDir,
    now: Arc<AtomicI64>,
    faults: Arc<Faults>,
}

impl Rig {
    fn new() -> Self {
        // 2026-01-02T00:00:00Z
        let now = Arc::new(AtomicI64::new(1_767_312_000));
        Rig { dir: tempfile::tempdir().unwrap(), now, faults: Arc::default() }
    }

    fn open(&self, rotation: Rotation) -> RotatingFile {
        let (dir, name) = RealDir::of(&self.dir.path().join("audit.log")).unwrap();
        let dir = Arc::new(FaultyDir { dir, faults: self.faults.clone() });
        let now = self.now.clone();
        let clock: Clock = Arc::new(move || Timestamp::from_second(now.load(Ordering::SeqCst)).unwrap());
        RotatingFile::open(dir, &name, rotation, clock, here).unwrap()
    }

    fn pass(&self, seconds: i64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("audit.log")).unwrap()
    }
}

fn rotation(max_bytes: u64, max_backups: usize, days: u64, compress: bool) -> Rotation {
    Rotation { max_bytes, max_backups, max_age: Duration::from_secs(days * 86_400), compress }
}

#[test]
fn full_file_is_replaced_and_old_files_are_removed() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new();
    let mut file = rig.open(rotation(10, 2, 7, false));
    for line in ["one\n", "two\n", "three\n", "four\n", "five\n", "sixth\n"] {
        file.append(line.as_bytes()).unwrap();
        rig.pass(1);
    }
    assert_eq!(
        rig.names(),
        ["audit-2026-01-02T00-00-03.000.log", "audit-2026-01-02T00-00-05.000.log", "audit.log"]
    );
    assert_eq!(rig.text(), "sixth\n");
    let mode = std::fs::metadata(rig.dir.path().join("audit.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // No file is replaced, and the older ones expire.
    rig.pass(8 * DAY);
    file.append(b"7\n").unwrap();
    assert_eq!(rig.names(), ["audit.log"]);
    // A line that is longer than a file has one of its own.
    file.append(b"longer than a file\n").unwrap();
    file.append(b"8\n").unwrap();
    assert_eq!((rig.names().len(), rig.text().as_str()), (3, "8\n"));
}

#[test]
fn backups_of_one_moment_have_different_names_and_may_be_compressed() {
    let rig = Rig::new();
    let mut file = rig.open(rotation(4, 0, 0, true));
    for _ in 0..3 {
        file.append(b"one\n").unwrap();
    }
    assert_eq!(
        rig.names(),
        ["audit-2026-01-02T00-00-00.000.log.gz", "audit-2026-01-02T00-00-00.001.log.gz", "audit.log"]
    );
    let bytes = std::fs::read(rig.dir.path().join("audit-2026-01-02T00-00-00.000.log.gz")).unwrap();
    let mut text = String::new();
    io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text).unwrap();
    assert_eq!(text, "one\n");
}

#[test]
fn failed_write_leaves_no_part_of_a_line() {
    let rig = Rig::new();
    let mut file = rig.open(rotation(0, 0, 0, false));
    file.append(b"one\n").unwrap();
    rig.faults.appends.store(1, Ordering::SeqCst);
    assert!(file.append(b"lost\n").is_err());
    file.append(b"two\n").unwrap();
    assert_eq!(rig.text(), "one\ntwo\n");
    // The part of the line cannot be removed either: the next line is separate.
    rig.faults.appends.store(1, Ordering::SeqCst);
    rig.faults.truncates.store(1, Ordering::SeqCst);
    assert!(file.append(b"lost\n").is_err());
    file.append(b"three\n").unwrap();
    assert_eq!(rig.text(), "one\ntwo\nlo\nthree\n");
}

#[test]
fn file_that_cannot_be_replaced_grows() {
    let rig = Rig::new();
    let mut file = rig.open(rotation(4, 1, 0, false));
    rig.faults.renames.store(1, Ordering::SeqCst);
    file.append(b"one\n").unwrap();
    file.append(b"two\n").unwrap();
    assert_eq!((rig.names().len(), rig.text().as_str()), (1, "one\ntwo\n"));
    file.append(b"three\n").unwrap();
    assert_eq!((rig.names().len(), rig.text().as_str()), (2, "three\n"));
}

#[test]
fn restart_continues_the_file() {
    let rig = Rig::new();
    std::fs::write(rig.dir.path().join("audit.log"), "torn").unwrap();
    let mut file = rig.open(rotation(100, 1, 0, false));
    file.append(b"one\n").unwrap();
    assert_eq!(rig.text(), "torn\none\n");
    drop(file);
    rig.open(rotation(100, 1, 0, false)).append(b"two\n").unwrap();
    assert_eq!(rig.text(), "torn\none\ntwo\n");
}

#[test]
fn failures_are_counted_by_event() {
    let rig = Rig::new();
    let mut log = Log::on(rig.open(rotation(0, 0, 0, false)));
    let queue = Queue::new(1, 1);
    rig.faults.appends.store(1, Ordering::SeqCst);
    let failure = log.write(&[&queued(), &queued()], &queue).unwrap_err();
    assert_eq!(failure.count, 2);
    log.write(&[&queued(), &queued(), &queued()], &queue).unwrap();
    let lines: Vec<serde_json::Value> =
        rig.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["kind"]), (3, &serde_json::json!("Event")));
}
