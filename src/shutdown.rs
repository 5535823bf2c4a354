//! Handles stop signals.
//!
//! The first SIGINT or SIGTERM shuts the process down cleanly. A second one ends the process immediately, with
//! the conventional exit code: 128 plus the number of the signal.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that the first signal cancels. The second signal ends the process.
pub(crate) fn on_signal() -> std::io::Result<CancellationToken> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        let first = next(&mut interrupts, &mut terminations).await;
        tracing::info!("{} received, stopping; send it again to exit immediately", first.name);
        asked.cancel();
        let second = next(&mut interrupts, &mut terminations).await;
        tracing::warn!("{} received again, exiting immediately", second.name);
        // Acknowledged writes are on the disk already, so nothing is lost.
        std::process::exit(second.exit_code);
    });
    Ok(stop)
}

/// A received signal.
struct Came {
    name: &'static str,
    exit_code: i32,
}

async fn next(interrupts: &mut Signal, terminations: &mut Signal) -> Came {
    tokio::select! {
        _ = interrupts.recv() => Came { name: "SIGINT", exit_code: 130 },
        _ = terminations.recv() => Came { name: "SIGTERM", exit_code: 143 },
    }
}
