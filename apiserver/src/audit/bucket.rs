//! Limits the rate of batches.
//!
//! Upstream: client-go `util/flowcontrol/throttle.go`.

use std::time::{Duration, Instant};

use super::config::Throttle;

/// A token bucket, full at the start.
pub(super) struct Bucket {
    throttle: Throttle,
    tokens: f64,
    filled: Option<Instant>,
}

impl Bucket {
    pub(super) fn new(throttle: Throttle) -> Self {
        Bucket { throttle, tokens: f64::from(throttle.burst), filled: None }
    }

    /// Takes a token. Returns how long to wait for it.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let elapsed = self.filled.map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        self.filled = Some(now);
        let tokens = self.tokens + elapsed.as_secs_f64() * self.throttle.qps;
        self.tokens = tokens.min(f64::from(self.throttle.burst)) - 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.throttle.qps).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_limit_the_rate_of_batches() {
        let mut bucket = Bucket::new(Throttle { qps: 10.0, burst: 2 });
        let start = Instant::now();
        let waits: Vec<u128> = (0..4).map(|_| bucket.take(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        assert_eq!(bucket.take(start + Duration::from_secs(60)), Duration::ZERO, "full again");
        assert_eq!(bucket.take(start + Duration::from_secs(60)), Duration::ZERO);
        assert_eq!(bucket.take(start + Duration::from_secs(60)).as_millis(), 100, "and no more");
    }
}
