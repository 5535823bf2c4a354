//! Encryption at rest in the process of a server: reads its configuration, reads a changed one again
//! (`--encryption-provider-config-automatic-reload`), checks KMS plugins, and rewrites objects that were unreadable without them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_apimachinery::clock::Backoff;
use orlop_apimachinery::warning_pace::WarningPace;
use orlop_apiserver::HealthCheck;
use orlop_auth::file_version::{FileCheck, FileVersion, ReadVersion};
use orlop_cli::args::EncryptionArgs;
use orlop_encryption::recover::Recovery;
use orlop_encryption::{Encryption, EncryptionError};
use orlop_store::{CommitError, Kv, View};
use tokio::task::JoinError;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// The interval between two checks of the file.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// The number of checks that are left out after a file that lacks a key in use. Then it is read again, although it has not changed: the
/// objects may have been rewritten. Each such read decrypts all objects.
const TRY_AGAIN: u32 = 30;

/// The interval between two attempts to read objects that were unreadable when the server started.
const RECOVER_EVERY: Duration = Duration::from_secs(1);

/// The longest interval between two attempts to write them, for example while the disk is full.
const RECOVER_AT_LEAST_EVERY: Duration = Duration::from_secs(60);

/// The minimum interval between two warnings that they cannot be written.
const WARN_EVERY: Duration = Duration::from_secs(300);

/// Reads the configuration, and waits until its KMS plugins respond or time out.
pub(crate) async fn load(args: &EncryptionArgs) -> Result<Result<Encryption, EncryptionError>, JoinError> {
    let Some(path) = args.encryption_provider_config.clone() else { return Ok(Ok(Encryption::none())) };
    tokio::task::spawn_blocking(move || Encryption::load(&path)).await
}

/// The health check of KMS plugins. Like upstream, it also exists if a changed configuration can add the first plugin.
pub(crate) fn health(args: &EncryptionArgs, encryption: &Arc<Encryption>) -> Option<HealthCheck> {
    if !encryption.has_kms() && !args.encryption_provider_config_automatic_reload {
        return None;
    }
    let encryption = encryption.clone();
    Some(Arc::new(move || encryption.kms_health()))
}

/// Rewrites the objects that were unreadable because a KMS plugin was not available when the server started. Ends when none is left,
/// or when `end` is cancelled.
pub(crate) async fn recover<V: View>(
    encryption: Arc<Encryption>,
    store: Arc<dyn Kv<V>>,
    end: CancellationToken,
) {
    let mut recovery = Recovery::new(&store.head());
    let (mut pace, mut backoff) =
        (WarningPace::new(WARN_EVERY), Backoff::new(RECOVER_EVERY, RECOVER_AT_LEAST_EVERY));
    let mut wait = Duration::ZERO;
    while !recovery.is_done() && end.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
        wait = RECOVER_EVERY;
        loop {
            let (encryption, head) = (encryption.clone(), store.head());
            // A decryption may wait for a plugin.
            let next = tokio::task::spawn_blocking(move || {
                let writes = recovery.writes(&encryption, &head);
                (recovery, writes)
            });
            let Ok((after, writes)) = next.await else { return };
            recovery = after;
            if writes.is_empty() {
                break;
            }
            let records = writes.len();
            match store.commit(writes).await {
                Ok(_) => {
                    pace.succeeds();
                    backoff.reset();
                    tracing::info!(records, "rewrote records that were unreadable when the server started");
                }
                // A client replaced or deleted one of them at the same time.
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => {
                    wait = backoff.advance();
                    if pace.fails(Instant::now()) {
                        tracing::warn!(%error, again_in = ?wait, "cannot rewrite records that have become readable");
                    }
                    break;
                }
            }
        }
    }
}

/// Reads the file when it changes, until `end`.
pub(crate) async fn keep_current<V: View>(
    encryption: Arc<Encryption>,
    store: Arc<dyn Kv<V>>,
    end: CancellationToken,
) {
    let Some(path) = encryption.path().map(Path::to_owned) else { return };
    // The file may have changed since the server has read it: it is read once more.
    let (mut read, mut postponed) = (ReadVersion::default(), Postponed::default());
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while end.run_until_cancelled(ticks.tick()).await.is_some() {
        let (encryption, store, path) = (encryption.clone(), store.clone(), path.clone());
        let checked = tokio::task::spawn_blocking(move || {
            let version = FileVersion::of(&path);
            if postponed.is_due(version.as_ref()) {
                let lacks_key = check(&mut read, &path, &encryption, &*store);
                postponed = Postponed { checks: if lacks_key { TRY_AGAIN } else { 0 }, version };
            }
            (read, postponed)
        });
        match checked.await {
            Ok(after) => (read, postponed) = after,
            Err(error) => {
                tracing::error!("the encryption configuration could not be checked: {error}");
                (read, postponed) = (ReadVersion::default(), Postponed::default());
            }
        }
    }
}

/// Postpones the next read of a file that lacks a key in use, because a read decrypts all objects. A changed file is read immediately.
#[derive(Default)]
struct Postponed {
    /// The number of checks to omit.
    checks: u32,
    /// The version of the file that lacks the key.
    version: Option<FileVersion>,
}

impl Postponed {
    fn is_due(&mut self, found: Option<&FileVersion>) -> bool {
        if self.checks == 0 || found != self.version.as_ref() {
            return true;
        }
        self.checks -= 1;
        false
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn file_that_lacks_a_key_is_read_again_after_a_change_or_a_pause() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let version = || FileVersion::of(file.path());
        let mut postponed = Postponed::default();
        assert!(postponed.is_due(version().as_ref()), "nothing is postponed");
        postponed = Postponed { checks: 2, version: version() };
        let due = [(); 3].map(|()| postponed.is_due(version().as_ref()));
        assert_eq!(due, [false, false, true]);
        postponed = Postponed { checks: 2, version: version() };
        std::fs::write(file.path(), "changed").unwrap();
        assert!(postponed.is_due(version().as_ref()), "a changed file");
        assert!(Postponed { checks: 2, version: version() }.is_due(None), "a file that cannot be read");
    }
}
