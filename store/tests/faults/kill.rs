//! `kill -9` in a loop, under load. Every write that was acknowledged or seen must be there, and the next
//! process must continue.
//!
//! The next process itself reports what it has found, and is killed in its turn; periodically the directory
//! is also opened in this process and compared in full. `ORLOP_KILL_CYCLES` is the number of kills (20 when
//! unset), `ORLOP_KILL_SEED` the seed of all choices; it does not reproduce the timing of threads.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::ledger::Ledger;
use crate::load::Load;
use crate::verify::verify;
use crate::{child, number, scratch};

/// An open that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const CYCLES: u64 = 20;
const WRITERS: usize = 16;
/// The number of cycles for which a directory is reused.
const CYCLES_OF_DIRECTORY: u64 = 250;
/// The number of cycles between full comparisons.
const FULL: u64 = 25;

/// When a process is killed: this long after its start, or after it has reported what it has found.
#[derive(Clone, Copy, Debug)]
enum Until {
    Started(Duration),
    Open(Duration),
}

/// Chooses a time during the start, during the recovery, or (mostly) soon after it.
fn until(random: &mut StdRng) -> Until {
    let mut micros = |longest| Duration::from_micros(random.random_range(0..longest));
    let (start, soon, late) = (micros(80_000), micros(25_000), micros(300_000));
    match random.random_range(0..100) {
        0..25 => Until::Started(start),
        25..97 => Until::Open(soon),
        _ => Until::Started(late),
    }
}

/// Runs one process and adds its reports to the ledger.
fn live(dir: &Path, load: &Load, until: Until, ledger: &mut Ledger) -> Result<(), String> {
    let mut child = child::start(dir, load, None);
    let output = child.stdout.take().unwrap();
    let (sender, opened) = mpsc::channel::<()>();
    let killer = std::thread::spawn(move || {
        let after = match until {
            Until::Started(after) => after,
            Until::Open(after) => {
                // An error means that the process has ended by itself.
                let _ = opened.recv_timeout(PATIENCE);
                after
            }
        };
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap()
    });
    let mut sender = Some(sender);
    let mut result = Ok(());
    let mut output = BufReader::new(output);
    let mut line = String::new();
    loop {
        line.clear();
        if output.read_line(&mut line).unwrap() == 0 {
            break;
        }
        // The first lines are the test harness's, and the last one may be truncated.
        let Some(line) = line.strip_suffix('\n') else { continue };
        if line.split(' ').next().is_none_or(|word| word.len() != 1) {
            continue;
        }
        if line.starts_with('R') {
            sender = None;
        }
        if result.is_ok() {
            result = ledger.take(line);
        }
    }
    drop(sender);
    let status = killer.join().unwrap();
    result?;
    if status.code().is_some() { Err(format!("it ended on its own: {status}")) } else { Ok(()) }
}

#[test]
fn acknowledged_writes_survive_kills_in_a_loop() {
    let cycles = number("ORLOP_KILL_CYCLES").unwrap_or(CYCLES);
    let seed = number("ORLOP_KILL_SEED").unwrap_or_else(rand::random);
    println!("{cycles} kills, ORLOP_KILL_SEED={seed}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    let (mut dir, mut ledger) = (scratch(), Ledger::default());
    let (mut acknowledged, mut opened) = (0, 0);
    for cycle in 1..=cycles {
        let until = until(&mut random);
        let load = Load {
            seed: random.random(),
            session: cycle,
            from: ledger.floor,
            writers: WRITERS,
            commits: u64::MAX,
        };
        let before = ledger.acknowledged;
        let lived = live(dir.path(), &load, until, &mut ledger);
        acknowledged += ledger.acknowledged - before;
        opened += u64::from(ledger.acknowledged > before);
        let last = cycle % CYCLES_OF_DIRECTORY == 0 || cycle == cycles;
        let checked = lived.and_then(|()| {
            if last || cycle % FULL == 0 {
                ledger = runtime.block_on(verify(dir.path(), &ledger, &mut random))?;
            }
            Ok(())
        });
        if let Err(fault) = checked {
            let kept = dir.keep();
            panic!("kill {cycle} ({until:?}): {fault}; the directory is {}", kept.display());
        }
        if last {
            println!(
                "{cycle} kills, {opened} of them after a write, {acknowledged} commits acknowledged, none lost"
            );
            (dir, ledger) = (scratch(), Ledger::default());
        }
    }
    assert!(acknowledged > 0, "nothing was written");
}
