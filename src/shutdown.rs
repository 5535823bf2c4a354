//! Handles stop signals, on a thread of its own, so that they work whatever the other threads compute.
//!
//! The first SIGINT or SIGTERM shuts the process down cleanly. A second one ends the process immediately, with
//! the conventional exit code: 128 plus the number of the signal. A shutdown that takes too long ends in the same way.
//! SIGHUP is ignored: its default action would cut all requests, for example when a terminal is closed.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long the parts of a process that serve no requests may take to stop: controllers, node agents, the store.
pub(crate) const WITHOUT_REQUESTS: Duration = Duration::from_secs(30);

/// What requests in progress have at least when the controllers have used up the grace period. Watches end cleanly in this time.
const LEAST_GRACE: Duration = Duration::from_secs(1);

/// The rest of the grace period of requests, after the controllers and nodes took the time `spent` to stop. Requests in progress wait for
/// both, so one period bounds both.
pub(crate) fn rest_of_grace(grace: Duration, spent: Duration) -> Duration {
    grace.saturating_sub(spent).max(LEAST_GRACE.min(grace))
}

/// Returns a token that the first signal cancels. The second signal ends the process, and so does a shutdown that takes
/// longer than `limit`.
///
/// # Errors
/// The signals cannot be handled, or the system has no thread left.
pub(crate) fn on_signal(limit: Duration) -> std::io::Result<CancellationToken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Registered here, so that no signal is lost before the thread runs.
    let context = runtime.enter();
    let interrupts = signal(SignalKind::interrupt())?;
    let terminations = signal(SignalKind::terminate())?;
    let hangups = signal(SignalKind::hangup())?;
    drop(context);
    let stop = CancellationToken::new();
    let signals = Signals { interrupts, terminations, hangups };
    let asked = stop.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(signals.handle(&asked, limit)))?;
    Ok(stop)
}

struct Signals {
    interrupts: Signal,
    terminations: Signal,
    hangups: Signal,
}

/// A signal that stops the process.
struct StopSignal {
    name: &'static str,
    exit_code: i32,
}

impl Signals {
    async fn handle(mut self, stop: &CancellationToken, limit: Duration) {
        let first = self.next().await;
        // Before the log line: whatever happens to it, the process stops.
        stop.cancel();
        tracing::info!("{} received, stopping; send it again to exit immediately", first.name);
        let exit_code = match tokio::time::timeout(limit, self.next()).await {
            Ok(second) => {
                tracing::warn!("{} received again, exiting immediately", second.name);
                second.exit_code
            }
            Err(_) => {
                tracing::warn!("the shutdown takes longer than {} s, exiting immediately", limit.as_secs());
                first.exit_code
            }
        };
        // Acknowledged writes are on the disk already, so nothing is lost.
        std::process::exit(exit_code);
    }

    async fn next(&mut self) -> StopSignal {
        loop {
            tokio::select! {
                _ = self.interrupts.recv() => return StopSignal { name: "SIGINT", exit_code: 130 },
                _ = self.terminations.recv() => return StopSignal { name: "SIGTERM", exit_code: 143 },
                _ = self.hangups.recv() => tracing::info!("SIGHUP received and ignored"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_grace_period_bounds_controllers_and_requests() {
        for (case, grace, spent, expected) in [
            ("1 controllers stop at once", 10_000, 0, 10_000),
            ("2 controllers take a part", 10_000, 5_300, 4_700),
            ("3 controllers take nearly all", 10_000, 9_700, 1_000),
            ("4 controllers take longer", 10_000, 30_000, 1_000),
            ("5 short grace", 300, 5_000, 300),
            ("6 no grace", 0, 5_000, 0),
        ] {
            let rest = rest_of_grace(Duration::from_millis(grace), Duration::from_millis(spent));
            assert_eq!(rest, Duration::from_millis(expected), "{case}");
        }
    }
}
