//! Sends events to the webhook, as an `EventList`.
//!
//! Upstream: apiserver `plugin/pkg/audit/webhook`, `pkg/util/webhook/webhook.go`.

use std::time::Duration;

use bytes::Bytes;
use rand::Rng as _;
use tokio::runtime::Handle;

use super::config::{Post, PostError};
use super::queue::Queue;
use super::queued::QueuedEvent;
use super::sink::{Backend, WriteFailure};

/// How often a request is sent (upstream: Steps).
const ATTEMPTS: u32 = 5;
/// The growth of the time between two attempts (upstream: Factor).
const BACKOFF_FACTOR: f64 = 1.5;
/// The random part of that time (upstream: Jitter).
const JITTER: f64 = 0.2;
/// The time limit of an attempt, as upstream.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The size from which a request is sent, bytes. A request is larger by at most one event.
const REQUEST_BYTES: usize = 4 << 20;

const HEAD: &[u8] = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;
const TAIL: &[u8] = b"]}";

/// The webhook.
pub(super) struct Webhook {
    post: Post,
    initial_backoff: Duration,
    /// The connection belongs to this runtime.
    runtime: Handle,
}

impl Webhook {
    /// A webhook whose requests run on the current runtime.
    pub(super) fn new(post: Post, initial_backoff: Duration) -> Self {
        Webhook { post, initial_backoff, runtime: Handle::current() }
    }

    /// Sends a document, repeatedly if necessary.
    fn send(&self, document: Bytes, queue: &Queue) -> Result<(), PostError> {
        let mut attempt = 0;
        loop {
            let post = (self.post)(document.clone());
            let timeout = PostError { message: "no response within 30s".to_owned(), is_temporary: true };
            let sent = self
                .runtime
                .block_on(async { tokio::time::timeout(TIMEOUT, post).await.unwrap_or(Err(timeout)) });
            attempt += 1;
            match sent {
                Err(error) if error.is_temporary && attempt < ATTEMPTS => {
                    let wait = backoff(self.initial_backoff, attempt - 1, rand::rng().random());
                    // A stop does not wait for a webhook that fails.
                    if !queue.pause(wait) {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }
}

/// The time before a further attempt. `random` is between 0 and 1.
fn backoff(initial: Duration, attempt: u32, random: f64) -> Duration {
    let factor = BACKOFF_FACTOR.powi(i32::try_from(attempt).unwrap_or(i32::MAX)) * (1.0 + JITTER * random);
    Duration::try_from_secs_f64(initial.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

impl Backend for Webhook {
    fn write(&mut self, events: &[&QueuedEvent], queue: &Queue) -> Result<(), WriteFailure> {
        let mut failure: Option<WriteFailure> = None;
        let (mut document, mut count) = (HEAD.to_vec(), 0);
        for (nth, event) in events.iter().enumerate() {
            if count > 0 {
                document.push(b',');
            }
            event.write_json(&mut document);
            count += 1;
            if document.len() < REQUEST_BYTES && nth + 1 < events.len() {
                continue;
            }
            document.extend_from_slice(TAIL);
            let full = std::mem::replace(&mut document, HEAD.to_vec());
            if let Err(error) = self.send(full.into(), queue) {
                let failed =
                    failure.get_or_insert_with(|| WriteFailure { count: 0, error: error.to_string() });
                failed.count += count;
            }
            count = 0;
        }
        failure.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use futures::FutureExt as _;
    use parking_lot::Mutex;
    use serde_json::Value;

    use super::*;
    use crate::audit::queued::testing::queued;

    /// A webhook that responds with these results, and the requests that it received.
    fn webhook(results: Vec<Result<(), PostError>>) -> (Webhook, Arc<Mutex<Vec<Value>>>) {
        let received: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = received.clone();
        let results = Mutex::new(results.into_iter());
        let post: Post = Arc::new(move |document| {
            seen.lock().push(serde_json::from_slice(&document).unwrap());
            let result = results.lock().next().unwrap_or(Ok(()));
            async move { result }.boxed()
        });
        (Webhook::new(post, Duration::from_millis(1)), received)
    }

    fn error(is_temporary: bool) -> Result<(), PostError> {
        Err(PostError { message: "no".to_owned(), is_temporary })
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn temporary_errors_are_retried() {
        for (case, results, want, requests) in [
            ("1 accepted", vec![], Ok(()), 1),
            ("2 at the third attempt", vec![error(true), error(true)], Ok(()), 3),
            ("3 permanent", vec![error(false)], Err(2), 1),
            ("4 too often", (0..9).map(|_| error(true)).collect(), Err(2), 5),
        ] {
            let (mut webhook, received) = webhook(results);
            let queue = Queue::new(1, 1);
            let result =
                std::thread::spawn(move || webhook.write(&[&queued(), &queued()], &queue)).join().unwrap();
            assert_eq!(result.map_err(|failure| failure.count), want, "{case}");
            let received = received.lock();
            assert_eq!(received.len(), requests, "{case}");
            assert_eq!(received[0]["kind"], "EventList", "{case}");
            let items = received[0]["items"].as_array().unwrap();
            assert!(items.len() == 2 && items[1]["kind"] == "Event", "{case}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn stop_ends_the_repetitions() {
        let (mut webhook, received) = webhook((0..9).map(|_| error(true)).collect());
        webhook.initial_backoff = Duration::from_secs(3600);
        let queue = Queue::new(1, 1);
        queue.close();
        let result = std::thread::spawn(move || webhook.write(&[&queued()], &queue)).join().unwrap();
        assert_eq!((result.is_err(), received.lock().len()), (true, 1));
    }

    #[test]
    fn time_between_attempts_grows() {
        let at = |attempt, random| backoff(Duration::from_secs(10), attempt, random).as_secs_f64();
        assert_eq!((at(0, 0.0), at(0, 1.0), at(2, 0.0)), (10.0, 12.0, 22.5));
        assert!(backoff(Duration::MAX, 9, 1.0) == Duration::MAX);
    }
}
