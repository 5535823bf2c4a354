//! The keys of a running server: loaded at start, and read again when their file changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_auth::file_version::FileVersion;
use orlop_auth::service_account::key_set::KeySet;
use orlop_store::{CommitError, Expect, Key, Kv, Op, Write};
use parking_lot::Mutex;
use serde_json::Value;

use super::key_file::{self, KeyFileError};
use crate::projection::Projection;

/// The record in which earlier versions stored the key.
const OLD_RECORD: &str = "/registry/orlop.serviceaccountkeys/current";
/// The minimum interval between two checks of the file.
const CHECK_EVERY: Duration = Duration::from_secs(1);

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
    state: Mutex<FileState>,
}

struct FileState {
    checked: Instant,
    version: Option<FileVersion>,
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
        let mut version = FileVersion::of(&path);
        let keys = match key_file::read(&path)? {
            Some(keys) => keys,
            None => {
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
                key_file::write(&path, &keys)?;
                version = FileVersion::of(&path);
                keys
            }
        };
        remove_old_record(store).await?;
        let state = Mutex::new(FileState { checked: Instant::now(), version });
        Ok(SigningKeys { current: ArcSwap::from_pointee(keys), file: Some(WatchedFile { path, state }) })
    }

    /// The keys. Reads the file again if it has changed; at most once in [`CHECK_EVERY`].
    pub(crate) fn current(&self) -> Arc<KeySet> {
        if let Some(file) = &self.file
            && let Some(mut state) = file.state.try_lock()
            && state.checked.elapsed() >= CHECK_EVERY
        {
            state.checked = Instant::now();
            let version = FileVersion::of(&file.path);
            if version != state.version {
                state.version = version;
                self.reload(&file.path);
            }
        }
        self.current.load_full()
    }

    fn reload(&self, path: &std::path::Path) {
        match key_file::read(path) {
            Ok(Some(keys)) => {
                tracing::info!(
                    signing = keys.signing().public().id(),
                    "the service account keys have changed"
                );
                self.current.store(Arc::new(keys));
            }
            Ok(None) => {
                tracing::warn!("{} was removed; the previous keys stay in use", path.display());
            }
            Err(error) => tracing::warn!("the previous service account keys stay in use: {error}"),
        }
    }
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
        let due = || {
            let checked = Instant::now().checked_sub(CHECK_EVERY).unwrap();
            keys.file.as_ref().unwrap().state.lock().checked = checked;
        };
        let next = key_file::rotate(&path, Timestamp::UNIX_EPOCH, SignedDuration::ZERO).unwrap();
        due();
        assert_eq!(keys.current().text(), next.text());
        // Without a usable file, the keys stay.
        std::fs::write(&path, "{}").unwrap();
        due();
        assert_eq!(keys.current().text(), next.text());
        std::fs::remove_file(&path).unwrap();
        due();
        assert_eq!(keys.current().text(), next.text());
    }
}
