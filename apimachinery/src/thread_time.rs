//! The processor time of a test, which does not depend on the load of the machine. Only for tests.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time of this thread since [`ThreadTime::start`].
#[derive(Debug)]
pub struct ThreadTime(Duration);

impl ThreadTime {
    /// Starts to measure.
    pub fn start() -> Self {
        Self(now())
    }

    /// The processor time since the start.
    pub fn spent(&self) -> Duration {
        now().saturating_sub(self.0)
    }
}

/// How much larger the second input of [`assert_linear`] is.
const GROWTH: usize = 8;

/// Measurements before a failure: other work on the machine shares its caches and memory.
const ATTEMPTS: usize = 3;

/// Asserts that the processor time of `work` grows about linearly with its input: an input of 8 n may cost at most
/// 24 times as much as an input of n, where quadratic work costs 64 times as much. `input` makes an input of a size
/// and is not measured. Choose `n` so that the work takes at least some milliseconds.
///
/// # Panics
/// The time grows faster.
pub fn assert_linear<I, O>(what: &str, n: usize, input: impl Fn(usize) -> I, work: impl Fn(&I) -> O) {
    let cost = |size: usize| {
        let input = input(size);
        let run = || {
            let started = ThreadTime::start();
            std::hint::black_box(work(&input));
            started.spent()
        };
        // The least of three runs: interrupts and cold caches only add time.
        (0..3).map(|_| run()).min().unwrap_or_default()
    };
    let mut failure = String::new();
    for _ in 0..ATTEMPTS {
        let (small, large) = (cost(n), cost(n * GROWTH));
        // Below this, the clock and caches dominate.
        let small = small.max(Duration::from_micros(200));
        let factor = large.as_secs_f64() / small.as_secs_f64();
        if factor < 24.0 {
            return;
        }
        failure =
            format!("{n} cost {small:?}, {GROWTH} times as many cost {large:?}, {factor:.1} times as much");
    }
    panic!("{what}: {failure}");
}

fn now() -> Duration {
    // No clock of a thread goes below zero.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
