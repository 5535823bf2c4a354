//! The high-water mark: the loss of the journal's end is detected, and can be accepted.

use std::fs;
use std::path::Path;

use super::{events, flip, names, one_snapshot, open, records, small, story};
use crate::testing::{Sum, put_one};
use crate::{
    CheckOptions, CheckOutcome, Embedded, Kv, OpenError, Options, Revision, WatchError, accept_loss, check,
};

fn refused(dir: &Path) -> String {
    match Embedded::<Sum>::open(dir, small()) {
        Err(error @ OpenError::Damaged { .. }) => error.to_string(),
        Err(error) => panic!("{error:?}"),
        Ok(store) => panic!("it was opened at revision {}", store.head().revision()),
    }
}

/// Every file below a directory with its bytes.
fn bytes_of(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for name in names(dir) {
        let path = dir.join(&name);
        if path.is_dir() {
            all.extend(bytes_of(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else {
            all.push((name, fs::read(&path).unwrap()));
        }
    }
    all
}

fn copy_tree(from: &Path, to: &Path) {
    for (name, bytes) in bytes_of(from) {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// A directory of 60 revisions whose journal and served copy were reset to revision 40: all its files are
/// consistent, except for the mark.
async fn gone_back() -> (tempfile::TempDir, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { segment_bytes: 1 << 30, snapshot_bytes: 1 << 30, ..small() };
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    story(&store, 40).await;
    let wanted = records(&store);
    store.close().await;
    let old = tempfile::tempdir().unwrap();
    copy_tree(dir.path(), old.path());
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    story(&store, 20).await;
    store.close().await;
    let mark = fs::read(dir.path().join("high-water")).unwrap();
    fs::write(old.path().join("high-water"), mark).unwrap();
    (old, wanted)
}

#[tokio::test]
async fn lost_journal_end_is_refused_and_can_be_accepted() {
    let (dir, wanted) = gone_back().await;
    let before = bytes_of(dir.path());
    let report = check(dir.path(), &CheckOptions::default());
    let CheckOutcome::Refused(why) = &report.verdict else { panic!("{report}") };
    assert!(why.contains("revision 60 was acknowledged"), "{report}");
    assert_eq!(bytes_of(dir.path()), before, "a check changes nothing");
    let refusal = refused(dir.path());
    for part in ["revision 60", "ends at 40", "orlop snapshot restore", "--accept-loss"] {
        assert!(refusal.contains(part), "{refusal}");
    }
    refused(dir.path());

    let loss = accept_loss(dir.path(), &small()).unwrap();
    assert_eq!((loss.kept, loss.acknowledged), (Revision(40), Revision(60)));
    assert!(loss.continues > Revision(1_000_000_000));
    for _ in 0..2 {
        let store = open(dir.path());
        assert_eq!(store.head().revision().0 / 1_000_000_000, 1);
        let there: Vec<_> = records(&store).into_iter().filter(|record| !record.contains("/new")).collect();
        assert_eq!(there, wanted);
        assert!(matches!(store.watch("", Revision(60)).err(), Some(WatchError::Expired { .. })));
        let head = store.head().revision();
        assert_eq!(put_one(&store, "/new", "1").await, head.next());
        events(&store).await;
        store.close().await;
    }
    let content = fs::read_to_string(dir.path().join("accepted-loss")).unwrap();
    assert!(content.contains("kept 40\nacknowledged 60\n"), "{content}");
    let report = check(dir.path(), &CheckOptions::default());
    assert!(matches!(report.verdict, CheckOutcome::Sound { .. }), "{report}");
    let error = accept_loss(dir.path(), &small()).unwrap_err().to_string();
    assert!(error.contains("nothing is known to be lost"), "{error}");
    drop(open(dir.path()));
}

#[tokio::test]
async fn interrupted_acceptance_is_reverted() {
    use crate::testing::faulty::Faulty;
    use std::sync::Arc;
    let (made, wanted) = gone_back().await;
    for at in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        copy_tree(made.path(), dir.path());
        let files = Faulty::new(at);
        let options = Options { files: Arc::new(files.clone()), ..small() };
        let result = accept_loss(dir.path(), &options);
        files.cut().unwrap();
        match Embedded::<Sum>::open(dir.path(), small()) {
            Ok(store) => assert_eq!(records(&store), wanted, "operation {at}"),
            Err(error) => {
                assert!(result.is_err(), "operation {at}: it was accepted, but {error}");
                assert!(error.to_string().contains("revision 60"), "operation {at}: {error}");
                accept_loss(dir.path(), &small()).unwrap();
                assert_eq!(records(&open(dir.path())), wanted, "operation {at}");
            }
        }
        if files.done() <= at {
            assert!(at > 15, "{at}");
            return;
        }
    }
    panic!("the acceptance has more operations than were tried");
}

#[tokio::test]
async fn snapshot_newer_than_the_journal_can_be_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), one_snapshot()).unwrap();
    story(&store, 150).await;
    let wanted = records(&store);
    store.close().await;
    assert_eq!(names(&dir.path().join("snapshot")).len(), 1);
    for name in names(&dir.path().join("journal")).iter().skip(1) {
        fs::remove_file(dir.path().join("journal").join(name)).unwrap();
    }
    fs::remove_dir_all(dir.path().join("sled")).unwrap();
    assert!(refused(dir.path()).contains("there is a snapshot of it"));
    let loss = accept_loss(dir.path(), &small()).unwrap();
    assert_eq!(loss.kept, Revision(150));
    assert_eq!(records(&open(dir.path())), wanted);
}

#[tokio::test]
async fn missing_or_damaged_mark_is_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    story(&store, 30).await;
    let wanted = records(&store);
    store.close().await;
    let path = dir.path().join("high-water");
    for (name, harm) in [
        ("missing", (|path| fs::remove_file(path).unwrap()) as fn(&Path)),
        ("empty", |path| fs::write(path, b"").unwrap()),
        ("both slots are damaged", |path| {
            flip(path, 20);
            flip(path, 4096 + 20);
        }),
        ("the other slot only", |path| flip(path, 4)),
    ] {
        harm(&path);
        let store = open(dir.path());
        assert_eq!(records(&store), wanted, "{name}");
        store.close().await;
        let report = check(dir.path(), &CheckOptions::default());
        assert_eq!(report.verdict, CheckOutcome::Sound { head: Revision(30) }, "{name}: {report}");
    }
}

#[tokio::test]
async fn unwritable_mark_does_not_block_writers() {
    use crate::testing::faulty::{Fault, Faulty, Op};
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { segment_bytes: 1 << 30, snapshot_bytes: 1 << 30, ..small() };
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    story(&store, 10).await;
    store.close().await;
    fs::remove_file(dir.path().join("high-water")).unwrap();
    let fault = Fault { op: Some(Op::Create), nth: 0, for_good: true, is_full: true };
    let files = Faulty::with(fault);
    let failing = Options { files: std::sync::Arc::new(files.clone()), ..options() };
    let store = Embedded::<Sum>::open(dir.path(), failing).unwrap();
    story(&store, 10).await;
    assert_eq!(store.poisoned(), None);
    store.close().await;
    assert!(files.count(Op::Create) >= 2, "it was tried at open and at close");
    assert!(!dir.path().join("high-water").exists());
    let store = open(dir.path());
    assert_eq!(store.head().revision(), Revision(20));
    store.close().await;
    assert!(dir.path().join("high-water").exists());
}

#[tokio::test]
async fn check_reports_the_holder_and_directories_without_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let report = check(dir.path().join("none"), &CheckOptions::default());
    assert_eq!(report.verdict, CheckOutcome::Empty);
    let store = open(dir.path());
    let report = check(dir.path(), &CheckOptions::default());
    assert!(matches!(&report.verdict, CheckOutcome::InUse(holder) if holder.contains("pid")), "{report}");
    store.close().await;
    let report = check(dir.path(), &CheckOptions::default());
    assert_eq!(report.verdict, CheckOutcome::Sound { head: Revision::ZERO }, "{report}");
    // The leftovers of an interrupted creation are not a store yet.
    let begun = tempfile::tempdir().unwrap();
    fs::create_dir(begun.path().join("journal")).unwrap();
    for header in [0, 24] {
        fs::write(begun.path().join("journal/00000000000000000001.wal"), vec![b'O'; header]).unwrap();
        let report = check(begun.path(), &CheckOptions::default());
        assert_eq!(report.verdict, CheckOutcome::Empty, "{header} bytes: {report}");
    }
    drop(open(begun.path()));
    let foreign = tempfile::tempdir().unwrap();
    fs::write(foreign.path().join("x"), b"x").unwrap();
    let report = check(foreign.path(), &CheckOptions::default());
    assert!(
        matches!(&report.verdict, CheckOutcome::Refused(why) if why.contains("not a data directory of orlop")),
        "{report}"
    );
}

#[tokio::test]
async fn marks_of_other_stores_and_histories_are_refused() {
    let (dir, _) = gone_back().await;
    let other = tempfile::tempdir().unwrap();
    let store = open(other.path());
    story(&store, 5).await;
    store.close().await;
    let mark = dir.path().join("high-water");
    let good = fs::read(&mark).unwrap();
    fs::copy(other.path().join("high-water"), &mark).unwrap();
    assert!(refused(dir.path()).contains("high-water mark belongs to the store"));
    // The same store continued from revision 40 with other writes.
    fs::remove_file(&mark).unwrap();
    let store = open(dir.path());
    for n in 0..25 {
        put_one(&store, "/r/other", &n.to_string()).await;
    }
    store.close().await;
    fs::write(&mark, good).unwrap();
    let refusal = refused(dir.path());
    assert!(refusal.contains("another write at revision 60"), "{refusal}");
    let report = check(dir.path(), &CheckOptions::default());
    assert!(matches!(&report.verdict, CheckOutcome::Refused(why) if refusal.contains(why)), "{report}");
}

#[tokio::test]
async fn check_refuses_whatever_open_refuses() {
    for (name, wanted) in [
        ("no segment", "the journal has no segment"),
        ("the first one has no header", "the journal has no segment"),
        ("the end is lost and compacted", "is compacted"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 1 << 30, snapshot_bytes: 1 << 30, ..small() };
        let store = Embedded::<Sum>::open(dir.path(), options).unwrap();
        story(&store, 30).await;
        if wanted == "is compacted" {
            store.compact(Revision(30)).await.unwrap();
        }
        store.close().await;
        drop(store);
        let _ = fs::remove_dir_all(dir.path().join("snapshot"));
        // Removed, because it would reveal the loss too.
        fs::remove_file(dir.path().join("high-water")).unwrap();
        let segment = dir.path().join("journal/00000000000000000001.wal");
        match name {
            "no segment" => fs::remove_file(&segment).unwrap(),
            "the first one has no header" => fs::write(&segment, b"ORLOP").unwrap(),
            // Only the header.
            _ => fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(48).unwrap(),
        }
        let report = check(dir.path(), &CheckOptions::default());
        let CheckOutcome::Refused(why) = &report.verdict else { panic!("{name}: {report}") };
        assert!(why.contains(wanted), "{name}: {report}");
        let refusal = refused(dir.path());
        assert!(refusal.contains(wanted), "{name}: {refusal}");
    }
}

#[tokio::test]
async fn directory_with_only_a_mark_is_not_empty() {
    let (dir, _) = gone_back().await;
    for name in ["journal", "sled"] {
        fs::remove_dir_all(dir.path().join(name)).unwrap();
    }
    refused(dir.path());
    fs::remove_file(dir.path().join("STORE")).unwrap();
    let refusal = refused(dir.path());
    assert!(refusal.contains("there was a store here"), "{refusal}");
    assert_eq!(names(dir.path()), ["LOCK", "high-water"]);
}
