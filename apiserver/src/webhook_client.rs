//! Calls of the webhooks that a kubeconfig file describes, which review requests and tokens.
//!
//! The process passes a [`WebhookPost`] to the server, which has the address and the credentials of the webhook. [`ReviewClient`]
//! bounds the time and the number of calls, and retries failed ones.
//!
//! Upstream: apiserver `pkg/util/webhook/webhook.go`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use rand::Rng as _;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::limits::compute::leave_place;

/// Maximum number of attempts of a review (upstream: Steps).
const ATTEMPTS: u32 = 5;
/// The time before the second attempt (upstream: Duration).
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
/// The growth of the time between two attempts (upstream: Factor).
const BACKOFF_FACTOR: f64 = 1.5;
/// The random part of that time (upstream: Jitter).
const JITTER: f64 = 0.2;
/// The time limit of an attempt, as upstream.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of calls of one webhook at the same time: bounds the memory for answers.
const CONCURRENT: usize = 64;
/// Maximum size of an answer, bytes.
pub const LONGEST_ANSWER: usize = 1 << 20;

/// Sends a JSON document to a webhook, and returns the body of a successful response. The caller bounds its time.
pub type WebhookPost = Arc<dyn Fn(Bytes) -> BoxFuture<'static, Result<Bytes, ReviewError>> + Send + Sync>;

/// Why a webhook did not answer a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReviewError {
    /// The cause.
    pub message: String,
    /// The same request may succeed later.
    pub is_temporary: bool,
}

impl ReviewError {
    fn permanent(message: String) -> Self {
        ReviewError { message, is_temporary: false }
    }
}

/// Sends reviews to one webhook.
pub(crate) struct ReviewClient {
    post: WebhookPost,
    timeout: Duration,
    permits: Semaphore,
}

impl ReviewClient {
    /// A client whose attempts last at most `timeout` each.
    pub(crate) fn new(post: WebhookPost, timeout: Duration) -> Self {
        ReviewClient { post, timeout, permits: Semaphore::new(CONCURRENT) }
    }

    /// Sends a review, retries temporary failures, and returns the answer.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub(crate) async fn review(&self, review: &Value) -> Result<Value, ReviewError> {
        let document = Bytes::from(review.to_string());
        leave_place();
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.attempt(document.clone()).await {
                Err(error) if error.is_temporary && attempt < ATTEMPTS => {
                    let pause = backoff(attempt - 1, rand::rng().random());
                    sleep(pause).await;
                }
                Err(error) => return Err(error),
                Ok(body) => {
                    return serde_json::from_slice(&body).map_err(|error| {
                        ReviewError::permanent(format!("the webhook responds with invalid JSON: {error}"))
                    });
                }
            }
        }
    }

    async fn attempt(&self, document: Bytes) -> Result<Bytes, ReviewError> {
        let call = async {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await.ok();
            (self.post)(document).await
        };
        let late = || ReviewError::permanent(format!("no response within {} s", self.timeout.as_secs()));
        timeout(self.timeout, call).await.unwrap_or_else(|_| Err(late()))
    }
}

/// The time before a further attempt. `random` is between 0 and 1.
fn backoff(attempt: u32, random: f64) -> Duration {
    let factor = BACKOFF_FACTOR.powi(i32::try_from(attempt).unwrap_or(i32::MAX)) * (1.0 + JITTER * random);
    INITIAL_BACKOFF.mul_f64(factor)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    /// A webhook with these answers, and the number of its calls.
    fn webhook(answers: Vec<Result<&'static str, bool>>) -> (ReviewClient, Arc<Mutex<usize>>) {
        let calls: Arc<Mutex<usize>> = Arc::default();
        let seen = calls.clone();
        let answers = Mutex::new(answers.into_iter());
        let post: WebhookPost = Arc::new(move |_| {
            *seen.lock() += 1;
            let answer = answers.lock().next().unwrap_or(Ok("{}"));
            let error = |is_temporary| ReviewError { message: "no".to_owned(), is_temporary };
            async move { answer.map(Bytes::from).map_err(error) }.boxed()
        });
        (ReviewClient::new(post, REQUEST_TIMEOUT), calls)
    }

    #[tokio::test(start_paused = true)]
    async fn temporary_errors_are_retried() {
        for (case, answers, want, calls) in [
            ("1 at the first attempt", vec![Ok("{\"a\":1}")], Some(json!({"a": 1})), 1),
            ("2 at the third attempt", vec![Err(true), Err(true)], Some(json!({})), 3),
            ("3 permanent", vec![Err(false)], None, 1),
            ("4 too often", vec![Err(true); 9], None, 5),
            ("5 no JSON", vec![Ok("{")], None, 1),
        ] {
            let (client, seen) = webhook(answers);
            let answer = client.review(&json!({})).await;
            assert_eq!(answer.ok(), want, "{case}");
            assert_eq!(*seen.lock(), calls, "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_webhook_times_out() {
        let post: WebhookPost = Arc::new(|_| std::future::pending().boxed());
        let client = ReviewClient::new(post, Duration::from_secs(3));
        let error = client.review(&json!({})).await.expect_err("no answer");
        assert_eq!(error.message, "no response within 3 s");
    }

    #[test]
    fn time_between_attempts_grows() {
        let at = |attempt, random| backoff(attempt, random).as_millis();
        assert_eq!((at(0, 0.0), at(0, 1.0), at(2, 0.0)), (500, 600, 1125));
    }
}
