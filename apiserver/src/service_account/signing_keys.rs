//! The keys of a running server: loaded at start, and read again when their file changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_auth::file_version::{FileCheck, FileVersion, ReadVersion};
use orlop_auth::service_account::key_set::KeySet;
use orlop_store::{CommitError, Expect, Key, Kv, Op, Write};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use super::key_file::{self, KeyFileError};
use crate::projection::Projection;

/// The record in which earlier versions stored the key.
const OLD_RECORD: &str = "/registry/orlop.serviceaccountkeys/current";
/// The interval between two checks of the file. `orlop keys rotate` promises a second.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// There are no keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The record of an earlier version cannot be read.
    #[error(
        "the signing key in {OLD_RECORD} is damaged; `orlop keys rotate` creates a new key, and existing tokens become invalid"
    )]
    Damaged,
    /// The record of an earlier version cannot be removed.
    #[error("the signing key of an earlier version cannot be removed from the store: {0}")]
    Store(String),
}

/// The keys of a running server.
pub(crate) struct SigningKeys {
    current: ArcSwap<KeySet>,
    /// `None` if the keys exist only in memory.
    file: Option<WatchedFile>,
}

struct WatchedFile {
    path: PathBuf,
    read: Mutex<ReadVersion>,
}

impl SigningKeys {
    /// Loads the keys from a file. Creates the file if it does not exist, with the key of an earlier version if the store has
    /// one. Without a file, the keys exist only in memory.
    pub(crate) async fn load(
        store: &Arc<dyn Kv<Projection>>,
        path: Option<PathBuf>,
    ) -> Result<Self, KeyError> {
        let Some(path) = path else {
            let keys = KeySet::generate().map_err(KeyFileError::from)?;
            return Ok(SigningKeys { current: ArcSwap::from_pointee(keys), file: None });
        };
        // Before the content, so that a later change is noticed.
        let version = FileVersion::of(&path);
        let (keys, version) = match key_file::read(&path)? {
            Some(keys) => (keys, version),
            None => create(store, &path)?,
        };
        remove_old_record(store).await?;
        let read = Mutex::new(ReadVersion::of(version));
        Ok(SigningKeys { current: ArcSwap::from_pointee(keys), file: Some(WatchedFile { path, read }) })
    }

    /// The keys in use.
    pub(crate) fn current(&self) -> Arc<KeySet> {
        self.current.load_full()
    }

    /// Reads the file again whenever it changes. Does not return if there is a file.
    pub(crate) async fn keep_current(self: Arc<Self>) {
        let Some(file) = &self.file else { return };
        let mut ticks = tokio::time::interval(CHECK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // An idle server wakes no other thread.
            if file.read.lock().is_unchanged(&file.path) {
                continue;
            }
            let keys = self.clone();
            // A panic is reported by its thread, and the next tick tries again.
            let _ = tokio::task::spawn_blocking(move || keys.check()).await;
        }
    }

    /// Reads the file again if it has changed since it was read.
    fn check(&self) {
        let Some(file) = &self.file else { return };
        let mut read = file.read.lock();
        let path = file.path.display();
        let checked = read.check(&file.path, || match key_file::read(&file.path) {
            Ok(Some(keys)) => {
                let signing = keys.signing().public().id();
                tracing::info!(signing, "the service account keys have changed");
                self.current.store(Arc::new(keys));
                Ok(())
            }
            Ok(None) => Err(format!("{path} does not exist any more; the previous keys stay in use")),
            Err(error) => Err(format!("the previous service account keys stay in use: {error}")),
        });
        if let FileCheck::Failed(problem) = checked {
            tracing::error!("{problem}");
        }
    }
}

/// Moves the key that an earlier version stored to the file, although another key signs: neither the store nor its snapshots may contain it.
/// Without a file to move it to, it is removed.
pub(crate) async fn move_out(store: &Arc<dyn Kv<Projection>>, path: Option<&Path>) -> Result<(), KeyError> {
    if let Some(path) = path
        && store.head().get(OLD_RECORD).is_some()
    {
        let _lock = key_file::lock(path)?;
        // An existing file wins, even a damaged one. A damaged record is not worth a file.
        if !path.exists()
            && let Ok(Some(keys)) = old_keys(store)
        {
            key_file::write(path, &keys)?;
        }
    }
    remove_old_record(store).await
}

/// Creates the file, with the key of an earlier version if the store has one. Returns the keys and the version of the file.
fn create(store: &Arc<dyn Kv<Projection>>, path: &Path) -> Result<(KeySet, Option<FileVersion>), KeyError> {
    // Nothing changes the file until this returns.
    let _lock = key_file::lock(path)?;
    // `orlop keys rotate` may have created it in the meantime.
    if let Some(keys) = key_file::read(path)? {
        return Ok((keys, FileVersion::of(path)));
    }
    let keys = match old_keys(store)? {
        Some(keys) => keys,
        None => {
            tracing::info!(
                "created a signing key of service account tokens in {}; tokens of any other key are invalid",
                path.display()
            );
            KeySet::generate().map_err(KeyFileError::from)?
        }
    };
    key_file::write(path, &keys)?;
    Ok((keys, FileVersion::of(path)))
}

/// The key that an earlier version stored.
fn old_keys(store: &Arc<dyn Kv<Projection>>) -> Result<Option<KeySet>, KeyError> {
    let head = store.head();
    let Some(record) = head.get(OLD_RECORD) else { return Ok(None) };
    let read = || {
        let value: Value = serde_json::from_slice(&record.value).ok()?;
        KeySet::of(&STANDARD.decode(value.get("pkcs8")?.as_str()?).ok()?)
    };
    read().map(Some).ok_or(KeyError::Damaged)
}

async fn remove_old_record(store: &Arc<dyn Kv<Projection>>) -> Result<(), KeyError> {
    loop {
        let Some(revision) = store.head().get(OLD_RECORD).map(|record| record.mod_revision) else {
            return Ok(());
        };
        let write = Write { key: Key::from(OLD_RECORD), expect: Expect::Revision(revision), op: Op::Delete };
        match store.commit(vec![write]).await {
            Ok(_) => tracing::info!("the signing key of service account tokens was moved out of the store"),
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => return Err(KeyError::Store(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use jiff::{SignedDuration, Timestamp};
    use orlop_auth::service_account::key::generate;
    use orlop_store::memory::Memory;
    use serde_json::json;

    use super::*;

    fn memory() -> Arc<dyn Kv<Projection>> {
        Arc::new(Memory::new())
    }

    async fn put_old(store: &Arc<dyn Kv<Projection>>, pkcs8: &str) {
        let value = json!({ "pkcs8": pkcs8 }).to_string().into_bytes().into();
        let op = Op::Put { value, view: Projection::default() };
        let write = Write { key: Key::from(OLD_RECORD), expect: Expect::Absent, op };
        store.commit(vec![write]).await.unwrap();
    }

    #[tokio::test]
    async fn key_outlives_the_process_and_is_not_in_the_store() {
        let (dir, store) = (tempfile::tempdir().unwrap(), memory());
        let path = key_file::key_file(dir.path());
        let load = || async {
            SigningKeys::load(&store, Some(path.clone())).await.map(|keys| keys.current().text())
        };
        let first = load().await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(load().await.unwrap_or_else(|error| panic!("{error}")), first);
        assert_eq!(store.head().range("", None).count(), 0);
    }

    #[tokio::test]
    async fn key_of_an_earlier_version_is_moved_out_of_the_store() {
        let (dir, store) = (tempfile::tempdir().unwrap(), memory());
        let path = key_file::key_file(dir.path());
        let pkcs8 = generate().unwrap();
        put_old(&store, &STANDARD.encode(&pkcs8)).await;
        let keys =
            SigningKeys::load(&store, Some(path.clone())).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(keys.current().text(), KeySet::of(&pkcs8).unwrap().text());
        assert!(store.head().get(OLD_RECORD).is_none());

        // The file takes precedence over a record, and the record is removed: it remains if the previous start was interrupted.
        put_old(&store, &STANDARD.encode(generate().unwrap())).await;
        let keys = SigningKeys::load(&store, Some(path)).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(keys.current().text(), KeySet::of(&pkcs8).unwrap().text());
        assert!(store.head().get(OLD_RECORD).is_none());
    }

    #[tokio::test]
    async fn key_of_an_earlier_version_leaves_the_store_also_if_another_key_signs() {
        let (dir, store) = (tempfile::tempdir().unwrap(), memory());
        let path = key_file::key_file(dir.path());
        let pkcs8 = generate().unwrap();
        put_old(&store, &STANDARD.encode(&pkcs8)).await;
        move_out(&store, Some(&path)).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(store.head().get(OLD_RECORD).is_none());
        let moved = key_file::read(&path).unwrap().unwrap();
        assert_eq!(moved.text(), KeySet::of(&pkcs8).unwrap().text());
    }

    #[tokio::test]
    async fn damaged_key_is_reported() {
        let (dir, store) = (tempfile::tempdir().unwrap(), memory());
        put_old(&store, "marker").await;
        let path = key_file::key_file(dir.path());
        let error = SigningKeys::load(&store, Some(path)).await.err().unwrap().to_string();
        assert!(error.contains(OLD_RECORD) && !error.contains("marker"), "{error}");
    }

    #[tokio::test]
    async fn changed_file_is_read_again() {
        let (dir, store) = (tempfile::tempdir().unwrap(), memory());
        let path = key_file::key_file(dir.path());
        let keys =
            SigningKeys::load(&store, Some(path.clone())).await.unwrap_or_else(|error| panic!("{error}"));
        let next = key_file::rotate(&path, Timestamp::UNIX_EPOCH, SignedDuration::ZERO).unwrap();
        keys.check();
        assert_eq!(keys.current().text(), next.text());
        // Without a usable file, the keys stay.
        std::fs::write(&path, "{}").unwrap();
        keys.check();
        assert_eq!(keys.current().text(), next.text());
        std::fs::remove_file(&path).unwrap();
        keys.check();
        assert_eq!(keys.current().text(), next.text());
    }
}
