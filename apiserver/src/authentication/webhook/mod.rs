//! Tokens that a webhook reviews (`--authentication-token-webhook-config-file`).
//!
//! Constants bound the calls in progress, the requests that wait for a call, the duration of a review, the size of an answer, and the
//! cache. The cache contains the digests of tokens instead of the tokens.
//!
//! Upstream: apiserver `plugin/pkg/authenticator/token/webhook`, `pkg/authentication/token/cache`.

mod cache;
mod document;
mod settings;

use std::time::Duration;

use bytes::Bytes;
use orlop_auth::UserInfo;
use parking_lot::Mutex;
use rand::Rng as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use self::cache::{Cache, CachedReview};
pub use self::settings::{MAX_ANSWER, ReviewPost, ReviewPostError, ReviewVersion, WebhookSettings};

/// Maximum number of calls at the same time.
const CONCURRENT: usize = 64;
/// Maximum number of requests that call or wait; further ones fail.
const WAITING: usize = 1024;
/// Time limit of a review, with the wait and all attempts.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of an attempt (upstream: 10 seconds).
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of attempts, and the time before the second one, which grows by half (upstream).
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The webhook, its calls in progress and its recent results.
pub(super) struct Webhook {
    settings: WebhookSettings,
    calls: Semaphore,
    waiting: Semaphore,
    cache: Mutex<Cache>,
    /// Random bytes in each digest, so that digests differ between servers.
    salt: [u8; 32],
}

impl Webhook {
    pub(super) fn new(settings: WebhookSettings) -> Self {
        Webhook {
            settings,
            calls: Semaphore::new(CONCURRENT),
            waiting: Semaphore::new(WAITING),
            cache: Mutex::default(),
            salt: rand::rng().random(),
        }
    }

    /// The user of a token, and those of the requested audiences for which it is valid; `None` if the webhook does not know the token. `own` are the
    /// audiences of this server.
    ///
    /// # Errors
    /// The call fails, or the webhook refuses the token with a text.
    pub(super) async fn user_of(
        &self,
        token: &str,
        wanted: &[String],
        own: &[String],
    ) -> Result<Option<(UserInfo, Vec<String>)>, String> {
        let key = self.key(token, wanted);
        if let Some(known) = self.cache.lock().get(&key, Instant::now()) {
            return Ok(known);
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| "too many token reviews wait".to_owned())?;
        let asked = timeout(TIMEOUT, async {
            // The semaphore is never closed.
            let _call = self.calls.acquire().await.map_err(|error| error.to_string())?;
            // A request with the same token may have called in the meantime.
            if let Some(known) = self.cache.lock().get(&key, Instant::now()) {
                return Ok(known);
            }
            self.ask(&key, token, wanted, own).await
        });
        asked.await.unwrap_or_else(|_| Err("the token review timed out".to_owned()))
    }

    async fn ask(
        &self,
        key: &[u8; 32],
        token: &str,
        wanted: &[String],
        own: &[String],
    ) -> Result<Option<(UserInfo, Vec<String>)>, String> {
        let document = document::request(self.settings.version, token, wanted);
        let answer = self.call(document).await.map_err(|error| {
            tracing::warn!(%error, "the webhook of --authentication-token-webhook-config-file fails");
            error.message
        })?;
        let review = document::result(&answer, self.settings.version, wanted, own)?;
        let bytes = answer.len();
        let until = Instant::now().checked_add(self.settings.cache_ttl);
        if let Some(until) = until.filter(|_| !self.settings.cache_ttl.is_zero()) {
            let cached = CachedReview { until, bytes, result: review.clone() };
            self.cache.lock().put(*key, cached, Instant::now());
        }
        Ok(review)
    }

    /// Calls the webhook, repeatedly if necessary.
    async fn call(&self, document: Bytes) -> Result<Bytes, ReviewPostError> {
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let late = ReviewPostError { message: "no response within 10s".to_owned(), is_temporary: true };
            let sent = timeout(ATTEMPT_TIMEOUT, (self.settings.post)(document.clone())).await;
            match sent.unwrap_or(Err(late)) {
                Err(error) if error.is_temporary && attempt < ATTEMPTS => {
                    tokio::time::sleep(pause).await;
                    pause = pause * 3 / 2;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn key(&self, token: &str, wanted: &[String]) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.salt);
        // The lengths make the digests of ("ab", "c") and ("a", "bc") differ.
        for part in std::iter::once(token).chain(wanted.iter().map(String::as_str)) {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

#[cfg(test)]
mod tests;
