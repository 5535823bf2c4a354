//! Random damage: a bit flips in a file, or its end is missing. The store must have the same contents or
//! report the damage; it must never open with other contents.
//!
//! The normal run takes a sample. `ORLOP_FAULT_ROUNDS=N` tries N thousand; `ORLOP_FAULT_SEED` repeats a run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::faults::{no_panics, note_panics, seed_and_rounds};
use super::{events, flip, open, records, small, story};
use crate::embedded::files::without_zeros;
use crate::testing::Sum;
use crate::testing::faulty::Dice;
use crate::{CheckOptions, Embedded, Key, Kv, OpenError, Options, Redact, Sensitive, check};

/// The number of damages that a normal run tries.
const SAMPLE: usize = 40;

/// The outcome of opening the damaged store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Intact,
    /// All records exist, after a rebuild of the served copy or a rewrite of a file.
    Repaired,
    Refused,
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for name in super::names(dir) {
        let path = dir.join(name);
        if path.is_dir() { all.extend(files_below(&path)) } else { all.push(path) }
    }
    all
}

pub(super) fn copy_tree(from: &Path, to: &Path) {
    for path in files_below(from) {
        let to = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
}

/// A store with two snapshots that was not closed properly: its last events are only in the journal. Former versions of some of its
/// records were erased.
async fn made() -> (tempfile::TempDir, Vec<String>, Vec<String>) {
    let dir = super::scratch();
    let sensitive = Sensitive {
        prefixes: vec!["/r/q/".to_owned()],
        age: Duration::ZERO,
        redact: Redact(Arc::new(|_: &Key, _: &Bytes| Some(Bytes::from_static(b"rest")))),
        ..Sensitive::default()
    };
    for is_first in [true, false] {
        let store = open(dir.path());
        story(&store, 70).await;
        store.close().await;
        if is_first {
            let options = Options { sensitive: sensitive.clone(), ..small() };
            let store = Embedded::<Sum>::open(dir.path(), options).unwrap();
            super::erased(&store).await;
            store.close().await;
        }
    }
    let store = open(dir.path());
    story(&store, 12).await;
    let (records, events) = (records(&store), events(&store).await);
    assert!(events.iter().any(|event| event.contains("=rest")), "rows with erased values: {events:#?}");
    store.close().await;
    (dir, records, events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_to_any_file_is_repaired_or_reported() {
    note_panics();
    let (seed, rounds) = seed_and_rounds();
    let mut dice = Dice::new(seed);
    let (made, wanted, wanted_events) = made().await;
    let mut outcomes: BTreeMap<(String, &str, Outcome), u64> = BTreeMap::new();
    for round in 0..rounds.map_or(SAMPLE, |rounds| rounds as usize * 1000) {
        let dir = super::scratch();
        copy_tree(made.path(), dir.path());
        // In some cases there is no served copy to recover from.
        let without_copy = dice.below(3) == 0;
        if without_copy {
            fs::remove_dir_all(dir.path().join("sled")).unwrap();
        }
        let files = files_below(dir.path());
        let path = &files[dice.below(files.len())];
        let file = path.strip_prefix(dir.path()).unwrap().display().to_string();
        let mut bytes = fs::read(path).unwrap();
        let used = without_zeros(&bytes).max(1);
        let harm = ["a bit", "the end", "a page of zeros"][dice.below(3)];
        let (name, at);
        match harm {
            _ if bytes.is_empty() => continue,
            "a bit" => {
                at = dice.below(used);
                bytes[at] ^= 1 << dice.below(8);
            }
            "the end" => {
                at = used - 1 - dice.below(used.min(600));
                bytes.truncate(at);
            }
            _ => {
                at = dice.below(used) / 512 * 512;
                let end = (at + 512).min(bytes.len());
                bytes[at..end].fill(0);
            }
        }
        fs::write(path, &bytes).unwrap();
        name = format!("round {round}: {harm} of {file} at {at}, without the copy: {without_copy}");
        let options = Options { open_deadline: Duration::from_secs(30), ..small() };
        let report = (round % 4 == 0).then(|| {
            let before: Vec<_> = files_below(dir.path()).iter().map(|path| fs::read(path).unwrap()).collect();
            let report =
                check(dir.path(), &CheckOptions { options: options.clone(), ..CheckOptions::default() });
            let after: Vec<_> = files_below(dir.path()).iter().map(|path| fs::read(path).unwrap()).collect();
            assert!(before == after, "{name}: the check has changed something");
            report
        });
        let outcome = match Embedded::<Sum>::open(dir.path(), options) {
            Ok(store) => {
                assert_eq!(records(&store), wanted, "{name}");
                let events = events(&store).await;
                assert!(wanted_events.ends_with(&events), "{name}: {events:#?}");
                store.close().await;
                let rebuilt = super::names(dir.path()).iter().any(|name| name.starts_with("sled.broken-"));
                let same = fs::read(path).is_ok_and(|now| now == bytes);
                if rebuilt || !same { Outcome::Repaired } else { Outcome::Intact }
            }
            Err(error @ (OpenError::Damaged { .. } | OpenError::TooNew { .. })) => {
                let message = error.to_string();
                assert!(message.len() > 60, "{name}: {message}");
                Outcome::Refused
            }
            Err(error) => panic!("{name}: {error:?}"),
        };
        if let Some(report) = report {
            assert_eq!(report.verdict.opens(), outcome != Outcome::Refused, "{name}: {outcome:?} {report}");
        }
        no_panics(&name);
        let kind = file.split('/').next().unwrap().to_owned();
        *outcomes.entry((kind, harm, outcome)).or_default() += 1;
    }
    for ((kind, harm, outcome), count) in outcomes {
        println!("{kind:12} {harm:16} {outcome:?}: {count}");
    }
}

#[tokio::test]
async fn flipped_bit_in_the_journal_alone_is_always_detected() {
    // Only journal and mark: every byte of the last frames counts.
    let dir = super::scratch();
    let options = || Options { segment_bytes: 1 << 14, snapshot_bytes: 1 << 30, ..small() };
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    story(&store, 4).await;
    let wanted = records(&store);
    store.close().await;
    fs::remove_dir_all(dir.path().join("sled")).unwrap();
    let path = files_below(&dir.path().join("journal")).pop().unwrap();
    let good = fs::read(&path).unwrap();
    let used = without_zeros(&good);
    let mut refused = 0;
    for at in (0..used + 40).step_by(7) {
        flip(&path, at);
        let copy = super::scratch();
        copy_tree(dir.path(), copy.path());
        match Embedded::<Sum>::open(copy.path(), options()) {
            Ok(store) => {
                assert_eq!(records(&store), wanted, "byte {at}");
                assert!(!(48..used).contains(&at), "byte {at} is of no use");
            }
            Err(OpenError::Damaged { .. }) => refused += 1,
            Err(error) => panic!("byte {at}: {error:?}"),
        }
        fs::write(&path, &good).unwrap();
    }
    assert!(refused > 20);
}
