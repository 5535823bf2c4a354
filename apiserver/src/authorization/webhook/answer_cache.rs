//! A bounded cache of a webhook's answers, in which each answer expires. A full cache removes the least recently used answer.
//!
//! Upstream: `cache.NewLRUExpireCache(8192)`.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use orlop_auth::access_review::ReviewAnswer;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Maximum number of answers, as upstream.
const MAX_ANSWERS: usize = 8192;
/// Maximum size of all reasons, bytes.
const MAX_REASONS: usize = 4 << 20;

/// The key of a review: a hash, because groups and extra fields of a user can be large.
pub(super) type AnswerKey = [u8; 32];

/// The key of a review.
pub(super) fn key(review: &Value) -> AnswerKey {
    Sha256::digest(review["spec"].to_string().as_bytes()).into()
}

struct Cached {
    answer: ReviewAnswer,
    expires: Instant,
    /// The position in `by_use`.
    used: u64,
}

/// The cache.
#[derive(Default)]
pub(super) struct AnswerCache {
    answers: HashMap<AnswerKey, Cached>,
    by_use: BTreeMap<u64, AnswerKey>,
    uses: u64,
    reasons: usize,
}

impl AnswerCache {
    /// The answer, if it has not expired.
    pub(super) fn get(&mut self, key: AnswerKey) -> Option<ReviewAnswer> {
        let cached = self.answers.get_mut(&key)?;
        if cached.expires <= Instant::now() {
            self.remove(&key);
            return None;
        }
        self.uses += 1;
        self.by_use.remove(&cached.used);
        self.by_use.insert(self.uses, key);
        cached.used = self.uses;
        Some(cached.answer.clone())
    }

    /// Stores an answer for a time.
    pub(super) fn put(&mut self, key: AnswerKey, answer: ReviewAnswer, ttl: Duration) {
        // An answer without a time of expiration would stay forever, so it is not cached.
        let Some(expires) = Instant::now().checked_add(ttl) else { return };
        self.remove(&key);
        self.uses += 1;
        self.reasons += answer.reason.len();
        self.by_use.insert(self.uses, key);
        self.answers.insert(key, Cached { answer, expires, used: self.uses });
        while self.answers.len() > MAX_ANSWERS || self.reasons > MAX_REASONS {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &AnswerKey) {
        if let Some(cached) = self.answers.remove(key) {
            self.reasons -= cached.answer.reason.len();
            self.by_use.remove(&cached.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(reason: &str) -> ReviewAnswer {
        ReviewAnswer { allowed: true, denied: false, reason: reason.to_owned() }
    }

    fn numbered(number: usize) -> AnswerKey {
        key(&serde_json::json!({ "spec": number }))
    }

    #[tokio::test(start_paused = true)]
    async fn answers_expire() {
        let mut cache = AnswerCache::default();
        cache.put(numbered(1), answer("a"), Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(cache.get(numbered(1)), Some(answer("a")));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(numbered(1)), None);
        assert_eq!((cache.answers.len(), cache.by_use.len(), cache.reasons), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn full_cache_removes_the_least_recently_used_answers() {
        let (mut cache, ttl) = (AnswerCache::default(), Duration::from_secs(10));
        for number in 0..MAX_ANSWERS {
            cache.put(numbered(number), answer(""), ttl);
        }
        assert!(cache.get(numbered(0)).is_some());
        cache.put(numbered(MAX_ANSWERS), answer(""), ttl);
        assert_eq!((cache.answers.len(), cache.by_use.len()), (MAX_ANSWERS, MAX_ANSWERS));
        assert!(cache.get(numbered(0)).is_some() && cache.get(numbered(1)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn long_reasons_reduce_the_number_of_answers() {
        let (mut cache, long) = (AnswerCache::default(), "x".repeat(4096));
        for number in 0..2048 {
            cache.put(numbered(number), answer(&long), Duration::from_secs(10));
        }
        assert_eq!((cache.answers.len(), cache.reasons), (1024, MAX_REASONS));
    }
}
