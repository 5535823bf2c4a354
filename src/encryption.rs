//! Reads a changed encryption configuration again (`--encryption-provider-config-automatic-reload`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_auth::file_version::{FileCheck, ReadVersion};
use orlop_encryption::Encryption;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// The interval between two checks of the file.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// Reads the file when it changes, until `end`.
pub(crate) async fn keep_current(encryption: Arc<Encryption>, end: CancellationToken) {
    let Some(path) = encryption.path().map(Path::to_owned) else { return };
    // The file may have changed since the server has read it: it is read once more.
    let (mut read, mut is_first) = (ReadVersion::default(), true);
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while end.run_until_cancelled(ticks.tick()).await.is_some() {
        match read.check(&path, || encryption.reload().map_err(|error| error.to_string())) {
            FileCheck::Read if !is_first => tracing::info!("the encryption configuration has changed"),
            FileCheck::Failed(problem) => {
                tracing::error!("the previous encryption configuration stays in use: {problem}");
            }
            FileCheck::Read | FileCheck::Unchanged | FileCheck::StillFailed => {}
        }
        is_first = false;
    }
}
