//! Reads a changed encryption configuration again (`--encryption-provider-config-automatic-reload`).

use std::sync::Arc;
use std::time::Duration;

use orlop_auth::file_version::FileVersion;
use orlop_encryption::Encryption;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// The interval between two checks of the file.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// Reads the file when it changes, until `end`.
pub(crate) async fn keep_current(encryption: Arc<Encryption>, end: CancellationToken) {
    let Some(path) = encryption.path().map(std::path::Path::to_owned) else { return };
    // The file may have changed since the server has read it: it is read once more.
    let mut known = None;
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = end.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let now = FileVersion::of(&path);
        if now == known {
            continue;
        }
        match encryption.reload() {
            Ok(()) if known.is_some() => tracing::info!("the encryption configuration has changed"),
            Ok(()) => {}
            Err(error) => tracing::warn!("the previous encryption configuration stays in use: {error}"),
        }
        known = now;
    }
}
