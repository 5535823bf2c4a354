//! Writing snapshot files from an immutable snapshot of the state.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::error::ArchiveError;
use super::format::{Header, Trailer};
use crate::Snapshot;
use crate::embedded::StoreId;
use crate::embedded::snapshot::Encoder;

/// zstd's own default. Higher levels take several times as long and save little.
const LEVEL: i32 = 3;

/// Writes the records of a snapshot to `out`, which is neither flushed nor synced. Omits the records whose keys start with one of the
/// prefixes in `omitted`.
///
/// # Errors
/// Those of `out`.
pub fn write<V>(
    out: impl Write,
    store: [u8; 16],
    time_ms: i64,
    picture: &Snapshot<V>,
    omitted: &[&str],
) -> io::Result<Header> {
    let included = || picture.range("", None).filter(|record| !starts_with_any(record.key.as_str(), omitted));
    let records = included().count() as u64;
    let header = Header { store, revision: picture.revision(), time_ms, records };
    let mut out = Summed { out, bytes: 0, crc: 0 };
    out.out.write_all(&header.encode())?;
    let mut zip = zstd::stream::write::Encoder::new(&mut out, LEVEL)?;
    let mut sink = |bytes: &[u8]| zip.write_all(bytes);
    let mut encoder = Encoder::start(StoreId(store), header.revision, time_ms, records, &mut sink)?;
    for record in included() {
        encoder.record(
            record.create_revision,
            record.mod_revision,
            record.time_ms,
            record.key.as_str(),
            record.stored_bytes(),
        )?;
    }
    encoder.finish()?;
    zip.finish()?;
    let trailer = Trailer { body: out.bytes, crc: out.crc, records, revision: header.revision };
    out.out.write_all(&trailer.encode())?;
    Ok(header)
}

/// Whether a key starts with one of the prefixes.
pub(super) fn starts_with_any(key: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// Writes a file atomically: a file with the final name is complete and on disk. Only its owner can read
/// it, because it may contain Secrets. `fill` writes the contents: [`write()`], or a copy from elsewhere.
///
/// # Errors
/// File system errors, and those of `fill`. `path` is then unchanged.
pub fn save<T>(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> Result<T, ArchiveError> {
    let io = |action| move |source| ArchiveError::Io { action, path: path.to_owned(), source };
    let mut tmp = path.as_os_str().to_owned();
    tmp.push(".tmp");
    let tmp = Path::new(&tmp);
    let result = (|| {
        let file = create_new(tmp)?;
        let mut out = io::BufWriter::with_capacity(1 << 20, file);
        let filled = fill(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(tmp, path)?;
        Ok(filled)
    })();
    let filled = match result {
        Ok(filled) => filled,
        Err(source) => {
            // The file may not exist.
            let _ = fs::remove_file(tmp);
            return Err(io("write")(source));
        }
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent).and_then(|dir| dir.sync_all()).map_err(io("sync the directory of"))?;
    Ok(filled)
}

/// Creates a file that only its owner can read. An existing file of that name, such as a leftover or another user's link in a
/// shared directory, is removed and never opened.
fn create_new(path: &Path) -> io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Computes the checksum of the bytes written through it.
struct Summed<W> {
    out: W,
    bytes: u64,
    crc: u32,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
