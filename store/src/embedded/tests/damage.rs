//! Damaged files: which are repaired or rebuilt, and which prevent the start.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{events, fed, flip, names, one_snapshot, open, records, small, story};
use crate::embedded::frame::FORMAT;
use crate::testing::faulty::{Fault, Faulty, Op};
use crate::testing::{Sum, put, put_one};
use crate::{Embedded, Kv, OpenError, Options, Revision};

struct Made {
    dir: tempfile::TempDir,
    records: Vec<String>,
    events: Vec<String>,
}

impl Made {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn segments(&self) -> Vec<PathBuf> {
        names(&self.path().join("journal"))
            .iter()
            .map(|name| self.path().join("journal").join(name))
            .collect()
    }

    fn snapshots(&self) -> Vec<PathBuf> {
        names(&self.path().join("snapshot"))
            .iter()
            .map(|name| self.path().join("snapshot").join(name))
            .collect()
    }

    /// The only segment, and the end of its frames.
    fn end(&self) -> (PathBuf, usize) {
        let path = self.segments().pop().unwrap();
        let end = super::super::files::without_zeros(&fs::read(&path).unwrap());
        (path, end)
    }

    /// Removes bytes from the end of the journal: from the last frame, or from the file itself.
    fn cut(&self, bytes: usize, with_the_file: bool) {
        let (path, end) = self.end();
        let mut all = fs::read(&path).unwrap();
        all[end - bytes..end].fill(0);
        if with_the_file {
            all.truncate(end - bytes);
        }
        fs::write(path, all).unwrap();
    }

    fn broken(&self) -> usize {
        names(self.path()).iter().filter(|name| name.starts_with("sled.broken-")).count()
    }

    /// Opens the store, and checks that every acknowledged write is there and that it accepts writes.
    async fn check(&self, name: &str) {
        let store = open(self.path());
        assert_eq!(records(&store), self.records, "{name}");
        let events = events(&store).await;
        assert!(self.events.ends_with(&events), "{name}: what is known of the past is right");
        let head = store.head().revision();
        assert_eq!(put_one(&store, "/r/p/new", "1").await, head.next(), "{name}");
        store.close().await;
    }

    fn refused(&self, name: &str) -> String {
        match Embedded::<Sum>::open(self.path(), small()) {
            Err(error @ (OpenError::Damaged { .. } | OpenError::Foreign { .. })) => error.to_string(),
            Err(error) => panic!("{name}: {error:?}"),
            Ok(_) => panic!("{name}: was opened"),
        }
    }
}

/// A closed store with a history.
async fn made(options: Options, revisions: u64) -> Made {
    let dir = super::scratch();
    let store = Embedded::open(dir.path(), options).unwrap();
    story(&store, revisions).await;
    let made = Made { records: records(&store), events: events(&store).await, dir };
    store.close().await;
    made
}

/// A store with two snapshots, whose journal no longer reaches back to the start.
async fn covered() -> Made {
    let made = made(small(), 80).await;
    let store = open(made.path());
    story(&store, 70).await;
    let made = Made { records: records(&store), events: events(&store).await, ..made };
    store.close().await;
    assert_eq!(made.snapshots().len(), 2, "{:?}", made.snapshots());
    assert!(made.segments()[0] > made.path().join("journal/00000000000000000002"));
    made
}

/// One segment and no snapshots: only the journal and sled.
fn plain() -> Options {
    Options { segment_bytes: 1 << 30, snapshot_bytes: 1 << 30, ..small() }
}

#[tokio::test]
async fn torn_ends_are_truncated() {
    for (name, garbage) in [
        ("a few bytes", vec![7; 5]),
        ("zeros", vec![0; 4096]),
        ("half a frame", b"GRUP\x10\x00\x00\x00abcdefgh".to_vec()),
        ("noise", (0..9000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
    ] {
        for behind in ["the last frame", "the file"] {
            let made = made(plain(), 20).await;
            let (path, end) = made.end();
            let mut bytes = fs::read(&path).unwrap();
            let end = if behind == "the file" { bytes.len() } else { end };
            bytes.resize(bytes.len().max(end + garbage.len()), 0);
            bytes[end..end + garbage.len()].copy_from_slice(&garbage);
            fs::write(path, bytes).unwrap();
            drop(open(made.path()));
            made.check(&format!("{name} behind {behind}")).await;
        }
    }
}

#[tokio::test]
async fn truncated_last_group_is_restored_from_the_served_copy() {
    for (cut, with_the_file) in [(1, true), (40, false), (150, true), (150, false)] {
        let made = made(plain(), 20).await;
        made.cut(cut, with_the_file);
        made.check(&format!("{cut} bytes")).await;
    }
}

/// Restoring the end needs disk space and may fail. That is not damage, and it can be retried.
#[tokio::test]
async fn restoring_a_truncated_group_waits_for_disk_space() {
    for is_full in [true, false] {
        for op in [Op::Write, Op::Sync] {
            let made = made(plain(), 20).await;
            made.cut(150, false);
            let mut refusals = 0;
            for nth in 0..20 {
                let files = Faulty::with(Fault { op: Some(op), nth, for_good: true, is_full });
                match Embedded::<Sum>::open(made.path(), Options { files: Arc::new(files), ..plain() }) {
                    Err(OpenError::Io { .. }) => refusals += 1,
                    Err(error) => panic!("{op:?} {nth}: {error}"),
                    Ok(store) => {
                        store.close().await;
                        break;
                    }
                }
            }
            assert!(refusals >= 2, "{op:?}: {refusals}");
            made.check(&format!("{op:?}, full: {is_full}")).await;
        }
    }
}

#[tokio::test]
async fn truncated_group_absent_from_the_served_copy_counts_as_unacknowledged() {
    let made = made(plain(), 20).await;
    made.cut(1, false);
    fs::remove_dir_all(made.path().join("sled")).unwrap();
    // As if the power had failed before the mark was written.
    fs::remove_file(made.path().join("high-water")).unwrap();
    let store = open(made.path());
    assert_eq!(store.head().revision(), Revision(19));
    assert_eq!(events(&store).await, made.events[..19]);
}

#[tokio::test]
async fn damage_in_the_middle_is_refused() {
    let made = made(plain(), 20).await;
    let path = &made.segments()[0];
    for at in [50, 90, 1000, 2000] {
        flip(path, at);
        let refusal = made.refused("a frame");
        assert!(refusal.contains("is not readable at byte") && refusal.contains("00000001.wal"), "{refusal}");
        flip(path, at);
    }
    made.check("as it was").await;
}

#[tokio::test]
async fn damaged_older_segment_is_refused_and_can_be_removed() {
    let made = made(Options { snapshot_bytes: 1 << 30, ..small() }, 100).await;
    let segments = made.segments();
    assert!(segments.len() > 3);
    let length = super::super::files::without_zeros(&fs::read(&segments[1]).unwrap());
    flip(&segments[1], length - 1);
    let refusal = made.refused("the end of an older segment");
    assert!(refusal.contains(&*segments[1].file_name().unwrap().to_string_lossy()), "{refusal}");
    // The fix that the message names.
    fs::remove_file(&segments[0]).unwrap();
    fs::remove_file(&segments[1]).unwrap();
    made.check("without the older segments").await;
}

#[tokio::test]
async fn a_missing_segment_is_refused() {
    let made = made(Options { snapshot_bytes: 1 << 30, ..small() }, 100).await;
    let segment = &made.segments()[1];
    let bytes = fs::read(segment).unwrap();
    fs::remove_file(segment).unwrap();
    assert!(made.refused("a segment").contains("one is missing"));
    fs::write(segment, bytes).unwrap();
    made.check("as it was").await;
}

#[tokio::test]
async fn interrupted_rotation_is_discarded() {
    for (name, bytes) in [("nothing", &b""[..]), ("half a header", b"ORLOPJNL\x01\x00")] {
        let made = made(plain(), 20).await;
        fs::write(made.path().join("journal/00000000000000000021.wal"), bytes).unwrap();
        made.check(name).await;
        assert_eq!(made.segments().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn segment_format_and_store_id_are_checked() {
    let made = made(plain(), 20).await;
    let path = made.segments()[0].clone();
    flip(&path, 33);
    drop(open(made.path()));
    flip(&path, 33);
    // A newer format, with a valid checksum.
    let good = fs::read(&path).unwrap();
    let mut newer = good.clone();
    newer[8] = 9;
    let id = &good[16..32];
    let crc = crc32c::crc32c_append(crc32c::crc32c(id), &newer[..44]);
    newer[44..48].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, newer).unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let error = Embedded::<Sum>::open(made.path(), small()).err().unwrap();
    assert!(matches!(error, OpenError::TooNew { found: 9, supported: FORMAT, .. }), "{error:?}");
    fs::write(&path, good).unwrap();
    // The journal of another store.
    let other = super::damage::made(plain(), 5).await;
    fs::copy(&other.segments()[0], &path).unwrap();
    assert!(made.refused("another store").contains("belongs to the store"));
}

#[tokio::test]
async fn unusable_served_copy_is_rebuilt() {
    type Harm = fn(&Path);
    let harms: [(&str, usize, Harm); 7] = [
        ("gone", 0, |sled| fs::remove_dir_all(sled).unwrap()),
        ("an empty directory", 1, |sled| {
            fs::remove_dir_all(sled).unwrap();
            fs::create_dir(sled).unwrap();
        }),
        ("its data is gone", 1, |sled| fs::write(sled.join("db"), b"").unwrap()),
        ("its data is noise", 1, |sled| {
            let length = fs::metadata(sled.join("db")).unwrap().len() as usize;
            fs::write(sled.join("db"), vec![0x5a; length.min(1 << 20)]).unwrap();
        }),
        ("blobs", 1, |sled| {
            fs::create_dir_all(sled.join("blobs")).unwrap();
            fs::write(sled.join("blobs/1"), b"x").unwrap();
        }),
        ("a leftover of an open", 0, |sled| {
            fs::write(sled.join("snap.00000000DEADBEEF.generating"), b"x").unwrap()
        }),
        ("conf is damaged", 0, |sled| fs::write(sled.join("conf"), b"segment_size: 7\nuse_c").unwrap()),
    ];
    for (name, set_aside, harm) in harms {
        let made = covered().await;
        harm(&made.path().join("sled"));
        made.check(name).await;
        assert_eq!(made.broken(), set_aside, "{name}: {:?}", names(made.path()));
    }
}

#[tokio::test]
async fn every_flipped_bit_of_the_served_copy_is_recovered() {
    let made = made(small(), 60).await;
    let sled = made.path().join("sled");
    let mut random: u64 = rand::random();
    println!("seed {random}");
    for round in 0..12 {
        let files: Vec<_> = names(&sled).into_iter().filter(|name| sled.join(name).is_file()).collect();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let file = sled.join(&files[random as usize % files.len()]);
        let length = fs::metadata(&file).unwrap().len().min(100_000);
        if length > 0 {
            flip(&file, ((random >> 20) % length) as usize);
        }
        let store = open(made.path());
        assert_eq!(records(&store), made.records, "round {round}: {}", file.display());
        store.close().await;
    }
}

#[tokio::test]
async fn older_snapshot_replaces_a_damaged_one() {
    let made = covered().await;
    let snapshots = made.snapshots();
    fs::remove_dir_all(made.path().join("sled")).unwrap();
    flip(&snapshots[1], 100);
    made.check("the newest").await;
    fs::remove_dir_all(made.path().join("sled")).unwrap();
    // The damaged snapshot is renamed, and a new one was taken.
    let snapshots: Vec<_> =
        made.snapshots().into_iter().filter(|path| path.extension().unwrap() == "snap").collect();
    assert_eq!(snapshots.len(), 2, "{:?}", made.snapshots());
    for snapshot in &snapshots {
        flip(snapshot, 101);
    }
    let refusal = made.refused("all of them");
    assert!(
        refusal.contains(".snap is damaged") && refusal.contains("the journal starts at revision"),
        "{refusal}"
    );
    for snapshot in &snapshots {
        flip(snapshot, 101);
    }
    drop(open(made.path()));
}

#[tokio::test]
async fn existing_store_is_never_treated_as_empty() {
    for (name, harm) in [
        ("the journal is gone", (|dir| fs::remove_dir_all(dir.join("journal")).unwrap()) as fn(&Path)),
        ("the journal is empty", |dir| {
            fs::remove_dir_all(dir.join("journal")).unwrap();
            fs::create_dir(dir.join("journal")).unwrap();
        }),
        ("journal and STORE are gone", |dir| {
            fs::remove_dir_all(dir.join("journal")).unwrap();
            fs::remove_file(dir.join("STORE")).unwrap();
        }),
        ("the newest segments are gone", |dir| {
            for name in names(&dir.join("journal")).iter().skip(1) {
                fs::remove_file(dir.join("journal").join(name)).unwrap();
            }
            fs::remove_dir_all(dir.join("sled")).unwrap();
        }),
    ] {
        let made = made(one_snapshot(), 150).await;
        assert!(made.segments().len() > 2 && made.snapshots().len() == 1, "{name}: {:?}", made.segments());
        harm(made.path());
        made.refused(name);
    }
}

#[tokio::test]
async fn missing_or_damaged_identity_is_rewritten() {
    let made = made(small(), 60).await;
    fs::remove_file(made.path().join("STORE")).unwrap();
    made.check("STORE is missing").await;
    assert!(made.path().join("STORE").exists());
    let store = open(made.path());
    story(&store, 1).await;
    store.close().await;
    flip(&made.path().join("STORE"), 30);
    let store = open(made.path());
    assert!(store.head().get("/r/p/new").is_some());
}

#[tokio::test]
async fn second_opener_gets_the_holder_of_the_lock() {
    let dir = super::scratch();
    let store = open(dir.path());
    let error =
        Embedded::<Sum>::open(dir.path(), Options { lock_wait: Duration::ZERO, ..small() }).err().unwrap();
    match error {
        OpenError::Locked { holder, .. } => {
            assert!(holder.contains(&std::process::id().to_string()), "{holder}")
        }
        error => panic!("{error:?}"),
    }
    put_one(&store, "/r/p/a", "1").await;
    store.close().await;
    drop(open(dir.path()));
}

#[tokio::test]
async fn segments_are_removed_once_two_snapshots_cover_them() {
    let dir = super::scratch();
    let store = open(dir.path());
    // The snapshot thread may be slower than this one.
    let start = std::time::Instant::now();
    while names(&dir.path().join("snapshot")).iter().filter(|name| name.ends_with(".snap")).count() < 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "there are no two snapshots");
        story(&store, 50).await;
        fed(&store).await;
    }
    store.close().await;
    let snapshots = names(&dir.path().join("snapshot"));
    assert_eq!(snapshots.len(), 2, "{snapshots:?}");
    let segments = names(&dir.path().join("journal"));
    let older: u64 = snapshots[0].trim_end_matches(".snap").parse().unwrap();
    // There is only one segment when the older snapshot covers all others completely.
    let second = segments.get(1).map_or(u64::MAX, |name| name.trim_end_matches(".wal").parse().unwrap());
    assert!(second > older + 1, "the first segment holds something after the older snapshot");
    let first: u64 = segments[0].trim_end_matches(".wal").parse().unwrap();
    assert!(first > 1 && first <= older + 1, "{segments:?} {snapshots:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_values_survive_a_rebuild() {
    let dir = super::scratch();
    let store = open(dir.path());
    for n in 0..3_u8 {
        let value: String = std::iter::repeat_n(char::from(b'a' + n), 2 << 20).collect();
        let write = put(&store, &format!("/r/p/{n}"), &value);
        store.commit(vec![write]).await.unwrap();
    }
    store.close().await;
    assert_eq!(names(&dir.path().join("sled/blobs")), Vec::<String>::new());
    fs::remove_dir_all(dir.path().join("sled")).unwrap();
    let store = open(dir.path());
    assert_eq!(store.head().get("/r/p/2").unwrap().value.len(), 2 << 20);
    let events = store.history(&"/r/p/1".into(), 1).await.unwrap();
    assert_eq!(events[0].record.as_ref().unwrap().value, vec![b'b'; 2 << 20]);
}
