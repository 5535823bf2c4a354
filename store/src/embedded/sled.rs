//! The served copy. The only file that names sled (I1).
//!
//! sled =0.34.7, and what has to be known of it: its `flush` is no sync, so a file descriptor of
//! our own syncs its data file; pages above a quarter of a segment go to files that it never
//! syncs, so segments are large and values chunked; a leftover of an interrupted open makes it
//! refuse for ever, so [`hygiene`](super::hygiene) comes first; it may panic or hang while it
//! recovers, so it is opened under [`guard`](super::guard).

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

const SEGMENT: usize = 8 << 20;
const CACHE: u64 = 64 << 20;

/// What sled would write to its `conf` for the settings above, checksum included.
pub(crate) const CONF: &[u8] =
    b"segment_size: 8388608\nuse_compression: false\nversion: 0.34\n\x5e\xeb\xc1\xd7";

/// Why the served copy did not do what was asked.
#[derive(Debug)]
pub(crate) enum ServedError {
    /// The system refused (no room, no permission): the copy itself may be fine.
    System(io::Error),
    /// The copy cannot be used.
    Unusable(String),
}

impl std::fmt::Display for ServedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServedError::System(error) => error.fmt(f),
            ServedError::Unusable(why) => f.write_str(why),
        }
    }
}

impl From<sled::Error> for ServedError {
    fn from(error: sled::Error) -> Self {
        match error {
            sled::Error::Io(error) => error.into(),
            error => ServedError::Unusable(format!("sled: {error}")),
        }
    }
}

impl From<io::Error> for ServedError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::StorageFull | Kind::QuotaExceeded | Kind::PermissionDenied | Kind::ReadOnlyFilesystem => {
                ServedError::System(error)
            }
            _ => ServedError::Unusable(format!("sled: {error}")),
        }
    }
}

impl From<String> for ServedError {
    fn from(why: String) -> Self {
        ServedError::Unusable(why)
    }
}

/// Rows to insert and to remove, all at once.
#[derive(Debug, Default)]
pub(crate) struct Changes(sled::Batch);

impl Changes {
    pub(crate) fn insert(&mut self, key: &[u8], value: Vec<u8>) {
        self.0.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }
}

/// The open database.
#[derive(Debug)]
pub(crate) struct Served {
    db: sled::Db,
    /// Our own descriptor of its data file, for syncs.
    file: fs::File,
}

impl Served {
    /// Opens or creates it. A predecessor in this process may hold its lock for a moment.
    pub(crate) fn open(dir: &Path, patience: Duration) -> Result<Self, ServedError> {
        let config =
            sled::Config::new().path(dir).segment_size(SEGMENT).cache_capacity(CACHE).flush_every_ms(None);
        let until = Instant::now() + patience;
        let db = loop {
            match config.open() {
                Ok(db) => break db,
                Err(sled::Error::Io(error)) if is_lock(&error) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(sled::Error::Io(error)) if is_lock(&error) => return Err(ServedError::System(error)),
                Err(error) => return Err(error.into()),
            }
        };
        let file = fs::OpenOptions::new().write(true).open(dir.join("db"))?;
        Ok(Served { db, file })
    }

    /// All changes or none. Durable only after [`sync`](Self::sync).
    pub(crate) fn apply(&self, changes: Changes) -> Result<(), ServedError> {
        Ok(self.db.apply_batch(changes.0)?)
    }

    pub(crate) fn get(
        &self,
        key: &[u8],
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]> + use<>>, ServedError> {
        Ok(self.db.get(key)?)
    }

    /// The rows from one key (inclusive) to another (exclusive), in order.
    #[allow(clippy::type_complexity)]
    pub(crate) fn range(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> impl Iterator<
        Item = Result<
            (impl std::ops::Deref<Target = [u8]> + use<>, impl std::ops::Deref<Target = [u8]> + use<>),
            ServedError,
        >,
    > + use<> {
        self.db.range(from..to).map(|row| Ok(row?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.db.is_empty()
    }

    /// Makes everything that was applied durable.
    pub(crate) fn sync(&self) -> Result<(), ServedError> {
        self.db.flush()?;
        Ok(self.file.sync_data()?)
    }
}

fn is_lock(error: &io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn conf_is_what_sled_writes() {
        let dir = tempfile::tempdir().unwrap();
        drop(Served::open(dir.path(), Duration::ZERO).unwrap());
        assert_eq!(fs::read(dir.path().join("conf")).unwrap(), CONF);
    }

    #[test]
    fn chunks_make_no_blobs() {
        let dir = tempfile::tempdir().unwrap();
        let served = Served::open(dir.path(), Duration::ZERO).unwrap();
        for row in 0..400_u32 {
            let mut changes = Changes::default();
            changes.insert(&row.to_be_bytes(), vec![row as u8; 64 << 10]);
            served.apply(changes).unwrap();
        }
        served.sync().unwrap();
        assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 0);
    }
}
