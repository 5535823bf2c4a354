//! Reads a changed encryption configuration again (`--encryption-provider-config-automatic-reload`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_auth::file_version::{FileCheck, ReadVersion};
use orlop_encryption::{Encryption, EncryptionError};
use orlop_store::{Kv, View};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// The interval between two checks of the file.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// The number of checks that are left out after a file that lacks a key in use. Then it is read again, although it has not changed: the
/// objects may have been rewritten. Each such read decrypts all objects.
const TRY_AGAIN: u32 = 30;

/// Reads the file when it changes, until `end`.
pub(crate) async fn keep_current<V: View>(
    encryption: Arc<Encryption>,
    store: Arc<dyn Kv<V>>,
    end: CancellationToken,
) {
    let Some(path) = encryption.path().map(Path::to_owned) else { return };
    // The file may have changed since the server has read it: it is read once more.
    let (mut read, mut left_out) = (ReadVersion::default(), 0);
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while end.run_until_cancelled(ticks.tick()).await.is_some() {
        if left_out > 0 {
            left_out -= 1;
            continue;
        }
        let (encryption, store, path) = (encryption.clone(), store.clone(), path.clone());
        let checked = tokio::task::spawn_blocking(move || {
            let checked = check(&mut read, &path, &encryption, &*store);
            (read, checked)
        });
        match checked.await {
            Ok((after, lacks_key)) => {
                read = after;
                left_out = if lacks_key { TRY_AGAIN } else { 0 };
            }
            Err(error) => {
                tracing::error!("the encryption configuration could not be checked: {error}");
                read = ReadVersion::default();
            }
        }
    }
}

/// Reads the file if it has changed. Returns whether it lacks a key in use.
fn check<V: View>(read: &mut ReadVersion, path: &Path, encryption: &Encryption, store: &dyn Kv<V>) -> bool {
    let mut lacks_key = false;
    let checked = read.check(path, || match encryption.reload(|| store.head()) {
        Ok(true) => {
            tracing::info!("the encryption configuration has changed");
            Ok(())
        }
        Ok(false) => Ok(()),
        Err(error) => {
            lacks_key = matches!(error, EncryptionError::KeyInUse { .. });
            Err(error.to_string())
        }
    });
    if let FileCheck::Failed(problem) = checked {
        tracing::error!("the previous encryption configuration stays in use: {problem}");
    }
    lacks_key
}
