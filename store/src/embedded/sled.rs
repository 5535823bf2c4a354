//! The served copy. The only file that uses sled (I1).
//!
//! Properties of sled =0.34.7 that this file works around: its `flush` does not sync, so a separate file
//! descriptor syncs its data file; pages above a quarter of a segment go to files that it never syncs, so
//! segments are large and values are chunked; a leftover of an interrupted open makes every later open
//! fail, so [`sled_dir`](super::sled_dir) runs first; it may panic or hang during recovery, so it is opened
//! under [`guard`](super::guard).

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::files::{create_private_dir, is_no_files};

/// Small segments keep the file small: sled frees only whole ones.
const SEGMENT: usize = 1 << 20;
/// The segment size of older versions; a copy keeps its original size.
const OLD_SEGMENT: usize = 8 << 20;
/// A small cache: feeding writes to the end of the log, and most reads are served from memory elsewhere.
const CACHE: u64 = 16 << 20;

/// sled notes which pages were accessed and evicts pages only after 64 accesses in one of 256 groups. A reader of large rows
/// accesses each page once, so that thousands of its pages would stay in memory (4 GB at worst). A row is therefore accessed once
/// more for each of these bytes: pages have up to 256 KiB.
const BYTES_PER_ACCESS: usize = 4 << 10;
/// A file with the segment size of the copy, because sled never syncs its own.
const NOTE: &str = "segment-size";

/// The `conf` that sled writes, including the checksum.
const CONF: &[u8] = b"segment_size: 1048576\nuse_compression: false\nversion: 0.34\nl\x96\x13\xf8";
const OLD_CONF: &[u8] = b"segment_size: 8388608\nuse_compression: false\nversion: 0.34\n\x5e\xeb\xc1\xd7";

/// The expected `conf` of a copy; `None` when its segment size is unknown.
pub(crate) fn conf_of(dir: &Path) -> io::Result<Option<&'static [u8]>> {
    Ok(match segment_of(dir)? {
        Some(SEGMENT) => Some(CONF),
        Some(OLD_SEGMENT) => Some(OLD_CONF),
        Some(_) | None => None,
    })
}

/// The segment size of an existing copy.
fn segment_of(dir: &Path) -> io::Result<Option<usize>> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match fs::read_to_string(dir.join(NOTE)) {
        Ok(text) if text.trim() == SEGMENT.to_string() => return Ok(Some(SEGMENT)),
        Ok(_) => {}
        Err(error) if missing(&error) => return Ok(Some(OLD_SEGMENT)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
        Err(error) => return Err(error),
    }
    // The file is damaged; sled's own may be intact.
    match fs::read(dir.join("conf")) {
        Ok(conf) if conf == CONF => Ok(Some(SEGMENT)),
        Ok(_) => Ok(None),
        Err(error) if missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the segment size of a copy before the copy is created.
fn note(dir: &Path) -> io::Result<()> {
    create_private_dir(dir)?;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(dir.join(NOTE))?;
    io::Write::write_all(&mut file, format!("{SEGMENT}\n").as_bytes())?;
    file.sync_all()?;
    fs::File::open(dir)?.sync_all()
}

/// Why an operation on the served copy failed.
#[derive(Debug)]
pub(crate) enum ServedError {
    /// A system error (disk full, too many open files, permission denied): the copy itself may be intact.
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
            _ if is_no_files(&error) => ServedError::System(error),
            _ => ServedError::Unusable(format!("sled: {error}")),
        }
    }
}

impl From<String> for ServedError {
    fn from(why: String) -> Self {
        ServedError::Unusable(why)
    }
}

/// Rows to insert and to remove, in one atomic batch.
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
    /// A separate descriptor of the data file, for syncs.
    file: fs::File,
}

impl Served {
    /// Opens or creates a copy. Waits up to `patience` for a previous instance in this process to release the
    /// lock.
    pub(crate) fn open(dir: &Path, patience: Duration) -> Result<Self, ServedError> {
        Served::open_with(dir, patience, CACHE)
    }

    /// Like `open`, with this many bytes of cache.
    pub(crate) fn open_with(dir: &Path, patience: Duration, cache: u64) -> Result<Self, ServedError> {
        if !dir.join("db").try_exists()? {
            note(dir)?;
        }
        let segment = segment_of(dir)?
            .ok_or_else(|| format!("{} is damaged, and so is conf", dir.join(NOTE).display()))?;
        let config =
            sled::Config::new().path(dir).segment_size(segment).cache_capacity(cache).flush_every_ms(None);
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

    /// Applies all changes or none. They are durable only after [`sync`](Self::sync).
    pub(crate) fn apply(&self, changes: Changes) -> Result<(), ServedError> {
        Ok(self.db.apply_batch(changes.0)?)
    }

    /// Inserts rows one by one, in this order, into a copy without readers. All keys are inserted before the
    /// first value: sled splits its pages as they fill, and a split page keeps the bytes of both halves for
    /// long.
    pub(crate) fn put_in_order(&self, rows: Vec<(impl AsRef<[u8]>, Vec<u8>)>) -> Result<(), ServedError> {
        for (name, _) in &rows {
            self.db.insert(name, &[])?;
        }
        for (name, bytes) in rows {
            self.db.insert(name, bytes)?;
        }
        Ok(())
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
        let db = self.db.clone();
        let mut unaccounted = 0;
        self.db.range(from..to).map(move |row| {
            let (key, value) = row?;
            unaccounted += value.len();
            while unaccounted >= BYTES_PER_ACCESS {
                unaccounted -= BYTES_PER_ACCESS;
                db.get(&key)?;
            }
            Ok((key, value))
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.db.is_empty()
    }

    /// Writes everything that was applied to the file, so that sled can reuse the space of replaced rows. This
    /// makes nothing durable.
    pub(crate) fn hand_over(&self) -> Result<(), ServedError> {
        self.db.flush()?;
        Ok(())
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
    fn expected_conf_matches_what_sled_writes() {
        let dir = tempfile::tempdir().unwrap();
        drop(Served::open(dir.path(), Duration::ZERO).unwrap());
        assert_eq!(fs::read(dir.path().join("conf")).unwrap(), CONF);
        assert_eq!(conf_of(dir.path()).unwrap(), Some(CONF));
        fs::write(dir.path().join(NOTE), "1O48576").unwrap();
        assert_eq!(conf_of(dir.path()).unwrap(), Some(CONF), "from conf");
        fs::write(dir.path().join("conf"), "segment").unwrap();
        assert_eq!(conf_of(dir.path()).unwrap(), None);
        fs::remove_file(dir.path().join(NOTE)).unwrap();
        assert_eq!(conf_of(dir.path()).unwrap(), Some(OLD_CONF), "as it always was");
    }

    /// The memory of this process, bytes.
    fn resident() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
    }

    /// Without the additional accesses, all 192 MiB stay in memory.
    #[test]
    fn reading_everything_does_not_fill_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let served = Served::open(dir.path(), Duration::ZERO).unwrap();
        for row in 0..16_384_u32 {
            let mut changes = Changes::default();
            changes.insert(&row.to_be_bytes(), vec![row as u8; crate::embedded::rows::CHUNK]);
            served.apply(changes).unwrap();
        }
        served.sync().unwrap();
        drop(served);
        let served = Served::open(dir.path(), Duration::from_secs(10)).unwrap();
        let before = resident();
        let read: usize = served.range(&[], &[255; 5]).map(|row| row.unwrap().1.len()).sum();
        let more = resident().saturating_sub(before);
        assert_eq!(read, 16_384 * crate::embedded::rows::CHUNK);
        assert!(more < 64 << 20, "{} MiB stay in memory", more >> 20);
    }

    #[test]
    fn chunked_values_create_no_blobs() {
        let dir = tempfile::tempdir().unwrap();
        let served = Served::open(dir.path(), Duration::ZERO).unwrap();
        for row in 0..2000_u32 {
            let mut changes = Changes::default();
            changes.insert(&row.to_be_bytes(), vec![row as u8; crate::embedded::rows::CHUNK]);
            served.apply(changes).unwrap();
        }
        served.sync().unwrap();
        assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 0);
    }
}
