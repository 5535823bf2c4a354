//! Waits with a watch, without polling, until objects reach a phase or are deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem::Finder;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::event::{self, Reader};

/// Follows a collection in a separate task.
pub(crate) struct Follower {
    /// Completes with the time at which the last object reached the phase.
    task: JoinSet<Result<Instant, BenchError>>,
    reached: Arc<AtomicUsize>,
    what: String,
}

impl Follower {
    /// Follows the collection from `revision` on, until the objects `0..n` have reached `phase`.
    pub(crate) fn start(
        endpoint: &Arc<Endpoint>,
        path: &str,
        revision: u64,
        prefix: &str,
        phase: &str,
        n: usize,
    ) -> Self {
        let sign = Finder::new(&format!("\"phase\":\"{phase}\"")).into_owned();
        Self::until(endpoint, path, revision, prefix, (phase, sign), n)
    }

    /// Follows the collection from `revision` on, until the objects `0..n` are deleted.
    pub(crate) fn of_ends(
        endpoint: &Arc<Endpoint>,
        path: &str,
        revision: u64,
        prefix: &str,
        n: usize,
    ) -> Self {
        let sign = Finder::new("{\"type\":\"DELETED\"").into_owned();
        Self::until(endpoint, path, revision, prefix, ("gone", sign), n)
    }

    /// Follows the collection until an event of each object contains `sign`.
    fn until(
        endpoint: &Arc<Endpoint>,
        path: &str,
        revision: u64,
        prefix: &str,
        (phase, sign): (&str, Finder<'static>),
        n: usize,
    ) -> Self {
        let reached = Arc::new(AtomicUsize::new(0));
        let what = format!("expected {n} objects {prefix}* to be {phase}");
        let mut task = JoinSet::new();
        let reader = Reader::new(prefix);
        task.spawn(follow(endpoint.clone(), path.to_owned(), revision, reader, sign, n, reached.clone()));
        Follower { task, reached, what }
    }

    /// Waits for the last object and returns when it reached the phase.
    pub(crate) async fn all(mut self, patience: Duration) -> Result<Instant, BenchError> {
        let late = |reached: &AtomicUsize, what: &str| BenchError::Late {
            what: format!("{what}, but only {} are", reached.load(Ordering::Relaxed)),
            seconds: patience.as_secs(),
        };
        match tokio::time::timeout(patience, self.task.join_next()).await {
            Ok(Some(Ok(outcome))) => outcome,
            Ok(Some(Err(_)) | None) | Err(_) => Err(late(&self.reached, &self.what)),
        }
    }
}

async fn follow(
    endpoint: Arc<Endpoint>,
    path: String,
    mut revision: u64,
    reader: Reader,
    sign: Finder<'static>,
    n: usize,
    reached: Arc<AtomicUsize>,
) -> Result<Instant, BenchError> {
    let mut seen = vec![false; n];
    let mut missing = n;
    let mut last = Instant::now();
    loop {
        let connection = Connection::new(endpoint.clone());
        let mut watch = connection.watch(&format!("{path}?watch=1&resourceVersion={revision}")).await?;
        let mut error = None;
        let mut open = true;
        while open && missing > 0 && error.is_none() {
            open = watch
                .more(|event| {
                    if event::is_error(event) {
                        error = Some(String::from_utf8_lossy(event).into_owned());
                        return;
                    }
                    revision = reader.revision(event).unwrap_or(revision);
                    let Some(number) = reader.number(event).filter(|number| *number < n) else { return };
                    if !seen[number] && sign.find(event).is_some() {
                        seen[number] = true;
                        missing -= 1;
                        last = Instant::now();
                    }
                })
                .await?;
            reached.store(n - missing, Ordering::Relaxed);
        }
        if let Some(problem) = error {
            let url = endpoint.url.clone();
            return Err(BenchError::Request { url, what: format!("the watch of {path}"), problem });
        }
        if missing == 0 {
            return Ok(last);
        }
        // API servers end watches periodically; the next watch resumes where this one ended.
    }
}
