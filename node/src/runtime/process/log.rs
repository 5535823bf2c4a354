//! Container logs on disk, in the format of the container runtime interface: `TIME STREAM P|F TEXT`, where P
//! marks a partial line. The size is bounded: a full `0.log` is renamed to `0.log.1`, and the oldest file is
//! deleted.

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// The maximum length of a partial line, in bytes.
const PART: usize = 16 * 1024;

/// An output stream of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Its name in the log.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The existing files of a log, the oldest first.
pub(crate) fn files(dir: &Path, restart: u32) -> Vec<PathBuf> {
    let older = (1..).map(|n| rotated(dir, restart, n)).take_while(|path| path.exists());
    let mut files: Vec<PathBuf> = older.collect();
    files.reverse();
    files.push(current(dir, restart));
    files
}

/// The file that is being written.
pub(crate) fn current(dir: &Path, restart: u32) -> PathBuf {
    dir.join(format!("{restart}.log"))
}

fn rotated(dir: &Path, restart: u32, n: u32) -> PathBuf {
    dir.join(format!("{restart}.log.{n}"))
}

/// Writes the log of one run.
pub(crate) struct Log {
    dir: PathBuf,
    restart: u32,
    bytes: u64,
    files: u32,
    open: Mutex<Open>,
}

struct Open {
    file: File,
    len: u64,
}

impl Log {
    /// Opens a log of at most `files` files of about `bytes` bytes each.
    pub(crate) fn open(dir: &Path, restart: u32, bytes: u64, files: u32) -> io::Result<Self> {
        super::super::records::make_dir(dir)?;
        let open = open(&current(dir, restart))?;
        Ok(Self { dir: dir.to_owned(), restart, bytes, files: files.max(1), open: Mutex::new(open) })
    }

    /// Copies a stream to the log until its end. Lines that cannot be written are lost: a full disk must not block
    /// the container.
    pub(crate) fn take(&self, stream: Stream, mut from: impl Read) {
        let mut parts = Parts::default();
        let mut buffer = [0; PART];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => parts.push(&buffer[..n], |text, is_whole| self.write(stream, text, is_whole)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        parts.finish(|text, is_whole| self.write(stream, text, is_whole));
    }

    fn write(&self, stream: Stream, text: &[u8], is_whole: bool) {
        let tag = if is_whole { "F" } else { "P" };
        let mut line = format!("{:.9} {} {tag} ", Timestamp::now(), stream.word()).into_bytes();
        line.extend_from_slice(text);
        line.push(b'\n');
        let mut open = self.open.lock();
        let len = line.len() as u64;
        if open.len > 0
            && open.len + len > self.bytes
            && let Ok(fresh) = self.rotate()
        {
            *open = fresh;
        }
        match open.file.write_all(&line) {
            Ok(()) => open.len += len,
            // Remove the partial write; otherwise it would merge with the next line.
            Err(_) => drop(open.file.set_len(open.len)),
        }
    }

    fn rotate(&self) -> io::Result<Open> {
        let newest = current(&self.dir, self.restart);
        if self.files == 1 {
            super::super::records::gone(std::fs::remove_file(&newest))?;
            return open(&newest);
        }
        // Missing when the last rotation failed after renaming it.
        if newest.exists() {
            for n in (1..self.files - 1).rev() {
                let from = rotated(&self.dir, self.restart, n);
                if from.exists() {
                    std::fs::rename(from, rotated(&self.dir, self.restart, n + 1))?;
                }
            }
            std::fs::rename(&newest, rotated(&self.dir, self.restart, 1))?;
        }
        open(&newest)
    }
}

fn open(path: &Path) -> io::Result<Open> {
    let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path)?;
    let len = file.metadata()?.len();
    Ok(Open { file, len })
}

/// Splits a stream into lines, and long lines into parts.
#[derive(Default)]
struct Parts {
    held: Vec<u8>,
}

impl Parts {
    fn push(&mut self, bytes: &[u8], mut give: impl FnMut(&[u8], bool)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            self.held.extend_from_slice(text);
            while self.held.len() > PART {
                let rest = self.held.split_off(PART);
                give(&self.held, false);
                self.held = rest;
            }
            if is_whole {
                give(&self.held, true);
                self.held.clear();
            }
        }
    }

    fn finish(&mut self, mut give: impl FnMut(&[u8], bool)) {
        if !self.held.is_empty() {
            give(&self.held, false);
            self.held.clear();
        }
    }
}

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The timestamp, as written.
    pub(crate) time: &'a str,
    /// The stream.
    pub(crate) stream: Stream,
    /// Whether it ends a line.
    pub(crate) is_whole: bool,
    /// The text, without the newline.
    pub(crate) text: &'a [u8],
}

/// Parses a line without its newline.
pub(crate) fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let time = std::str::from_utf8(fields.next()?).ok()?;
    let stream = match fields.next()? {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    let is_whole = fields.next()? == b"F";
    Some(Line { time, stream, is_whole, text: fields.next()? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn texts(dir: &Path) -> Vec<(String, bool)> {
        let mut all = Vec::new();
        for file in files(dir, 0) {
            for line in
                std::fs::read(file).unwrap().split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
            {
                let line = parse(line).unwrap();
                assert!(line.time.parse::<Timestamp>().is_ok() && line.time.len() == 30, "{}", line.time);
                all.push((String::from_utf8_lossy(line.text).into_owned(), line.is_whole));
            }
        }
        all
    }

    #[test]
    fn long_and_unterminated_lines_are_split_into_parts() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), 0, 1 << 20, 5).unwrap();
        let long = "x".repeat(PART + 3);
        log.take(Stream::Stdout, format!("a\n\nb c\n{long}\nend").as_bytes());
        let whole = |text: &str| (text.to_owned(), true);
        let part = |text: &str| (text.to_owned(), false);
        let want = [whole("a"), whole(""), whole("b c"), part(&"x".repeat(PART)), whole("xxx"), part("end")];
        assert_eq!(texts(dir.path()), want);
    }

    #[test]
    fn log_size_is_bounded_by_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), 0, 200, 3).unwrap();
        for n in 0..100 {
            log.take(Stream::Stderr, format!("line {n}\n").as_bytes());
        }
        let kept = texts(dir.path());
        assert_eq!(files(dir.path(), 0).len(), 3);
        assert_eq!(kept.last().unwrap().0, "line 99");
        let first = 100 - kept.len();
        let want: Vec<String> = (first..100).map(|n| format!("line {n}")).collect();
        assert_eq!(
            kept.into_iter().map(|(text, _)| text).collect::<Vec<_>>(),
            want,
            "in order, without gaps"
        );
        assert!(files(dir.path(), 0).iter().all(|file| std::fs::metadata(file).unwrap().len() <= 200));
    }

    /// A small tmpfs, unmounted on drop; `None` without root.
    struct Small(tempfile::TempDir);

    impl Small {
        fn new(options: &std::ffi::CStr) -> Option<Self> {
            if !orlop_test_support::privileges::has_root("logs on a full disk") {
                return None;
            }
            let dir = tempfile::tempdir().unwrap();
            let flags = rustix::mount::MountFlags::empty();
            rustix::mount::mount("tmpfs", dir.path(), "tmpfs", flags, Some(options)).unwrap();
            Some(Self(dir))
        }
    }

    impl Drop for Small {
        fn drop(&mut self) {
            let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
        }
    }

    #[test]
    fn full_disk_leaves_no_truncated_lines() {
        let Some(small) = Small::new(c"size=64k") else { return };
        let (dir, filler) = (small.0.path(), small.0.path().join("filler"));
        std::fs::write(&filler, vec![0; 32 << 10]).unwrap();
        let log = Log::open(dir, 0, 1 << 20, 5).unwrap();
        for _ in 0..6 {
            log.take(Stream::Stdout, format!("{}\n", "x".repeat(9000)).as_bytes());
        }
        std::fs::remove_file(filler).unwrap();
        log.take(Stream::Stdout, &b"end\n"[..]);
        assert_eq!(texts(dir).last(), Some(&("end".to_owned(), true)));
    }

    #[test]
    fn failed_rotation_is_completed_later() {
        let Some(small) = Small::new(c"nr_inodes=3") else { return };
        let (dir, filler) = (small.0.path(), small.0.path().join("filler"));
        std::fs::write(&filler, "").unwrap();
        let log = Log::open(dir, 0, 100, 2).unwrap();
        let say = |n: u32| log.take(Stream::Stdout, format!("line {n} {}\n", "x".repeat(50)).as_bytes());
        (0..3).for_each(say);
        std::fs::remove_file(filler).unwrap();
        (3..6).for_each(say);
        assert!(texts(dir).last().unwrap().0.starts_with("line 5 "), "{:?}", texts(dir));
        let long = files(dir, 0).into_iter().filter(|file| std::fs::metadata(file).unwrap().len() > 400);
        assert_eq!(long.count(), 0);
    }

    #[test]
    fn malformed_lines_are_rejected() {
        for line in ["", "2026-01-01T00:00:00Z", "t stdout", "t other F x", "t stdout F"] {
            assert_eq!(parse(line.as_bytes()), None, "{line:?}");
        }
    }
}
