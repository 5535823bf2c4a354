//! Load: a number of requests with a number of requests in flight, each timed, each response checked.
//!
//! A closed loop: a connection that completes a request takes the next number. (The open loop is in
//! `rows/watch.rs`.)

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::client::{Connection, Draft};
use crate::endpoint::Endpoint;
use crate::samples::Samples;

/// Writes request number `n` into a draft.
pub(crate) type Fill = Arc<dyn Fn(usize, &mut Draft) + Send + Sync>;

/// One kind of request.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) in_flight: usize,
    /// The statuses of success.
    pub(crate) wanted: &'static [u16],
    pub(crate) fill: Fill,
}

/// The results of a load.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Latencies of the successful requests.
    pub(crate) samples: Samples,
    pub(crate) elapsed: Duration,
    pub(crate) failed: u64,
    pub(crate) first_failure: Option<String>,
    /// Bytes of the response bodies.
    pub(crate) bytes: u64,
    /// Processor time of the load generator and, if visible, of the server.
    pub(crate) own_cpu: Duration,
    pub(crate) server_cpu: Option<Duration>,
}

impl Load {
    /// Successful requests per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.samples.len() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Adds the results of a load that ran after this one, not concurrently.
    pub(crate) fn merge(&mut self, other: Load) {
        self.elapsed += other.elapsed;
        self.own_cpu += other.own_cpu;
        self.server_cpu = match (self.server_cpu, other.server_cpu) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.beside(other);
    }

    /// Adds the results of a load that ran concurrently.
    fn beside(&mut self, other: Load) {
        self.samples.merge(other.samples);
        self.failed += other.failed;
        self.bytes += other.bytes;
        if self.first_failure.is_none() {
            self.first_failure = other.first_failure;
        }
    }

    /// Records one request.
    pub(crate) fn note(&mut self, took: Duration, outcome: Result<usize, String>) {
        match outcome {
            Ok(bytes) => {
                self.samples.record(took);
                self.bytes += bytes as u64;
            }
            Err(problem) => {
                self.failed += 1;
                self.first_failure.get_or_insert(problem);
            }
        }
    }

    /// A description of the failures; `None` without failures.
    pub(crate) fn problem(&self, what: &str) -> Option<String> {
        let first = self.first_failure.as_deref()?;
        let all = self.samples.len() as u64 + self.failed;
        Some(format!("{what}: {} of {all} requests failed; the first: {first}", self.failed))
    }
}

/// Sends the requests with the numbers `from..from + n`.
pub(crate) async fn drive(endpoint: &Arc<Endpoint>, work: &Work, from: usize, n: usize) -> Load {
    let next = Arc::new(AtomicUsize::new(from));
    let end = from + n;
    let mut tasks = JoinSet::new();
    let mut connections = Vec::new();
    for _ in 0..work.in_flight.min(n) {
        let mut connection = Connection::new(endpoint.clone());
        // If connecting fails here, the first request connects again; a second failure counts.
        let _ = connection.open().await;
        connections.push(connection);
    }
    let start = Instant::now();
    for connection in connections {
        tasks.spawn(worker(connection, work.clone(), next.clone(), end));
    }
    let mut all = Load::default();
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(load) => all.beside(load),
            Err(error) => all.note(Duration::ZERO, Err(format!("a worker ended: {error}"))),
        }
    }
    all.elapsed = start.elapsed();
    all
}

async fn worker(mut connection: Connection, work: Work, next: Arc<AtomicUsize>, end: usize) -> Load {
    let mut load = Load { samples: Samples::with_capacity(1024), ..Load::default() };
    let mut draft = Draft::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return load;
        }
        (work.fill)(number, &mut draft);
        let start = Instant::now();
        let outcome = match connection.call(&draft).await {
            Ok(answer) if work.wanted.contains(&answer.status) => Ok(answer.body.len()),
            Ok(answer) => Err(format!("{} {}: {}", draft.method, draft.path, answer.words())),
            Err(error) => Err(error.to_string()),
        };
        load.note(start.elapsed(), outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_loads_add_up() {
        let mut all = Load::default();
        for round in 0..2u64 {
            let mut load = Load { elapsed: Duration::from_secs(1), ..Load::default() };
            load.note(Duration::from_millis(2), Ok(10));
            load.note(Duration::from_millis(2), Err(format!("round {round}")));
            all.merge(load);
        }
        assert_eq!((all.samples.len(), all.bytes, all.failed), (2, 20, 2));
        assert!((all.per_second() - 1.0).abs() < 1e-9);
        let problem = all.problem("x").expect("there were failures");
        assert_eq!(problem, "x: 2 of 4 requests failed; the first: round 0");
    }
}
