//! Many watchers and a constant rate of writes: lost, duplicated and reordered events, and the latency of all
//! others.
//!
//! The writes are an open loop: write `i` is due at its time on the schedule, and the latency of an event counts
//! from that time, so a stalled server is charged for every delayed write. Up to 64 writes can be in flight; when
//! all are, the next is sent late and its latency includes the delay. The runtime's timer has a resolution of
//! 1 ms, so every figure includes up to 1 ms.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::child::Role;
use crate::client::{Connection, Draft};
use crate::endpoint::Endpoint;
use crate::environment::{Environment, IN_FLIGHT, Server, creates};
use crate::error::BenchError;
use crate::event::{self, Reader};
use crate::load::{Load, Work};
use crate::objects::{Claim, VOLUMES, volume};
use crate::pace::{self, Schedule};
use crate::report::{Case, Figure};
use crate::samples::Samples;

use super::Done;
use super::requests::cpu_figures;

/// Timeout after the last write. Events that have not arrived by then are lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// Watches opened concurrently.
const OPENING: usize = 32;
/// Writes of the warm-up, which are not measured.
const WARM_UP: usize = 20;

pub(super) async fn run(environment: &Environment) -> Result<Done, BenchError> {
    let prefix = environment.prefix("w");
    let servers = environment.servers(Role::Apiserver).await?;
    let work = creates(VOLUMES, &volume(&environment.run, Claim::None), &prefix, IN_FLIGHT);
    let schedule = Schedule::new(environment.plan.watched_writes_per_second);
    let mut problems = Vec::new();
    for server in &servers {
        server.load(&work, 0, WARM_UP).await;
    }
    let mut next = vec![WARM_UP; servers.len()];
    let mut seen: Vec<WatchSamples> = servers.iter().map(|_| WatchSamples::default()).collect();
    let rounds = environment.plan.rounds;
    for (turn, side) in pace::turns(rounds, servers.len()).into_iter().enumerate() {
        let share = pace::share(environment.plan.watched_writes, rounds, turn / servers.len());
        let round = Round { from: next[side], n: share, schedule, watchers: environment.plan.watchers };
        seen[side].merge(round.run(&servers[side], &work, &prefix).await?);
        next[side] += share;
    }
    for ((server, seen), made) in servers.into_iter().zip(&seen).zip(next) {
        problems.extend(seen.problems(&server.endpoint.url));
        server.clean(VOLUMES, &prefix, made).await?;
        server.done();
    }
    let mut sides = seen.into_iter().map(|seen| seen.figures(environment.plan.watchers, schedule));
    let case = Case {
        name: String::new(),
        server: sides.next().unwrap_or_default(),
        against: sides.next().unwrap_or_default(),
    };
    Ok(Done { cases: vec![case], problems })
}

/// The events that all watchers received.
#[derive(Default)]
struct WatchSamples {
    /// Time from when a write was due until a watcher received its event.
    late: Samples,
    lost: u64,
    duplicated: u64,
    out_of_order: u64,
    /// Watches that failed or broke, and the first reason.
    broken: u64,
    first_broken: Option<String>,
    /// The writes, from when they were due until their responses.
    writes: Load,
}

impl WatchSamples {
    fn merge(&mut self, other: WatchSamples) {
        self.late.merge(other.late);
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.out_of_order += other.out_of_order;
        self.broken += other.broken;
        self.first_broken = self.first_broken.take().or(other.first_broken);
        self.writes.merge(other.writes);
    }

    fn problems(&self, url: &str) -> Vec<String> {
        let mut problems: Vec<String> = self.writes.problem(&format!("watch, {url}")).into_iter().collect();
        let wrong = [
            (self.lost, "events were lost"),
            (self.duplicated, "events arrived twice"),
            (self.out_of_order, "events arrived out of order"),
        ];
        let nonzero = wrong.iter().filter(|(count, _)| *count > 0);
        problems.extend(nonzero.map(|(count, what)| format!("watch, {url}: {count} {what}")));
        if let Some(first) = &self.first_broken {
            problems.push(format!("watch, {url}: {} watches broke; the first: {first}", self.broken));
        }
        problems
    }

    fn figures(self, watchers: usize, schedule: Schedule) -> Vec<Figure> {
        let events = self.late.len();
        let [p50, p99, most] = self.late.percentiles([50.0, 99.0, 100.0]);
        let writes = self.writes.samples.len() as f64;
        let per_second = writes / self.writes.elapsed.as_secs_f64().max(1e-9);
        let [write_p99] = self.writes.samples.percentiles([99.0]);
        let cpu = cpu_figures(self.writes.own_cpu, self.writes.server_cpu, events.max(1) as f64);
        let mut figures = vec![
            Figure::new("watchers", "watchers", "", watchers as f64),
            Figure::new(
                "scheduled_writes_per_s",
                "writes, scheduled",
                "/s",
                f64::from(schedule.per_second()),
            ),
            Figure::new("writes_per_s", "writes, done", "/s", per_second),
            Figure::new("events", "events", "", events as f64),
            Figure::new("lost", "lost", "", self.lost as f64),
            Figure::new("duplicated", "duplicated", "", self.duplicated as f64),
            Figure::new("out_of_order", "out of order", "", self.out_of_order as f64),
            Figure::new("p50_ms", "from due time to receipt, p50", "ms", p50 / 1e3),
            Figure::new("p99_ms", "from due time to receipt, p99", "ms", p99 / 1e3),
            Figure::new("max_ms", "from due time to receipt, longest", "ms", most / 1e3),
            Figure::new("write_p99_ms", "from due time to response, p99", "ms", write_p99 / 1e3),
        ];
        figures.extend(cpu);
        figures
    }
}

/// A number of writes, received by all watchers.
struct Round {
    from: usize,
    n: usize,
    schedule: Schedule,
    watchers: usize,
}

/// State that all watchers of a round share.
struct Shared {
    reader: Reader,
    from: usize,
    n: usize,
    schedule: Schedule,
    /// When the first write is due. Set before that write is sent.
    start: OnceLock<Instant>,
    stop: CancellationToken,
}

impl Round {
    async fn run(&self, server: &Server, work: &Work, prefix: &str) -> Result<WatchSamples, BenchError> {
        let revision = server.revision(VOLUMES).await?;
        let shared = Arc::new(Shared {
            reader: Reader::new(prefix),
            from: self.from,
            n: self.n,
            schedule: self.schedule,
            start: OnceLock::new(),
            stop: CancellationToken::new(),
        });
        let path = format!("{VOLUMES}?watch=1&resourceVersion={revision}");
        let mut watchers = JoinSet::new();
        let turnstile = Arc::new(Semaphore::new(OPENING));
        let (opened, mut all_opened) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..self.watchers {
            let connection = Connection::new(server.endpoint.clone());
            let (turnstile, path, shared) = (turnstile.clone(), path.clone(), shared.clone());
            let opened = opened.clone();
            watchers.spawn(async move {
                let permit = turnstile.acquire().await;
                let watch = connection.watch(&path).await;
                // The receiver is dropped only if the row was aborted.
                let _ = opened.send(());
                drop(permit);
                match watch {
                    Ok(watch) => watcher(watch, &shared).await,
                    Err(error) => Watched { broken: Some(error.to_string()), ..Watched::default() },
                }
            });
        }
        for _ in 0..self.watchers {
            let _ = all_opened.recv().await;
        }

        let before = server.cpu();
        let (writes, acknowledged) = self.write(&server.endpoint, work, &shared).await;
        let mut seen = WatchSamples { writes, ..WatchSamples::default() };
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match tokio::time::timeout_at(deadline, watchers.join_next()).await {
                Ok(None) => break,
                Ok(Some(watched)) => seen.add(watched.unwrap_or_default(), &acknowledged),
                // Events that have not arrived by now are lost; the watchers return the others.
                Err(_) if !shared.stop.is_cancelled() => shared.stop.cancel(),
                Err(_) => match watchers.join_next().await {
                    None => break,
                    Some(watched) => seen.add(watched.unwrap_or_default(), &acknowledged),
                },
            }
        }
        server.cpu().charge(&before, &mut seen.writes);
        Ok(seen)
    }

    /// Writes on schedule. Returns the load, and whether each write was acknowledged.
    async fn write(&self, endpoint: &Arc<Endpoint>, work: &Work, shared: &Arc<Shared>) -> (Load, Vec<bool>) {
        let mut connections = Vec::new();
        for _ in 0..IN_FLIGHT.min(self.n) {
            let mut connection = Connection::new(endpoint.clone());
            // The first request connects again; a second failure counts.
            let _ = connection.open().await;
            connections.push(connection);
        }
        let start = *shared.start.get_or_init(|| Instant::now() + Duration::from_millis(20));
        let next = Arc::new(AtomicUsize::new(0));
        let mut writers = JoinSet::new();
        for connection in connections {
            writers.spawn(writer(connection, work.clone(), shared.clone(), next.clone(), start));
        }
        let mut all = Load::default();
        let mut acknowledged = vec![false; self.n];
        while let Some(done) = writers.join_next().await {
            let Ok(results) = done else {
                all.note(Duration::ZERO, Err("a writer ended".to_owned()));
                continue;
            };
            for (index, took, outcome) in results {
                acknowledged[index] = outcome.is_ok();
                all.note(took, outcome);
            }
        }
        all.elapsed = start.elapsed();
        (all, acknowledged)
    }
}

/// A write: its index on the schedule, its latency since it was due, and its outcome.
type Written = (usize, Duration, Result<usize, String>);

async fn writer(
    mut connection: Connection,
    work: Work,
    shared: Arc<Shared>,
    next: Arc<AtomicUsize>,
    start: Instant,
) -> Vec<Written> {
    let mut results = Vec::new();
    let mut draft = Draft::default();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= shared.n {
            return results;
        }
        (work.fill)(shared.from + index, &mut draft);
        let due = start + shared.schedule.due(index);
        tokio::time::sleep_until(due.into()).await;
        let outcome = match connection.call(&draft).await {
            Ok(answer) if work.wanted.contains(&answer.status) => Ok(answer.body.len()),
            Ok(answer) => Err(answer.words()),
            Err(error) => Err(error.to_string()),
        };
        results.push((index, due.elapsed(), outcome));
    }
}

/// The events that one watcher received.
#[derive(Default)]
struct Watched {
    late: Samples,
    /// By index on the schedule.
    seen: Vec<bool>,
    duplicated: u64,
    out_of_order: u64,
    broken: Option<String>,
}

impl WatchSamples {
    fn add(&mut self, watched: Watched, acknowledged: &[bool]) {
        self.late.merge(watched.late);
        self.duplicated += watched.duplicated;
        self.out_of_order += watched.out_of_order;
        if watched.broken.is_some() {
            self.broken += 1;
            self.first_broken = self.first_broken.take().or(watched.broken);
        }
        let saw = |index: usize| watched.seen.get(index).copied().unwrap_or(false);
        let lost = acknowledged.iter().enumerate().filter(|(index, written)| **written && !saw(*index));
        self.lost += lost.count() as u64;
    }
}

impl Watched {
    fn note(&mut self, event: &[u8], shared: &Shared, newest: &mut u64) {
        if event::is_error(event) {
            self.broken.get_or_insert_with(|| String::from_utf8_lossy(event).into_owned());
            return;
        }
        if let Some(revision) = shared.reader.revision(event) {
            if revision < *newest {
                self.out_of_order += 1;
            }
            *newest = revision.max(*newest);
        }
        let Some(number) = shared.reader.number(event).filter(|_| event::is_added(event)) else { return };
        let Some(index) = number.checked_sub(shared.from).filter(|index| *index < shared.n) else { return };
        if self.seen[index] {
            self.duplicated += 1;
            return;
        }
        self.seen[index] = true;
        if let Some(start) = shared.start.get() {
            self.late.record((*start + shared.schedule.due(index)).elapsed());
        }
    }
}

/// After the last expected event, a watcher reads on until no event arrives for this long.
const SILENCE: Duration = Duration::from_millis(200);
/// Maximum time to read on: other clients may write too.
const AFTERWARDS: Duration = Duration::from_secs(2);

async fn watcher(mut watch: crate::client::Watch, shared: &Shared) -> Watched {
    let mut watched =
        Watched { seen: vec![false; shared.n], late: Samples::with_capacity(shared.n), ..Watched::default() };
    let mut newest = 0;
    let mut whole = false;
    let mut afterwards = std::pin::pin!(tokio::time::sleep(AFTERWARDS));
    while watched.broken.is_none() {
        // All events have arrived; a duplicate may still follow.
        let all = watched.late.len() >= shared.n;
        if all && !whole {
            afterwards.as_mut().reset(tokio::time::Instant::now() + AFTERWARDS);
        }
        whole = all;
        let more = watch.more(|event| watched.note(event, shared, &mut newest));
        let outcome = tokio::select! {
            outcome = more => outcome,
            () = shared.stop.cancelled() => return watched,
            () = tokio::time::sleep(SILENCE), if whole => return watched,
            () = &mut afterwards, if whole => return watched,
        };
        match outcome {
            Ok(true) => {}
            Ok(false) | Err(_) if whole => return watched,
            Ok(false) => watched.broken = Some("the server has ended the watch".to_owned()),
            Err(error) => watched.broken = Some(error.to_string()),
        }
    }
    watched
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Shared {
        Shared {
            reader: Reader::new("w-"),
            from: 100,
            n: 3,
            schedule: Schedule::new(1000),
            start: OnceLock::from(Instant::now()),
            stop: CancellationToken::new(),
        }
    }

    fn event(kind: &str, number: usize, revision: u64) -> Vec<u8> {
        let object = format!(r#"{{"metadata":{{"name":"w-{number:07}","resourceVersion":"{revision}"}}}}"#);
        format!(r#"{{"type":"{kind}","object":{object}}}"#).into_bytes()
    }

    #[test]
    fn watcher_counts_lost_duplicated_and_reordered_events() {
        type Case<'a> = (&'a str, Vec<(&'a str, usize, u64)>, [u64; 3]);
        // Lost, duplicated, out of order; all three writes were acknowledged.
        let cases: [Case<'_>; 6] = [
            ("1 all of it", vec![("ADDED", 100, 7), ("ADDED", 101, 8), ("ADDED", 102, 9)], [0, 0, 0]),
            ("2 one is missing", vec![("ADDED", 100, 7), ("ADDED", 102, 9)], [1, 0, 0]),
            (
                "3 one is duplicated",
                vec![("ADDED", 100, 7), ("ADDED", 100, 7), ("ADDED", 101, 8), ("ADDED", 102, 9)],
                [0, 1, 0],
            ),
            ("4 turned round", vec![("ADDED", 101, 8), ("ADDED", 100, 7), ("ADDED", 102, 9)], [0, 0, 1]),
            (
                "5 others do not count",
                vec![("ADDED", 99, 1), ("ADDED", 103, 2), ("MODIFIED", 100, 3)],
                [3, 0, 0],
            ),
            (
                "6 later writes may be earlier in the store",
                vec![("ADDED", 102, 7), ("ADDED", 100, 8), ("ADDED", 101, 9)],
                [0, 0, 0],
            ),
        ];
        for (case, events, want) in cases {
            let shared = shared();
            let mut watched = Watched { seen: vec![false; 3], ..Watched::default() };
            let mut newest = 0;
            for (kind, number, revision) in events {
                watched.note(&event(kind, number, revision), &shared, &mut newest);
            }
            let mut seen = WatchSamples::default();
            seen.add(watched, &[true; 3]);
            assert_eq!([seen.lost, seen.duplicated, seen.out_of_order], want, "{case}");
            assert_eq!(seen.problems("url").len(), want.iter().filter(|count| **count > 0).count(), "{case}");
        }
    }

    #[test]
    fn events_of_failed_writes_are_not_lost() {
        let mut seen = WatchSamples::default();
        seen.add(Watched::default(), &[true, false, false]);
        assert_eq!(seen.lost, 1);
    }
}
