//! Checks histories of many clients: operations are linearizable, revisions are a total order of all changes that
//! agrees with time, and watches keep their guarantees; under `kill -9`, clean restarts and compaction (I2, I3,
//! I4, I5, I11).
//!
//! ORLOP_LINEAR_ROUNDS=N runs N long rounds of each test, ORLOP_LINEAR_SEED repeats the choices of a run. A
//! rejected history is saved to a file; ORLOP_LINEAR_HISTORY names one to check again.
//!
//! `clients` and `watchers` produce a `history` (`requests`, `recorder`); `log`, `causes`, `revisions`,
//! `streams`, `register` and `search` check it; `broken` shows that they detect faults.

mod broken;
mod causes;
mod check;
mod clients;
mod history;
mod log;
mod recorder;
mod register;
mod requests;
mod revisions;
mod rules;
mod search;
mod streams;
mod watchers;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use tokio::sync::watch;

use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;
use clients::Traffic;
use history::{History, Outcome, revision};
use recorder::Recorder;
use requests::KEYS;
use watchers::Task;

/// The parameters of a round.
#[derive(Clone, Copy)]
struct Round {
    name: &'static str,
    seed: u64,
    clients: u32,
    watchers: u32,
    /// The number of restarts, and the approximate number of answers between two of them.
    restarts: u32,
    answers: u64,
    /// The number of newest revisions to retain, for no longer than a second more; 0 for the server's default.
    keep: u64,
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

/// The choices of one client, independent of all others.
fn random(seed: u64, whose: u32) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(whose))
}

fn nobody_failed(tasks: &[Task]) {
    assert!(!tasks.iter().any(Task::is_finished), "a client or a watcher has failed");
}

/// The result of a round.
struct Played {
    recorder: Arc<Recorder>,
    /// Kills, and clean restarts.
    kills: u32,
    stops: u32,
}

/// Runs one round.
async fn play(round: Round) -> Played {
    let Round { name, seed, clients, watchers, restarts, answers, keep } = round;
    let keep_flag = keep.to_string();
    let mut flags = vec!["--store-retention-age", "24h"];
    if keep > 0 {
        flags = vec!["--store-retention-age", "0s", "--store-retention-revisions", &keep_flag];
    }
    // Without controllers, only the clients write.
    let mut plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    let http = plane.http();
    for namespace in ["hot", "warm"] {
        http.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
    }
    let begin = revision(&http.get("/api/v1/secrets").await.expect(200));
    let recorder =
        Arc::new(Recorder::new(&format!("{name}-{seed}"), begin, if keep > 0 { keep } else { 10_000 }));
    let traffic = Traffic {
        recorder: recorder.clone(),
        http: plane.http(),
        stop: Arc::new(AtomicBool::new(false)),
        newest: Arc::new(AtomicU64::new(begin)),
        begin,
        answered: Arc::default(),
    };
    let (tell, finish) = watch::channel(None);
    let listening = watchers::start(&traffic, &finish, watchers, |id| random(seed, id));
    let working: Vec<Task> = (100..100 + clients)
        .map(|id| tokio::spawn(clients::work(traffic.clone(), id, random(seed, id))))
        .collect();
    let mut random = random(seed, 0);
    let (mut kills, mut stops) = (0, 0);
    for restart in 0..=restarts {
        let until =
            traffic.answered.load(Ordering::SeqCst) + random.random_range(answers / 2..=answers * 3 / 2);
        wait::until("clients are answered", async || {
            nobody_failed(&working);
            nobody_failed(&listening);
            let answered = traffic.answered.load(Ordering::SeqCst);
            if answered >= until { Ok(()) } else { Err(format!("{answered} of {until}")) }
        })
        .await;
        if restart == restarts {
            break;
        }
        if random.random_ratio(2, 3) {
            kills += 1;
            plane.kill().await;
        } else {
            stops += 1;
            plane.stop().await;
        }
        plane.start_again().await;
        if random.random_ratio(1, 4) {
            // While the server is still recovering.
            kills += 1;
            plane.kill_and_restart().await;
        }
    }
    traffic.stop.store(true, Ordering::SeqCst);
    for client in working {
        wait::in_time("the clients end", client).await.unwrap();
    }
    let last = revision(&http.get("/api/v1/secrets").await.expect(200));
    tell.send(Some(last)).unwrap();
    for watcher in listening {
        wait::in_time("the watchers have heard everything", watcher).await.unwrap();
    }
    plane.stop().await;
    Played { recorder, kills, stops }
}

/// Fails with a summary of all faults.
fn judge(history: &History) {
    let faults = check::check(history).0;
    let shown: Vec<String> =
        faults.iter().take(8).map(|fault| format!("{}: {}", fault.rule, fault.what)).collect();
    assert!(faults.is_empty(), "{} faults, the first of them:\n{}", faults.len(), shown.join("\n"));
}

fn tell(round: &Round, kills: u32, stops: u32, history: &History) {
    let count = |fits: fn(&Outcome) -> bool| {
        history.operations.iter().filter(|operation| fits(&operation.outcome)).count()
    };
    let unknown = count(|outcome| matches!(outcome, Outcome::Unknown(_)));
    let refused = count(|outcome| matches!(outcome, Outcome::Refused { .. }));
    let expired = count(|outcome| matches!(outcome, Outcome::Refused { code: 410, .. }));
    let written = history.operations.iter().filter(|operation| operation.changed()).count();
    let watchers: std::collections::BTreeSet<u32> =
        history.streams.iter().map(|stream| stream.watcher).collect();
    let watchers = watchers.len();
    let lines: usize = history.streams.iter().map(|stream| stream.heard.len()).sum();
    eprintln!(
        "{} {}: {kills} kills, {stops} stops, {} operations ({written} written, {refused} refused, {expired} of them \
         expired, {unknown} unknown), {} streams of {watchers} watchers, {lines} events",
        round.name,
        round.seed,
        history.operations.len(),
        history.streams.len(),
    );
}

async fn rounds(short: Round) {
    let seed = number("ORLOP_LINEAR_SEED").unwrap_or_else(|| rand::random::<u64>() >> 16);
    let long = number("ORLOP_LINEAR_ROUNDS");
    eprintln!("{}: ORLOP_LINEAR_SEED={seed}", short.name);
    for n in 0..long.unwrap_or(1) {
        let mut round = Round { seed: seed.wrapping_add(n), ..short };
        if long.is_some() {
            round = Round { restarts: 6, answers: 1000, clients: 8, watchers: 10, ..round };
        }
        let Played { recorder, kills, stops } = play(round).await;
        let history = recorder.history();
        tell(&round, kills, stops, &history);
        judge(&history);
    }
}

#[tokio::test]
async fn operations_are_linearizable_without_compaction() {
    let short = Round { name: "kept", seed: 0, clients: 6, watchers: 6, restarts: 3, answers: 400, keep: 0 };
    rounds(short).await;
}

#[tokio::test]
async fn operations_are_linearizable_with_compaction() {
    let short =
        Round { name: "forgotten", seed: 0, clients: 6, watchers: 6, restarts: 2, answers: 500, keep: 150 };
    rounds(short).await;
}

/// Checks a saved history.
#[test]
fn saved_history_is_linearizable() {
    let Some(path) = std::env::var_os("ORLOP_LINEAR_HISTORY") else { return };
    judge(&History::read(Path::new(&path)).unwrap());
}

#[test]
fn every_key_has_a_recorded_prefix() {
    for key in KEYS {
        let known = ["secrets/", "persistentvolumeclaims/", "persistentvolumes/"];
        assert!(known.iter().any(|prefix| key.starts_with(prefix)), "{key}");
    }
}
