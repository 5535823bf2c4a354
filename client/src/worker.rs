//! Runs the workers of a queue: they take a key, sync it, and retry it with a delay on failure. A panic in a sync
//! is logged and counts as a failure of that key alone (I12). Failing keys are registered in
//! [`Failing`](crate::failing::Failing).

use std::any::Any;
use std::fmt::Display;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failing::{Failure, Syncs};
use crate::queue::WorkQueue;
use crate::time_slice::TimeSlice;

/// Runs `workers` workers until the queue is shut down. After an error the key is queued again with rate limiting, after a
/// success its rate limit is reset.
pub async fn run<K, E, F, Fut>(queue: &WorkQueue<K>, workers: usize, syncs: Syncs<K>, sync: F)
where
    K: Hash + Eq + Clone + Display,
    E: Display,
    F: Fn(K) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    join_all((0..workers.max(1)).map(|_| one(queue, &syncs, &sync))).await;
}

/// Like [`run`] with up to `at_once` concurrent syncs, each in its own task, but started one after the other in the order
/// of the queue: a sync runs to its first wait before the next one starts. So a sync that decides without waiting decides
/// on the decisions of all earlier ones.
pub async fn run_in_order<K, E, F, Fut>(queue: &WorkQueue<K>, at_once: usize, syncs: Syncs<K>, sync: F)
where
    K: Hash + Eq + Clone + Display + Send + 'static,
    E: Display + Send + 'static,
    F: Fn(K) -> Fut,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
{
    let free = Arc::new(Semaphore::new(at_once.max(1)));
    // Dropping the set aborts the running syncs.
    let mut running = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        while running.try_join_next().is_some() {}
        let Some(key) = queue.get().await else { break };
        let (queue, syncs, sync) = (queue.clone(), syncs.clone(), sync(key.clone()));
        let mut begun = Box::pin(async move {
            attempt(&queue, &syncs, key, sync).await;
            drop(permit);
        });
        if futures::poll!(begun.as_mut()).is_pending() {
            running.spawn(begun);
        }
    }
    while running.join_next().await.is_some() {}
}

/// Like [`run`], until `shutdown` is cancelled. Running syncs are allowed to finish.
pub async fn run_until<K, E, F, Fut>(
    shutdown: &CancellationToken,
    queue: &WorkQueue<K>,
    workers: usize,
    syncs: Syncs<K>,
    sync: F,
) where
    K: Hash + Eq + Clone + Display,
    E: Display,
    F: Fn(K) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    let closing = async {
        shutdown.cancelled().await;
        queue.shutdown();
    };
    tokio::join!(run(queue, workers, syncs, sync), closing);
}

async fn one<K, E, F, Fut>(queue: &WorkQueue<K>, syncs: &Syncs<K>, sync: &F)
where
    K: Hash + Eq + Clone + Display,
    E: Display,
    F: Fn(K) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    let mut slice = TimeSlice::start();
    while let Some(key) = slice.wait(queue.get()).await {
        // Boxed, so that a worker that waits for a key needs no memory for a sync: controllers have up to 16 workers, and syncs 20 KiB.
        slice.wait(Box::pin(attempt(queue, syncs, key.clone(), async { sync(key).await }))).await;
        // Syncs that send no request never wait.
        slice.yield_if_over().await;
    }
}

/// One sync of a key from the queue: runs it, queues a retry if it failed or panicked, and marks the key
/// as done.
pub async fn attempt<K, E>(
    queue: &WorkQueue<K>,
    syncs: &Syncs<K>,
    key: K,
    sync: impl Future<Output = Result<(), E>>,
) where
    K: Hash + Eq + Clone + Display,
    E: Display,
{
    let outcome = match AssertUnwindSafe(sync).catch_unwind().await {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(error)) => Outcome::Failed(Failure::Error, error.to_string()),
        Err(panic) => Outcome::Failed(Failure::Panic, panic_text(panic.as_ref()).to_owned()),
    };
    settle(queue, syncs, &key, outcome);
}

/// The end of a sync.
enum Outcome {
    Done,
    Failed(Failure, String),
}

/// Records the end of a sync. Apart from [`attempt`], so that the compiler translates it once for each type of key and not for
/// each sync.
fn settle<K>(queue: &WorkQueue<K>, syncs: &Syncs<K>, key: &K, outcome: Outcome)
where
    K: Hash + Eq + Clone + Display,
{
    let controller = syncs.controller();
    match outcome {
        Outcome::Done => {
            if queue.failures(key) > 0 {
                syncs.succeeded(key);
            }
            queue.forget(key);
        }
        Outcome::Failed(failure, text) => {
            syncs.failed(key, failure, &text);
            match failure {
                Failure::Error => {
                    tracing::debug!(controller, %key, error = text, "sync failed, will be tried again")
                }
                Failure::Panic => {
                    tracing::error!(controller, %key, panic = text, "sync panicked, will be tried again")
                }
            }
            queue.add_rate_limited(key.clone());
        }
    }
    queue.done(key);
}

/// Runs `task` until it returns. After a panic, it runs again after `pause`.
pub async fn restart_after_panic<F, Fut>(name: &str, pause: Duration, task: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = ()>,
{
    while let Err(panic) = AssertUnwindSafe(task()).catch_unwind().await {
        tracing::error!(task = name, panic = panic_text(panic.as_ref()), "task panicked, it starts again");
        tokio::time::sleep(pause).await;
    }
}

/// The message of a panic, if it is text.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return text;
    }
    panic.downcast_ref::<String>().map_or("(no text)", String::as_str)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::failing::Failing;
    use crate::queue::RateLimit;

    #[tokio::test(start_paused = true)]
    async fn i12_failing_and_panicking_keys_do_not_stop_the_others() {
        let queue = WorkQueue::new(RateLimit::default());
        let seen = Mutex::new(Vec::new());
        for key in ["fails", "panics", "well"] {
            queue.add(key);
        }
        run(&queue, 1, Syncs::other("test", &Failing::default()), |key| {
            let (queue, seen) = (&queue, &seen);
            async move {
                let mut seen = seen.lock();
                let nth = seen.iter().filter(|k| **k == key).count();
                seen.push(key);
                if seen.len() == 5 {
                    queue.shutdown();
                }
                drop(seen);
                match (key, nth) {
                    ("fails", 0) => Err("no"),
                    ("panics", 0) => panic!("on purpose"),
                    _ => Ok(()),
                }
            }
        })
        .await;
        let seen = seen.into_inner();
        assert_eq!(seen, ["fails", "panics", "well", "fails", "panics"]);
    }

    #[tokio::test(start_paused = true)]
    async fn task_starts_again_after_a_panic() {
        let runs = std::sync::atomic::AtomicUsize::new(0);
        restart_after_panic("test", Duration::from_secs(1), || async {
            let run = runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            assert!(run >= 2, "on purpose");
        })
        .await;
        assert_eq!(runs.into_inner(), 3);
    }

    /// Keys in the order in which their syncs started, and the maximum number of concurrent syncs.
    #[derive(Default)]
    struct Log {
        begun: Vec<&'static str>,
        now: usize,
        most: usize,
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn syncs_start_in_queue_order_and_wait_concurrently() {
        const KEYS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let queue = WorkQueue::new(RateLimit::default());
        KEYS.into_iter().for_each(|key| queue.add(key));
        let log = Arc::new(Mutex::new(Log::default()));
        let met = Arc::new(tokio::sync::Barrier::new(4));
        run_in_order(&queue, 4, Syncs::other("test", &Failing::default()), |key| {
            let (queue, log, met) = (queue.clone(), Arc::clone(&log), Arc::clone(&met));
            async move {
                let lock = || log.lock();
                {
                    let mut log = lock();
                    log.begun.push(key);
                    log.now += 1;
                    log.most = log.most.max(log.now);
                }
                // Completes only when four syncs wait concurrently.
                met.wait().await;
                let mut log = lock();
                log.now -= 1;
                if log.begun.len() == KEYS.len() && log.now == 0 {
                    queue.shutdown();
                }
                Ok::<_, String>(())
            }
        })
        .await;
        let log = log.lock();
        assert_eq!((log.begun.as_slice(), log.most), (KEYS.as_slice(), 4));
    }

    #[tokio::test(start_paused = true)]
    async fn i12_concurrent_failures_are_retried_and_a_panic_stops_no_other_key() {
        let queue = WorkQueue::new(RateLimit::default());
        ["fails", "panics", "well"].into_iter().for_each(|key| queue.add(key));
        let seen = Arc::new(Mutex::new(Vec::new()));
        run_in_order(&queue, 2, Syncs::other("test", &Failing::default()), |key| {
            let (queue, seen) = (queue.clone(), Arc::clone(&seen));
            async move {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                let mut seen = seen.lock();
                let nth = seen.iter().filter(|k| **k == key).count();
                seen.push(key);
                if seen.len() == 5 {
                    queue.shutdown();
                }
                drop(seen);
                match (key, nth) {
                    ("fails", 0) => Err("no"),
                    ("panics", 0) => panic!("on purpose"),
                    _ => Ok(()),
                }
            }
        })
        .await;
        let mut seen = seen.lock().clone();
        seen.sort_unstable();
        assert_eq!(seen, ["fails", "fails", "panics", "panics", "well"]);
    }
}
