//! Long operations outside the workers (recycle, delete, provision), at most one per key. A key that runs, or that failed
//! recently, is skipped; its controller tries again at the next resync.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::worker::panic_text;

/// How long the first failure blocks a key. Upstream: exponentialbackoff.
const FIRST_BLOCK: Duration = Duration::from_millis(500);
/// The maximum time for which a key is blocked.
const MAX_BLOCK: Duration = Duration::from_secs(122);

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// The operation was started.
    Yes,
    /// An operation with this key is already running.
    Running,
    /// The key failed recently and is blocked for this remaining time.
    Blocked(Duration),
}

/// The map of operations. Clones share it.
#[derive(Clone)]
pub struct Operations {
    entries: Arc<Mutex<HashMap<String, Entry>>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

#[derive(Clone, Copy)]
struct Entry {
    running: bool,
    /// When the key last failed, and for how long it is blocked.
    failed: Option<(Instant, Duration)>,
}

impl Operations {
    /// Creates an empty map. When `shutdown` is cancelled, operations are dropped at an await point.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self { entries: Arc::default(), tasks: TaskTracker::new(), shutdown }
    }

    /// Starts `operation` under `key` unless the key is running or blocked. An error blocks the key for 500 ms,
    /// doubling up to 2 min 2 s; success clears the block. An operation that must not be delayed (recycle) returns
    /// `Ok`.
    pub fn start<E, Fut>(&self, key: &str, operation: Fut) -> Started
    where
        E: Display,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        {
            let mut entries = self.entries();
            let entry = entries.entry(key.to_owned()).or_insert(Entry { running: false, failed: None });
            if entry.running {
                return Started::Running;
            }
            if let Some((at, block)) = entry.failed {
                let left = (at + block).saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    return Started::Blocked(left);
                }
            }
            entry.running = true;
        }
        let (map, key, shutdown) = (self.clone(), key.to_owned(), self.shutdown.clone());
        self.tasks.spawn(async move {
            let failure = tokio::select! {
                () = shutdown.cancelled() => None,
                outcome = AssertUnwindSafe(operation).catch_unwind() => match outcome {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(panic) => Some(format!("panic: {}", panic_text(panic.as_ref()))),
                },
            };
            map.finished(&key, failure);
        });
        Started::Yes
    }

    /// Whether an operation with this key is running.
    pub fn is_running(&self, key: &str) -> bool {
        self.entries().get(key).is_some_and(|e| e.running)
    }

    /// Waits until every operation has ended. Call it after the token is cancelled.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn finished(&self, key: &str, failure: Option<String>) {
        let mut entries = self.entries();
        let Some(error) = failure else {
            entries.remove(key);
            return;
        };
        let Some(entry) = entries.get_mut(key) else { return };
        let block = entry.failed.map_or(FIRST_BLOCK, |(_, last)| (last * 2).min(MAX_BLOCK));
        tracing::debug!(operation = key, %error, block_ms = block.as_millis(), "operation failed");
        *entry = Entry { running: false, failed: Some((Instant::now(), block)) };
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> Operations {
        Operations::new(CancellationToken::new())
    }

    async fn rest() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn running_key_is_skipped_and_another_is_not() {
        let map = map();
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let first = async move { wait.await.map_err(|e| e.to_string()) };
        assert_eq!(map.start("delete-pv-1[u]", first), Started::Yes);
        rest().await;
        assert_eq!(map.start("delete-pv-1[u]", async { Ok::<_, String>(()) }), Started::Running);
        assert_eq!(map.start("delete-pv-2[u]", async { Ok::<_, String>(()) }), Started::Yes);
        assert!(go.send(()).is_ok());
        rest().await;
        assert!(!map.is_running("delete-pv-1[u]"));
        assert_eq!(map.start("delete-pv-1[u]", async { Ok::<_, String>(()) }), Started::Yes);
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_doubles_up_to_the_limit_and_success_clears_it() {
        let map = map();
        let mut blocks = Vec::new();
        for _ in 0..10 {
            assert_eq!(map.start("k", async { Err::<(), _>("no") }), Started::Yes);
            rest().await;
            let Started::Blocked(left) = map.start("k", async { Ok::<_, String>(()) }) else {
                panic!("a failed key is blocked")
            };
            blocks.push((left + Duration::from_millis(1)).as_millis());
            tokio::time::sleep(left).await;
        }
        assert_eq!(blocks, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000]);
        assert_eq!(map.start("k", async { Ok::<_, String>(()) }), Started::Yes);
        rest().await;
        assert_eq!(map.start("k", async { Ok::<_, String>(()) }), Started::Yes);
    }

    #[tokio::test(start_paused = true)]
    async fn panic_is_a_failure_of_its_key() {
        let map = map();
        let boom = async {
            if true {
                panic!("on purpose");
            }
            Ok::<_, String>(())
        };
        assert_eq!(map.start("k", boom), Started::Yes);
        rest().await;
        assert!(matches!(map.start("k", async { Ok::<_, String>(()) }), Started::Blocked(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_ends_running_operations() {
        let shutdown = CancellationToken::new();
        let map = Operations::new(shutdown.clone());
        assert_eq!(map.start("k", std::future::pending::<Result<(), String>>()), Started::Yes);
        shutdown.cancel();
        map.drained().await;
        assert!(!map.is_running("k"));
    }
}
