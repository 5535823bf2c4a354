//! Power failures. Every acknowledged write must be there, whatever the disk did with the rest.
//!
//! Processes work on a file system that records (`record`). Then, for many points of the record and many ways
//! of losing unsynced data (`medium`), a possible state of the disk is written into a directory, opened,
//! compared with the reports up to that point, written to, and opened again. Some of these states are the
//! start of the next record, so that power failures also hit the recovery from a power failure.
//!
//! * `ORLOP_POWER_CUTS` is the number of states that are tried (40 when unset), `ORLOP_POWER_SEED` the seed
//!   of all choices.
//! * Failures are saved below `target/power-cuts/`: the record, the state, and the line that repeats it:
//!   `ORLOP_POWER_RECORD=<file> ORLOP_POWER_CUT="<cut>" cargo test -p orlop-store --test faults power`.
//! * Without FUSE the test is skipped with a message; `ORLOP_REQUIRE_FUSE=1` makes that a failure.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::fuse::tree::{Op, Tree};
use crate::ledger::Ledger;
use crate::load::Load;
use crate::medium::{LOSSES, Loss, Medium, NAMES, Names};
use crate::record::{self, record};
use crate::verify::verify;
use crate::{child, number, scratch};

/// The default number of states that are tried.
const CUTS: u64 = 40;
/// The number of states tried per record in a long run.
const CUTS_OF_RECORD: u64 = 100;
/// The number of consecutive records before a run starts with an empty disk again.
const GENERATIONS: u64 = 4;
/// The number of failures after which a run ends early.
const ENOUGH: usize = 10;

/// One possible state of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    /// The number of operations of the record before the power failure.
    at: usize,
    names: Names,
    loss: Loss,
    /// The delay in microseconds after which the first process that opens the state is killed.
    kill: Option<u64>,
    seed: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { at, names, loss, kill, seed } = self;
        write!(f, "{at} {names:?} {loss:?} {} {seed}", kill.unwrap_or_default())
    }
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Cut, String> {
        let parse = || {
            let mut words = text.split(' ');
            let at = words.next()?.parse().ok()?;
            let (names, loss) = (words.next()?, words.next()?);
            let names = NAMES.into_iter().find(|known| format!("{known:?}") == names)?;
            let loss = LOSSES.into_iter().find(|known| format!("{known:?}") == loss)?;
            let kill = Some(words.next()?.parse().ok()?).filter(|after| *after > 0);
            Some(Cut { at, names, loss, kill, seed: words.next()?.parse().ok()? })
        };
        parse().ok_or_else(|| format!("{text:?} is no cut"))
    }
}

/// Chooses points of a record after `start`, in order: at acknowledgements, around changes of names, and
/// anywhere.
fn choose(record: &[Op], start: usize, count: u64, random: &mut StdRng) -> Vec<Cut> {
    let places = |wanted: fn(&Op) -> bool| -> Vec<usize> {
        let all = record.iter().enumerate().skip(start);
        all.filter(|(_, op)| wanted(op)).map(|(at, _)| at).collect()
    };
    let acks = places(|op| matches!(op, Op::Mark(line) if line.starts_with('A')));
    let names = places(|op| op.names().is_some());
    let mut cuts: Vec<Cut> = (0..count)
        .map(|n| {
            let near = match random.random_range(0..10) {
                0..4 if !acks.is_empty() => acks[random.random_range(0..acks.len())] + 1,
                4..8 if !names.is_empty() => names[random.random_range(0..names.len())],
                _ => random.random_range(start..=record.len()),
            };
            let near = near + random.random_range(0..6);
            Cut {
                at: near.saturating_sub(2).clamp(start, record.len()),
                names: NAMES[random.random_range(0..NAMES.len())],
                loss: LOSSES[n as usize % LOSSES.len()],
                kill: random.random_ratio(1, 8).then(|| random.random_range(5_000..60_000)),
                seed: random.random(),
            }
        })
        .collect();
    cuts.sort_by_key(|cut| cut.at);
    cuts
}

/// Computes the state of each cut, and the acknowledged data at that time.
fn each_state(record: &[Op], cuts: &[Cut], mut then: impl FnMut(&Cut, Tree, &Ledger)) {
    let mut mediums = NAMES.map(Medium::new);
    let mut ledger = Ledger::default();
    let mut ops = record.iter();
    let mut done = 0;
    for cut in cuts {
        for op in ops.by_ref().take(cut.at - done) {
            mediums.iter_mut().for_each(|medium| medium.step(op));
            if let Op::Mark(line) = op {
                ledger.take(line).unwrap();
            }
        }
        done = cut.at;
        let medium = &mediums[NAMES.iter().position(|names| *names == cut.names).unwrap()];
        let tree = medium.after_cut(cut.loss, &mut StdRng::seed_from_u64(cut.seed));
        then(cut, tree, &ledger);
    }
}

/// Opens a state twice.
async fn try_state(dir: &Path, cut: &Cut, ledger: &Ledger) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(cut.seed);
    if let Some(after) = cut.kill {
        let load = Load { seed: cut.seed, session: 0, from: ledger.floor, writers: 0, commits: 0 };
        let mut child = child::start(dir, &load, Some(Path::new("/dev/null")));
        std::thread::sleep(Duration::from_micros(after));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let ledger = verify(dir, ledger, &mut random).await?;
    verify(dir, &ledger, &mut random).await.map_err(|fault| format!("opened again: {fault}"))?;
    Ok(())
}

/// Saves the data to analyze and repeat a failure. Returns the directory.
fn keep(record: &[Op], tree: &Tree, cut: &Cut, name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/power-cuts").join(name);
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("state")).unwrap();
    tree.write_to(&root.join("state")).unwrap();
    record::save(&root.join("record"), record).unwrap();
    std::fs::write(root.join("cut"), cut.to_string()).unwrap();
    root
}

fn try_cuts(record: &[Op], cuts: &[Cut], keep_as: &str, failures: &mut Vec<String>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    each_state(record, cuts, |cut, tree, ledger| {
        if failures.len() >= ENOUGH {
            return;
        }
        let dir = scratch();
        tree.write_to(dir.path()).unwrap();
        if let Err(fault) = runtime.block_on(try_state(dir.path(), cut, ledger)) {
            let kept = keep(record, &tree, cut, &format!("{keep_as}-{}", failures.len()));
            let kept = kept.display();
            let fault = format!("ORLOP_POWER_RECORD={kept}/record ORLOP_POWER_CUT=\"{cut}\": {fault}");
            println!("{fault}");
            failures.push(fault);
        }
    });
}

fn nothing_failed(failures: &[String]) {
    assert!(
        failures.is_empty(),
        "{} states are not as they should be:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn acknowledged_writes_survive_power_failures() {
    let mut failures = Vec::new();
    if let (Ok(path), Ok(cut)) = (std::env::var("ORLOP_POWER_RECORD"), std::env::var("ORLOP_POWER_CUT")) {
        let record = record::load(&std::fs::read(path).unwrap()).unwrap();
        try_cuts(&record, &[cut.parse().unwrap()], "again", &mut failures);
        return nothing_failed(&failures);
    }
    let count = number("ORLOP_POWER_CUTS").unwrap_or(CUTS);
    let seed = number("ORLOP_POWER_SEED").unwrap_or_else(rand::random);
    println!("{count} power cuts, ORLOP_POWER_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let per_record = CUTS_OF_RECORD.min(count.div_ceil(2)).max(1);
    let mut begin = Vec::new();
    for generation in 0..count.div_ceil(per_record) {
        let start = begin.len();
        let Some(record) = record(begin, generation, &mut random) else { return };
        let cuts = choose(&record, start, per_record, &mut random);
        try_cuts(&record, &cuts, &format!("{seed}-{generation}"), &mut failures);
        println!("{} cuts tried, {} failures", (generation + 1) * per_record, failures.len());
        if failures.len() >= ENOUGH {
            break;
        }
        begin = Vec::new();
        if (generation + 1) % GENERATIONS != 0 {
            // The disk after one of the power failures.
            let next = cuts[random.random_range(cuts.len() / 2..cuts.len())];
            each_state(&record, &[next], |_, tree, ledger| {
                begin = tree.made_by();
                begin.extend(ledger.lines().into_iter().map(Op::Mark));
            });
        }
    }
    nothing_failed(&failures);
}

#[test]
fn cut_round_trips_through_its_text_form() {
    let cut = Cut { at: 7, names: Names::Ordered, loss: Loss::Torn, kill: Some(9), seed: u64::MAX };
    for cut in [cut, Cut { kill: None, ..cut }] {
        assert_eq!(cut.to_string().parse(), Ok(cut));
    }
    assert!("7 Ordered".parse::<Cut>().is_err());
}
