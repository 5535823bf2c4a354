//! Reading snapshot files. No bytes are used before their checksum matches.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Buf;
use orlop_apimachinery::input_file;

use super::error::ArchiveError;
use super::format::{BadHeader, FORMAT, HEADER, Header, Summary, TRAILER, Trailer};
use crate::embedded::StoreId;
use crate::embedded::snapshot::{self, SavedRecord};

/// The upper bound for a block: the largest value, its key, and the bytes gathered before it.
const BLOCK: usize = 1 << 30;

/// Reads the header of a file, and nothing else.
///
/// # Errors
/// When the file cannot be read or is not a snapshot.
pub fn header(path: &Path) -> Result<Header, ArchiveError> {
    Ok(Reader::open(path)?.header)
}

/// Reads the whole file and checks every byte.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub fn check(path: &Path) -> Result<Summary, ArchiveError> {
    let reader = Reader::open(path)?;
    let (header, file_bytes) = (reader.header, reader.size);
    let mut summary = Summary { header, bytes: 0, file_bytes, topics: Default::default() };
    reader.each(|record| {
        summary.bytes += (record.key.as_str().len() + record.value.len()) as u64;
        *summary.topics.entry(record.key.topic().to_owned()).or_default() += 1;
        Ok(())
    })?;
    Ok(summary)
}

/// A snapshot file opened for reading.
pub(super) struct Reader<'a> {
    path: &'a Path,
    pub(super) header: Header,
    trailer: Trailer,
    file: File,
    size: u64,
}

impl<'a> Reader<'a> {
    /// Opens a file and reads its header and trailer.
    pub(super) fn open(path: &'a Path) -> Result<Self, ArchiveError> {
        let io = |source| ArchiveError::Io { action: "read", path: path.to_owned(), source };
        let damaged = |what: &str| ArchiveError::Damaged { path: path.to_owned(), what: what.to_owned() };
        let mut file = input_file::open(path, File::options().read(true)).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let mut start = [0; HEADER];
        if size < HEADER as u64 {
            return Err(ArchiveError::Foreign { path: path.to_owned() });
        }
        file.read_exact(&mut start).map_err(io)?;
        let header = match Header::decode(&start) {
            Ok(header) => header,
            Err(BadHeader::Foreign) => return Err(ArchiveError::Foreign { path: path.to_owned() }),
            Err(BadHeader::Broken) => return Err(damaged("its header does not fit its checksum")),
            Err(BadHeader::Format(found)) => {
                return Err(ArchiveError::Format { path: path.to_owned(), found, supported: FORMAT });
            }
        };
        if size < (HEADER + TRAILER) as u64 {
            return Err(damaged("it is cut short"));
        }
        let mut end = [0; TRAILER];
        file.seek(SeekFrom::End(-(TRAILER as i64))).and_then(|_| file.read_exact(&mut end)).map_err(io)?;
        let trailer = Trailer::decode(&end)
            .ok_or_else(|| damaged("its end is missing or does not fit its checksum"))?;
        let fits = trailer.body == size - (HEADER + TRAILER) as u64
            && trailer.records == header.records
            && trailer.revision == header.revision;
        if !fits {
            return Err(damaged("its header and its end do not belong together"));
        }
        file.seek(SeekFrom::Start(HEADER as u64)).map_err(io)?;
        Ok(Reader { path, header, trailer, file, size })
    }

    /// Passes every record to the callback, in key order. The file is complete only if this returns `Ok`.
    pub(super) fn each(
        self,
        mut take: impl FnMut(SavedRecord) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let damaged = |what: String| ArchiveError::Damaged { path: self.path.to_owned(), what };
        let body = Summed { file: self.file.take(self.trailer.body), crc: 0 };
        let mut zip = zstd::stream::read::Decoder::new(body)
            .map_err(|error| damaged(format!("it cannot be decompressed: {error}")))?
            .single_frame();
        let read = |zip: &mut dyn Read, bytes: &mut [u8], what: &str| {
            zip.read_exact(bytes).map_err(|error| damaged(format!("{what} cannot be decompressed: {error}")))
        };
        let mut start = [0; snapshot::HEADER];
        read(&mut zip, &mut start, "its beginning")?;
        let store = StoreId(self.header.store);
        let (head, mut crc) = start.split_at(snapshot::HEADER - 4);
        let mut at = &head[12..];
        let fits = store.crc(&[head]) == crc.get_u32_le()
            && at.get_u64_le() == self.header.revision.0
            && at.get_i64_le() == self.header.time_ms
            && at.get_u64_le() == self.header.records;
        if !fits {
            return Err(damaged("the header within does not fit the one outside".to_owned()));
        }
        let mut left = self.header.records;
        let mut last: Option<crate::Key> = None;
        for nth in 1_u64.. {
            if left == 0 {
                break;
            }
            let mut front = [0; 8];
            read(&mut zip, &mut front, &format!("block {nth}"))?;
            let (length, mut crc) = front.split_at(4);
            let size = { length }.get_u32_le() as usize;
            if size == 0 || size > BLOCK {
                return Err(damaged(format!("block {nth} has an impossible length")));
            }
            let mut block = Vec::new();
            let got = (&mut zip).take(size as u64).read_to_end(&mut block);
            let got = got.map_err(|error| damaged(format!("block {nth} cannot be decompressed: {error}")))?;
            if got != size || store.crc(&[length, &block]) != crc.get_u32_le() {
                return Err(damaged(format!("block {nth} does not fit its checksum")));
            }
            let records = snapshot::decode_block(&block)
                .ok_or_else(|| damaged(format!("block {nth} contains data that is not a record")))?;
            for record in records {
                let fits = last.as_ref().is_none_or(|last| *last < record.key)
                    && record.revision <= self.header.revision
                    && record.create <= record.revision;
                if !fits || left == 0 {
                    return Err(damaged(format!("{} in block {nth} does not belong there", record.key)));
                }
                left -= 1;
                last = Some(record.key.clone());
                take(record)?;
            }
        }
        let mut rest = [0; 1];
        let more = zip.read(&mut rest).map_err(|error| damaged(format!("its end: {error}")))?;
        if more > 0 {
            return Err(damaged("it has more records than its header says".to_owned()));
        }
        // The checksum also covers the bytes that the decompressor did not consume.
        let mut body = zip.finish();
        io::copy(&mut body, &mut io::sink()).map_err(|source| ArchiveError::Io {
            action: "read",
            path: self.path.to_owned(),
            source,
        })?;
        if body.get_ref().crc != self.trailer.crc {
            return Err(damaged("its body does not fit its checksum".to_owned()));
        }
        Ok(())
    }
}

/// Computes the checksum of the bytes read through it.
struct Summed {
    file: io::Take<File>,
    crc: u32,
}

impl Read for Summed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..read]);
        Ok(read)
    }
}
