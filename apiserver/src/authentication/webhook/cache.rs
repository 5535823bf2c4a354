//! Recent results of token reviews. Their number and their size are bounded; the oldest is removed first.

use std::collections::{HashMap, VecDeque};

use orlop_auth::UserInfo;
use tokio::time::Instant;

/// Maximum number of results.
const MAX_RESULTS: usize = 4096;
/// Maximum size of all results, bytes of their answers.
const MAX_BYTES: usize = 8 << 20;

/// The digest of a token and its audiences.
pub(super) type CacheKey = [u8; 32];

/// A result of a review.
#[derive(Clone, Debug)]
pub(super) struct CachedReview {
    pub(super) until: Instant,
    /// The size of the answer.
    pub(super) bytes: usize,
    /// The user and the audiences; `None` for unknown tokens.
    pub(super) result: Option<(UserInfo, Vec<String>)>,
}

/// The results.
#[derive(Default)]
pub(super) struct Cache {
    results: HashMap<CacheKey, CachedReview>,
    /// The keys of `results`, oldest first.
    order: VecDeque<CacheKey>,
    bytes: usize,
}

impl Cache {
    /// The result for a key, if it is still valid.
    pub(super) fn get(&self, key: &CacheKey, now: Instant) -> Option<Option<(UserInfo, Vec<String>)>> {
        let found = self.results.get(key).filter(|found| now < found.until)?;
        Some(found.result.clone())
    }

    /// Stores a result.
    pub(super) fn put(&mut self, key: CacheKey, review: CachedReview, now: Instant) {
        self.bytes += review.bytes;
        match self.results.insert(key, review) {
            Some(replaced) => self.bytes -= replaced.bytes,
            None => self.order.push_back(key),
        }
        while let Some(oldest) = self.order.front() {
            let is_over = self.results.get(oldest).is_none_or(|oldest| oldest.until <= now);
            if !is_over && self.results.len() <= MAX_RESULTS && self.bytes <= MAX_BYTES {
                return;
            }
            if let Some(removed) = self.results.remove(oldest) {
                self.bytes -= removed.bytes;
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(number: usize) -> CacheKey {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&(number as u64).to_le_bytes());
        key
    }

    #[test]
    fn results_are_bounded_in_time_number_and_size() {
        let now = Instant::now();
        let review =
            |seconds, bytes| CachedReview { until: now + Duration::from_secs(seconds), bytes, result: None };
        let mut cache = Cache::default();
        cache.put(key(0), review(1, 10), now);
        assert!(cache.get(&key(0), now).is_some() && cache.get(&key(1), now).is_none());
        assert!(cache.get(&key(0), now + Duration::from_secs(1)).is_none(), "too old");
        cache.put(key(1), review(60, 10), now + Duration::from_secs(1));
        assert_eq!((cache.results.len(), cache.bytes), (1, 10), "old results are removed");

        for number in 0..2 * MAX_RESULTS {
            cache.put(key(number), review(60, 1), now);
        }
        assert_eq!((cache.results.len(), cache.order.len()), (MAX_RESULTS, MAX_RESULTS));
        assert!(cache.get(&key(2 * MAX_RESULTS - 1), now).is_some(), "the newest stays");

        for number in 0..100 {
            cache.put(key(number), review(60, MAX_BYTES / 10), now);
        }
        assert!(cache.bytes <= MAX_BYTES && cache.results.len() <= 11, "{}", cache.results.len());
        assert_eq!(cache.results.values().map(|review| review.bytes).sum::<usize>(), cache.bytes);
    }
}
