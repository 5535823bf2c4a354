//! Reads a changed encryption configuration again (`--encryption-provider-config-automatic-reload`).

use std::sync::Arc;
use std::time::Duration;

use orlop_auth::file_version::FileVersion;
use orlop_encryption::{Encryption, EncryptionError};
use orlop_store::{Kv, View};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// The interval between two checks of the file.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// The number of checks after which a file that lacks a key in use is read again, although it has not changed: the objects may have
/// been rewritten.
const TRY_AGAIN: u32 = 30;

/// Reads the file when it changes, until `end`.
pub(crate) async fn keep_current<V: View>(
    encryption: Arc<Encryption>,
    store: Arc<dyn Kv<V>>,
    end: CancellationToken,
) {
    let Some(path) = encryption.path().map(std::path::Path::to_owned) else { return };
    // The file may have changed since the server has read it: it is read once more.
    let mut known = None;
    let mut refused = 0;
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = end.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let now = FileVersion::of(&path);
        if now == known && refused != 1 {
            refused = refused.saturating_sub(1);
            continue;
        }
        let (encryption, store) = (encryption.clone(), store.clone());
        // It decrypts all objects.
        let reloaded = tokio::task::spawn_blocking(move || encryption.reload(|| store.head())).await;
        refused = 0;
        match reloaded {
            Ok(Ok(true)) => tracing::info!("the encryption configuration has changed"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                if let EncryptionError::KeyInUse { .. } = error {
                    refused = TRY_AGAIN;
                }
                tracing::warn!("the previous encryption configuration stays in use: {error}");
            }
            Err(error) => tracing::error!("the encryption configuration could not be checked: {error}"),
        }
        known = now;
    }
}
