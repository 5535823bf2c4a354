//! Yields in long computations. The controllers and node agents of a process share a few threads, and the cost of a sync depends on
//! the objects that clients create: a sync that never yields delays all others.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

/// The time after which a computation yields.
const SLICE: Duration = Duration::from_millis(5);

/// The part of a computation since it last let other tasks run. It is measured in time and not in items: most computations are short,
/// and a yield costs more than most items. While tests pause the time, nothing yields, so that the order of events does not depend on
/// the machine.
#[derive(Debug)]
pub struct TimeSlice(Instant);

impl TimeSlice {
    /// Starts to measure.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Waits for a future. The slice begins again when the future continues after a wait, because other tasks ran meanwhile.
    pub async fn wait<F: Future>(&mut self, future: F) -> F::Output {
        let (mut future, mut has_waited) = (pin!(future), false);
        poll_fn(|context| {
            if has_waited {
                self.0 = Instant::now();
            }
            has_waited = true;
            future.as_mut().poll(context)
        })
        .await
    }

    /// Yields to other tasks if 5 ms have passed since the start, the last yield or the last wait. Call this after each item.
    pub async fn yield_if_over(&mut self) {
        if self.0.elapsed() >= SLICE {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_begins_the_slice_again() {
        let mut slice = TimeSlice::start();
        let began = slice.0;
        slice.wait(std::future::ready(())).await;
        assert_eq!(slice.0, began, "it was ready");
        slice.wait(tokio::time::sleep(SLICE * 2)).await;
        assert!(slice.0 - began >= SLICE * 2 && slice.0.elapsed().is_zero());
    }

    #[tokio::test]
    async fn long_computation_lets_others_run() {
        let others = Cell::new(0);
        let computation = async {
            let mut slice = TimeSlice(Instant::now() + Duration::from_secs(3600));
            slice.yield_if_over().await;
            assert_eq!(others.get(), 0, "a short one does not yield");
            slice = TimeSlice::start();
            while slice.0.elapsed() < SLICE {
                std::hint::spin_loop();
            }
            slice.yield_if_over().await;
            assert_eq!(others.get(), 1, "a long one yields");
        };
        let other = async { others.set(others.get() + 1) };
        futures::join!(computation, other);
    }
}
