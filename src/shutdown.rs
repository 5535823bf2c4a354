//! How a process is asked to stop.
//!
//! The first SIGINT or SIGTERM asks it to stop cleanly. A second one ends it at once, with the exit
//! code that shells know: 128 and the signal's number.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled at the first signal. The second one ends the process.
pub(crate) fn on_signal() -> std::io::Result<CancellationToken> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        let first = next(&mut interrupts, &mut terminations).await;
        tracing::info!("{} received, stopping; send it again to end at once", first.name);
        asked.cancel();
        let second = next(&mut interrupts, &mut terminations).await;
        tracing::warn!("{} received again, ending at once", second.name);
        // What was acknowledged is on the disk already, so nothing is lost.
        std::process::exit(second.exit_code);
    });
    Ok(stop)
}

/// A signal that came.
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
