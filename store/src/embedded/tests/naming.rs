//! Journal rotation under faults. Each operation of a rotation fails: the header of a prepared file, its
//! sync, its rename, the sync of the directory; or the creation of a segment when none is prepared. Then the
//! journal continues, or the process is killed, or the power fails, and the journal continues after that.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::Revision;
use crate::embedded::frame::{Entry, StoreId};
use crate::embedded::journal::Journal;
use crate::embedded::refused::Refused;
use crate::embedded::scan::{self, Scan};
use crate::testing::faulty::{Fault, Faulty, Op};

/// The size of a segment, which is also preallocated.
const SEGMENT: u64 = 4096;

/// Why the next group starts a segment.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// A rotation was requested and the old segment has zeros left; a segment is prepared.
    Asked,
    /// The frame does not fit into the zeros; a segment is prepared.
    TooLong,
    /// A rotation was requested; no segment is prepared.
    AskedUnprepared,
    /// The segment has its maximum size; no segment is prepared.
    Full,
}

const TURNS: [Turn; 4] = [Turn::Asked, Turn::TooLong, Turn::AskedUnprepared, Turn::Full];

/// The event after the failure.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The disk recovers, and the same process continues (where allowed).
    Healed,
    /// The process is killed.
    Killed,
    /// All unsynced data is lost.
    PowerCut,
    /// Any subset of the unsynced pages survives.
    AnyPages,
}

const ENDS: [End; 4] = [End::Healed, End::Killed, End::PowerCut, End::AnyPages];

fn entry(revision: u64, length: usize) -> Entry {
    Entry {
        revision: Revision(revision),
        time_ms: 1,
        create: Revision(revision),
        prev: Revision::ZERO,
        key: format!("/r/{revision}"),
        value: Some(Bytes::from(vec![b'a' + (revision % 26) as u8; length])),
    }
}

fn scanned(dir: &Path, files: &Faulty, store: StoreId, name: &str) -> Scan {
    scan::scan(files, dir, &dir.join("journal"), store, Revision::ZERO)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The entries in the journal.
fn held(files: &Faulty, scan: &Scan, store: StoreId) -> Vec<Entry> {
    let mut entries = Vec::new();
    scan::replay(files, scan, store, Revision::ZERO, |entry| {
        entries.push(entry);
        Ok::<(), crate::OpenError>(())
    })
    .unwrap();
    entries
}

fn wait_for_the_next(journal: &Journal) {
    let start = Instant::now();
    while !journal.is_prepared() {
        assert!(start.elapsed() < Duration::from_secs(30), "no segment is prepared");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A journal whose next group starts a segment, its entries, and the length of the next frame.
fn before(turn: Turn, dir: &Path, files: &Faulty, store: StoreId) -> (Journal, Vec<Entry>, usize) {
    let made = Journal::create(Arc::new(files.clone()), dir.join("journal"), store, SEGMENT);
    let mut journal = made.unwrap();
    let (lengths, next): (&[usize], usize) = match turn {
        Turn::Asked => (&[1200, 1200], 100),
        Turn::TooLong => (&[1200, 1200], 3000),
        Turn::AskedUnprepared => (&[100], 100),
        Turn::Full => (&[5000], 100),
    };
    let entries: Vec<Entry> = (1..).zip(lengths).map(|(revision, length)| entry(revision, *length)).collect();
    if matches!(turn, Turn::Full) {
        files.fail(Fault { op: Some(Op::Allocate), nth: 1, for_good: true, is_full: true });
    }
    for entry in &entries {
        journal.append_entries(std::slice::from_ref(entry)).unwrap();
    }
    match turn {
        Turn::Asked | Turn::TooLong => wait_for_the_next(&journal),
        Turn::AskedUnprepared => {}
        Turn::Full => {
            // The attempt was made, and its partial file is removed.
            let start = Instant::now();
            while files.count(Op::Remove) == 0 {
                assert!(start.elapsed() < Duration::from_secs(30), "no segment is tried");
                std::thread::sleep(Duration::from_millis(1));
            }
            files.heal();
        }
    }
    if matches!(turn, Turn::Asked | Turn::AskedUnprepared) {
        journal.segments().ask_for_cut();
    }
    (journal, entries, next)
}

/// The outcome of the group that met the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Taken,
    NoSpace,
    Unknown,
}

fn case(turn: Turn, end: End, at: u64, for_good: bool, is_full: bool) -> Outcome {
    let name = format!("{turn:?}, operation {at}, for good: {for_good}, full: {is_full}, then {end:?}");
    let dir = super::scratch();
    let files = Faulty::new(u64::MAX);
    let store = StoreId::new();
    let (mut journal, mut entries, length) = before(turn, dir.path(), &files, store);
    let next = entry(entries.len() as u64 + 1, length);
    files.fail(Fault { op: None, nth: files.done() + at, for_good, is_full });
    let outcome = match journal.append_entries(std::slice::from_ref(&next)) {
        Ok(()) => Outcome::Taken,
        Err(Refused::NoSpace(_)) => Outcome::NoSpace,
        Err(Refused::Unknown(_)) => Outcome::Unknown,
    };
    assert!(is_full || outcome != Outcome::NoSpace, "{name}");
    files.heal();
    if outcome == Outcome::Taken {
        entries.push(next.clone());
    }
    if outcome == Outcome::NoSpace {
        // Without waiting for a restart, because the space is needed.
        let names = super::names(&dir.path().join("journal"));
        let all_named = names.iter().all(|name| name.ends_with(".wal"));
        assert!(all_named || for_good, "{name}: {names:?}");
    }
    if matches!(end, End::Healed) && outcome != Outcome::Unknown {
        for _ in 0..3 {
            let more = entry(entries.len() as u64 + 1, 900);
            journal.append_entries(std::slice::from_ref(&more)).unwrap_or_else(|why| panic!("{name}: {why}"));
            entries.push(more);
        }
    }
    match end {
        End::Healed | End::Killed => drop(journal),
        // This also cuts off the work of a thread that is still running.
        End::PowerCut => {
            files.cut().unwrap();
            files.fail(Fault { op: None, nth: 0, for_good: true, is_full: false });
            drop(journal);
        }
        End::AnyPages => {
            files.cut_by(at * 2 + u64::from(for_good)).unwrap();
            files.fail(Fault { op: None, nth: 0, for_good: true, is_full: false });
            drop(journal);
        }
    }
    files.heal();
    let scan = scanned(dir.path(), &files, store, &name);
    let found = held(&files, &scan, store);
    if outcome == Outcome::Unknown && found.len() > entries.len() {
        entries.push(next);
    }
    assert_eq!(found, entries, "{name}");
    // The journal continues, across another rotation.
    let opened = Journal::open(Arc::new(files.clone()), dir.path().join("journal"), store, SEGMENT, &scan);
    let mut journal = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
    for _ in 0..6 {
        let more = entry(entries.len() as u64 + 1, 900);
        journal.append_entries(std::slice::from_ref(&more)).unwrap_or_else(|why| panic!("{name}: {why}"));
        entries.push(more);
    }
    drop(journal);
    let scan = scanned(dir.path(), &files, store, &name);
    assert_eq!(held(&files, &scan, store), entries, "{name}: in the end");
    outcome
}

#[test]
fn failed_rotation_loses_no_acknowledged_group() {
    let mut outcomes = std::collections::BTreeMap::new();
    for turn in TURNS {
        for end in ENDS {
            for at in 0..8 {
                for (for_good, is_full) in [(false, false), (false, true), (true, false), (true, true)] {
                    *outcomes.entry(case(turn, end, at, for_good, is_full)).or_insert(0) += 1;
                }
            }
        }
    }
    println!("{outcomes:?}");
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
}

#[test]
fn full_disk_at_rotation_continues_the_old_segment() {
    for turn in [Turn::Asked, Turn::AskedUnprepared] {
        let dir = super::scratch();
        let files = Faulty::new(u64::MAX);
        let store = StoreId::new();
        let (mut journal, entries, length) = before(turn, dir.path(), &files, store);
        // The header can be written neither for a prepared segment nor for a new one.
        files.fail(Fault { op: None, nth: files.done(), for_good: false, is_full: true });
        let next = entries.len() as u64 + 1;
        journal.append_entries(&[entry(next, length)]).unwrap();
        assert!(journal.segments().awaits_cut(), "{turn:?}: it is still to come");
        journal.append_entries(&[entry(next + 1, length)]).unwrap();
        assert!(!journal.segments().awaits_cut(), "{turn:?}");
        let scan = scanned(dir.path(), &files, store, "after it");
        assert_eq!(scan.segments.len(), 2, "{turn:?}");
        assert_eq!(scan.last(), Revision(next + 1), "{turn:?}");
    }
}

/// A full segment too, because its next frame needs no other file.
#[test]
fn too_many_open_files_at_rotation_continue_the_old_segment() {
    use rustix::io::Errno;

    for (errno, turn, op) in [
        (Errno::MFILE, Turn::AskedUnprepared, Op::Create),
        (Errno::MFILE, Turn::Full, Op::Create),
        (Errno::NFILE, Turn::Full, Op::Create),
        // To sync a directory, it is opened. The new file is there already and has to be removed.
        (Errno::MFILE, Turn::Asked, Op::SyncDir),
        (Errno::MFILE, Turn::TooLong, Op::SyncDir),
        (Errno::MFILE, Turn::AskedUnprepared, Op::SyncDir),
        (Errno::NFILE, Turn::Full, Op::SyncDir),
    ] {
        let name = format!("{errno:?}, {turn:?}, {op:?}");
        let dir = super::scratch();
        let files = Faulty::new(u64::MAX);
        let store = StoreId::new();
        let (mut journal, mut entries, length) = before(turn, dir.path(), &files, store);
        let fault = Fault { op: Some(op), nth: files.count(op), for_good: false, is_full: false };
        files.fail_as(fault, errno.raw_os_error());
        for (segments, length) in [(1, length), (2, 100)] {
            let next = entry(entries.len() as u64 + 1, length);
            let added = journal.append_entries(std::slice::from_ref(&next));
            added.unwrap_or_else(|why| panic!("{name}: {why}"));
            entries.push(next);
            let scan = scanned(dir.path(), &files, store, &name);
            assert_eq!(held(&files, &scan, store), entries, "{name}");
            // The next group need not start a segment if it fits.
            assert!(scan.segments.len() == segments || matches!(turn, Turn::TooLong), "{name}");
        }
    }
}

/// Another thread may take the last descriptor again before the new file is removed.
#[test]
fn rotation_is_undone_as_soon_as_a_file_can_be_opened() {
    let dir = super::scratch();
    let files = Faulty::new(u64::MAX);
    let store = StoreId::new();
    let (mut journal, mut entries, length) = before(Turn::Full, dir.path(), &files, store);
    let first = files.count(Op::SyncDir);
    let fault = Fault { op: Some(Op::SyncDir), nth: first, for_good: true, is_full: false };
    files.fail_as(fault, rustix::io::Errno::MFILE.raw_os_error());
    let failing = files.clone();
    let closer = std::thread::spawn(move || {
        while failing.count(Op::SyncDir) < first + 4 {
            std::thread::yield_now();
        }
        failing.heal();
    });
    let next = entry(entries.len() as u64 + 1, length);
    journal.append_entries(std::slice::from_ref(&next)).unwrap();
    closer.join().unwrap();
    entries.push(next);
    let scan = scanned(dir.path(), &files, store, "after it");
    assert_eq!(held(&files, &scan, store), entries);
    assert_eq!(scan.segments.len(), 1);
}

#[test]
fn rotation_without_files_is_refused_and_can_be_repeated() {
    let dir = super::scratch();
    let files = Faulty::new(u64::MAX);
    let (mut journal, entries, _) = before(Turn::AskedUnprepared, dir.path(), &files, StoreId::new());
    let fault = Fault { op: Some(Op::Create), nth: 0, for_good: true, is_full: false };
    files.fail_as(fault, rustix::io::Errno::MFILE.raw_os_error());
    assert!(matches!(journal.rotate(), Err(Refused::NoSpace(_))));
    files.heal();
    assert!(matches!(journal.rotate(), Ok(Revision(last)) if last == entries.len() as u64));
}

#[test]
fn failed_rename_of_a_prepared_segment_is_harmless() {
    let dir = super::scratch();
    let files = Faulty::new(u64::MAX);
    let store = StoreId::new();
    let (mut journal, entries, length) = before(Turn::TooLong, dir.path(), &files, store);
    files.fail(Fault { op: None, nth: files.done(), for_good: false, is_full: true });
    let next = entries.len() as u64 + 1;
    journal.append_entries(&[entry(next, length)]).unwrap();
    let scan = scanned(dir.path(), &files, store, "after it");
    assert_eq!(
        (scan.segments.len(), scan.last()),
        (1, Revision(next)),
        "it is in the segment that was there"
    );
}

#[test]
fn segment_without_entries_is_not_rotated() {
    let dir = super::scratch();
    let files = Faulty::new(u64::MAX);
    let made = Journal::create(Arc::new(files.clone()), dir.path().join("journal"), StoreId::new(), SEGMENT);
    let mut journal = made.unwrap();
    journal.segments().ask_for_cut();
    journal.append_entries(&[entry(1, 10)]).unwrap();
    assert!(!journal.segments().awaits_cut(), "what was asked for is so");
    assert_eq!(super::names(&dir.path().join("journal")).len(), 1);
}
