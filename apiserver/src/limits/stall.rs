//! Finds responses that their clients do not read.
//!
//! One task looks at all responses of a server. A task for each response would wake another thread for each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

type OnStall = Box<dyn FnOnce() + Send>;

/// The clocks of all responses that are being sent.
#[derive(Default)]
pub(super) struct StallWatch {
    watched: Mutex<Watched>,
    /// The next look is earlier than before.
    is_earlier: Notify,
}

impl std::fmt::Debug for StallWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StallWatch")
            .field("clocks", &self.watched.lock().clocks.len())
            .finish_non_exhaustive()
    }
}

/// The clocks of sent responses are forgotten when there are more clocks than this, and twice as many as after the last time.
const FEW: usize = 64;

#[derive(Default)]
struct Watched {
    clocks: Vec<Weak<StallClock>>,
    /// The number of clocks at which those of sent responses are forgotten before the next look.
    next_sweep: usize,
    /// The time of the next look; `None` while no task looks.
    next: Option<Instant>,
}

impl Watched {
    fn add(&mut self, clock: &Arc<StallClock>) {
        if self.clocks.len() >= self.next_sweep.max(FEW) {
            self.clocks.retain(|clock| clock.strong_count() > 0);
            self.next_sweep = self.clocks.len() * 2;
        }
        self.clocks.push(Arc::downgrade(clock));
    }
}

impl StallWatch {
    /// Starts the clock of a response. `on_stall` is called if the client reads nothing of it for `patience`.
    pub(super) fn start(
        self: &Arc<Self>,
        patience: Duration,
        on_stall: impl FnOnce() + Send + 'static,
    ) -> Ticking {
        let clock = Arc::new(StallClock {
            start: Instant::now(),
            // A new response waits for its client immediately.
            since: AtomicU64::new(1),
            patience,
            on_stall: Mutex::new(Some(Box::new(on_stall))),
        });
        let look = clock.start + patience;
        let mut watched = self.watched.lock();
        watched.add(&clock);
        match watched.next {
            None => drop(tokio::spawn(run(self.clone()))),
            Some(next) if look < next => self.is_earlier.notify_one(),
            Some(_) => return Ticking(clock),
        }
        watched.next = Some(look);
        Ticking(clock)
    }

    /// Calls `on_stall` of the stalled responses, and forgets those that were sent. Returns the time of the next look; `None` if
    /// no clock is left.
    fn look(&self, now: Instant) -> Option<Instant> {
        let mut stalled = Vec::new();
        let mut watched = self.watched.lock();
        let mut next: Option<Instant> = None;
        watched.clocks.retain(|clock| {
            let Some(clock) = clock.upgrade() else { return false };
            let deadline = clock.deadline(now);
            if deadline <= now {
                stalled.push(clock);
                return false;
            }
            next = Some(next.map_or(deadline, |next| next.min(deadline)));
            true
        });
        watched.next = next;
        if watched.clocks.is_empty() {
            // Releases the memory of a burst.
            watched.clocks = Vec::new();
        }
        drop(watched);
        for clock in stalled {
            let on_stall = clock.on_stall.lock().take();
            if let Some(on_stall) = on_stall {
                on_stall();
            }
        }
        next
    }
}

/// Looks whenever a response may have stalled, until no clock is left.
async fn run(watch: Arc<StallWatch>) {
    // Only `look` makes this `None`, and then the task ends.
    let mut next = watch.watched.lock().next;
    while let Some(at) = next {
        let is_due = tokio::time::timeout_at(at, watch.is_earlier.notified()).await.is_err();
        next = match is_due {
            true => watch.look(Instant::now()),
            false => watch.watched.lock().next,
        };
    }
}

/// Measures how long a client has read nothing of a response. `since` is the beginning, in milliseconds after `start`; 0 while no data
/// waits for the client.
struct StallClock {
    start: Instant,
    since: AtomicU64,
    patience: Duration,
    /// `None` after it was called.
    on_stall: Mutex<Option<OnStall>>,
}

impl StallClock {
    /// When the client will have stalled for too long, unless it reads before.
    fn deadline(&self, now: Instant) -> Instant {
        let since = self.since.load(Ordering::Acquire);
        let since = if since > 0 { self.start + Duration::from_millis(since) } else { now };
        since + self.patience
    }
}

/// A running stall clock. Dropping it stops the clock and drops its `on_stall`.
pub(super) struct Ticking(Arc<StallClock>);

impl Ticking {
    /// Whether data waits for the client from now on.
    pub(super) fn set(&self, clients_turn: bool) {
        let clock = &self.0;
        let now = u64::try_from(clock.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        clock.since.store(if clients_turn { now.max(1) } else { 0 }, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_secs(1);
    const LONG: Duration = Duration::from_secs(60);

    fn counted(watch: &Arc<StallWatch>, patience: Duration, count: &Arc<AtomicU64>) -> Ticking {
        let count = count.clone();
        watch.start(patience, move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_of_different_patience_end_in_time() {
        let watch = Arc::new(StallWatch::default());
        let (long, short) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let _long = counted(&watch, LONG, &long);
        tokio::time::sleep(SHORT).await;
        let _short = counted(&watch, SHORT, &short);
        let silent = counted(&watch, SHORT, &short);
        silent.set(false);
        let count = |count: &Arc<AtomicU64>| count.load(Ordering::Relaxed);
        tokio::time::sleep(SHORT * 2).await;
        assert_eq!((count(&long), count(&short)), (0, 1), "no data waits for one of them");
        silent.set(true);
        tokio::time::sleep(SHORT * 3).await;
        assert_eq!((count(&long), count(&short)), (0, 2));
        tokio::time::sleep(LONG).await;
        assert_eq!((count(&long), count(&short)), (1, 2), "each stalls once");
    }

    #[tokio::test(start_paused = true)]
    async fn task_ends_without_clocks_and_starts_again() {
        let watch = Arc::new(StallWatch::default());
        let count = Arc::new(AtomicU64::new(0));
        for round in 1..=2 {
            drop(counted(&watch, SHORT, &count));
            assert_eq!(Arc::strong_count(&count), 1, "a dropped clock holds nothing");
            tokio::time::sleep(SHORT * 2).await;
            assert_eq!(Arc::strong_count(&watch), 1, "no task looks any more");
            let _clock = counted(&watch, SHORT, &count);
            tokio::time::sleep(SHORT * 2).await;
            assert_eq!(count.load(Ordering::Relaxed), round);
            assert!(watch.watched.lock().clocks.is_empty());
        }
    }

    /// The next look can be a minute away, and a client can send many requests until then.
    #[tokio::test(start_paused = true)]
    async fn sent_responses_are_forgotten_before_the_next_look() {
        let watch = Arc::new(StallWatch::default());
        let count = Arc::new(AtomicU64::new(0));
        let unsent: Vec<Ticking> = (0..FEW).map(|_| counted(&watch, LONG, &count)).collect();
        for _ in 0..10_000 {
            drop(counted(&watch, LONG, &count));
        }
        let clocks = watch.watched.lock().clocks.len();
        assert!((FEW..=2 * FEW).contains(&clocks), "{clocks} clocks");
        tokio::time::sleep(LONG * 2).await;
        assert_eq!(count.load(Ordering::Relaxed), unsent.len() as u64, "each of the others stalls");
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_never_stalls() {
        let watch = Arc::new(StallWatch::default());
        let count = Arc::new(AtomicU64::new(0));
        let clock = counted(&watch, SHORT, &count);
        for _ in 0..20 {
            tokio::time::sleep(SHORT * 3 / 4).await;
            clock.set(true);
        }
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}
