//! Delays the deletion of failed pods: if the pods of a DaemonSet fail on a node again and again, each one stays for a
//! longer time. Upstream: client-go's flowcontrol.Backoff, with the limits of kube-controller-manager.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The delay after the first deletion; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(1);
/// The longest delay. An entry expires after twice this time.
const MAX: Duration = Duration::from_secs(15 * 60);
/// How often expired entries are removed.
const CLEANUP: Duration = Duration::from_secs(60);

/// The deletions of failed pods, by DaemonSet and node.
#[derive(Debug, Default)]
pub struct FailedPods {
    entries: HashMap<String, Entry>,
    cleaned: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    delay: Duration,
    last: Instant,
}

impl Entry {
    fn is_expired(&self, now: Instant) -> bool {
        now.duration_since(self.last) > MAX * 2
    }
}

impl FailedPods {
    /// Records the deletion of a failed pod. An error: the pod must wait for this time, and nothing is recorded.
    pub fn delete(&mut self, key: &str, now: Instant) -> Result<(), Duration> {
        if self.cleaned.is_none_or(|last| now.duration_since(last) >= CLEANUP) {
            self.entries.retain(|_, entry| !entry.is_expired(now));
            self.cleaned = Some(now);
        }
        let delay = match self.entries.get(key).filter(|entry| !entry.is_expired(now)) {
            Some(entry) => {
                let left = entry.delay.saturating_sub(now.duration_since(entry.last));
                if !left.is_zero() {
                    return Err(left);
                }
                (entry.delay * 2).min(MAX)
            }
            None => FIRST,
        };
        self.entries.insert(key.to_owned(), Entry { delay, last: now });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_to_its_limit_and_is_forgotten() {
        let mut failed = FailedPods::default();
        let mut now = Instant::now();
        let seconds = Duration::from_secs;
        assert_eq!(failed.delete("a", now), Ok(()));
        assert_eq!(failed.delete("a", now), Err(seconds(1)), "1 the next one waits");
        assert_eq!(failed.delete("b", now), Ok(()), "2 another node does not wait");
        for delay in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            assert_eq!(failed.delete("a", now), Err(seconds(delay)), "3 {delay}");
            now += seconds(delay);
            assert_eq!(failed.delete("a", now), Ok(()), "3 {delay}");
        }
        assert_eq!(failed.entries.len(), 1, "4 the entry of b has expired");
        now += seconds(1801);
        assert_eq!(failed.delete("a", now), Ok(()));
        assert_eq!(failed.delete("a", now), Err(seconds(1)), "5 the delay starts again");
    }
}
