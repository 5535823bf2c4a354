//! Opens and reads files that an operator names, and the files of a data directory.
//!
//! A path may lead to a named pipe, on which open(2) waits without a limit, or to a device, which may have no end. Therefore files are
//! opened without waiting, everything but a regular file is refused, and limits count the bytes that are read.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// The limit of files whose size has no other limit, in bytes: configurations, kubeconfigs, keys and certificates.
pub const MAX_CONFIG: u64 = 16 << 20;

/// How long a pipe of this process may take until its end.
const PIPE_PATIENCE: Duration = Duration::from_secs(30);
/// The device number of `/dev/null`.
const NULL: (u32, u32) = (1, 3);

/// Reads a file whole. Besides regular files, accepts `/dev/null`, which is empty, and the pipes that this process has inherited:
/// `/dev/stdin`, and the `/dev/fd/63` that `<(command)` in a shell becomes. Such a pipe must end within 30 s.
///
/// # Errors
/// The file cannot be read, is of another type, or is larger than `limit` bytes. The text continues a sentence about the file.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = open_without_waiting(path, OpenOptions::new().read(true))?;
    let found = file.metadata()?;
    let mut bytes = Vec::new();
    if found.file_type().is_fifo() && is_inherited(path) {
        read_pipe(&mut file, limit, PIPE_PATIENCE, &mut bytes)?;
        if bytes.is_empty() {
            let why = "the pipe is empty; a pipe can be read only once, and this file may be read more often: use a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
    } else if found.file_type().is_char_device() && device(found.rdev()) == NULL {
        return Ok(bytes);
    } else {
        check_type(found.file_type())?;
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    }
    match bytes.len() as u64 > limit {
        true => Err(too_large(limit)),
        false => Ok(bytes),
    }
}

/// As [`read`], for text.
///
/// # Errors
/// As [`read`], or the file is not valid UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    io::read_to_string(read(path, limit)?.as_slice())
}

/// Opens a regular file with these options; their other flags for open(2) are replaced.
///
/// # Errors
/// The file cannot be opened, or is of another type. The text continues a sentence about the file.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = open_without_waiting(path, options)?;
    check_regular(&file)?;
    Ok(file)
}

/// Checks that an open file is a regular one.
///
/// # Errors
/// It is of another type. The text continues a sentence about the file.
pub fn check_regular(file: &File) -> io::Result<()> {
    check_type(file.metadata()?.file_type())
}

/// Whether the path names a pipe that this process has inherited. It can be read only once.
pub fn is_inherited_pipe(path: &Path) -> bool {
    is_inherited(path) && std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

fn is_inherited(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Opens a file. std adds `O_CLOEXEC`.
fn open_without_waiting(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let opened = options.custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    match opened {
        // A socket, or a named pipe that is to be written and that no process reads.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            match std::fs::metadata(path) {
                Ok(found) => Err(check_type(found.file_type()).err().unwrap_or(error)),
                Err(_) => Err(error),
            }
        }
        // Another process has a lease on the file, such as a file server. Opening waits until the kernel has revoked the lease, which takes
        // a limited time.
        Err(error)
            if error.kind() == io::ErrorKind::WouldBlock
                && std::fs::metadata(path).is_ok_and(|found| found.is_file()) =>
        {
            options.custom_flags(0).open(path)
        }
        opened => opened,
    }
}

/// Checks that a type is that of a regular file.
///
/// # Errors
/// It is another type. The text continues a sentence about the file.
pub fn check_type(found: FileType) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    if found.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    let kinds = [
        (found.is_fifo(), "a named pipe"),
        (found.is_socket(), "a socket"),
        (found.is_char_device(), "a character device"),
        (found.is_block_device(), "a block device"),
    ];
    let kind = kinds.iter().find(|(is, _)| *is).map_or("a special file", |(_, kind)| kind);
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}, not a regular file")))
}

fn device(number: u64) -> (u32, u32) {
    (rustix::fs::major(number), rustix::fs::minor(number))
}

fn too_large(limit: u64) -> io::Error {
    let shown = match limit % (1 << 20) {
        0 => format!("{} MiB", limit >> 20),
        _ => format!("{limit} bytes"),
    };
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {shown}"))
}

/// Reads a pipe that does not block until its end, or until more than `limit` bytes are read.
fn read_pipe(pipe: &mut File, limit: u64, patience: Duration, bytes: &mut Vec<u8>) -> io::Result<()> {
    let until = Instant::now() + patience;
    loop {
        let rest = limit.saturating_add(1).saturating_sub(bytes.len() as u64);
        match pipe.take(rest).read_to_end(bytes) {
            Ok(_) => return Ok(()),
            // What was read before stays in `bytes`.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let text = format!("the pipe has not ended within {} s", patience.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        // At most 30 s, which always fit.
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    const PIPE: &str = "it is a named pipe, not a regular file";

    fn pipe_in(dir: &Path) -> PathBuf {
        let path = dir.join("pipe");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        path
    }

    #[test]
    fn only_regular_files_are_read_and_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, socket) =
            (dir.path().join("file"), dir.path().join("link"), dir.path().join("socket"));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let pipe = pipe_in(dir.path());
        let _listener = UnixListener::bind(&socket).unwrap();
        for (case, path, expected) in [
            ("1 file", file.as_path(), Ok("text")),
            ("2 link", &link, Ok("text")),
            ("3 named pipe", &pipe, Err(PIPE)),
            ("4 endless device", Path::new("/dev/zero"), Err("it is a character device, not a regular file")),
            ("5 empty device", Path::new("/dev/null"), Ok("")),
            ("6 directory", dir.path(), Err("Is a directory (os error 21)")),
            ("7 socket", &socket, Err("it is a socket, not a regular file")),
            ("8 missing", Path::new("/nowhere/a"), Err("No such file or directory (os error 2)")),
        ] {
            let found = read_text(path, 4).map_err(|error| error.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{case}");
            let opened = open(path, OpenOptions::new().read(true)).is_ok();
            assert_eq!(opened, expected == Ok("text"), "{case}");
        }
        // Whether or not another process reads the pipe.
        for has_reader in [false, true] {
            let reader =
                has_reader.then(|| open_without_waiting(&pipe, OpenOptions::new().read(true)).unwrap());
            let error = open(&pipe, OpenOptions::new().write(true).create(true).truncate(true)).unwrap_err();
            assert_eq!(error.to_string(), PIPE, "{has_reader}");
            drop(reader);
        }
    }

    #[test]
    fn limit_counts_the_bytes_that_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert_eq!(read(&file, 4).unwrap_err().to_string(), "it is larger than 4 bytes");
        std::fs::File::create(&file).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(read(&file, 1 << 20).unwrap_err().to_string(), "it is larger than 1 MiB");
        // The length in the metadata of this regular file is zero.
        assert!(read(Path::new("/proc/self/status"), 16).is_err());
        std::fs::write(&file, b"\xff").unwrap();
        assert_eq!(read_text(&file, 5).unwrap_err().to_string(), "stream did not contain valid UTF-8");
    }

    #[test]
    fn inherited_pipe_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        assert!(is_inherited_pipe(&path) && !is_inherited_pipe(Path::new("/dev/zero")));
        let writing = std::thread::spawn(move || {
            for _ in 0..3 {
                writer.write_all(&[b'x'; 50_000]).unwrap();
                std::thread::yield_now();
            }
        });
        assert_eq!(read(&path, 150_000).unwrap().len(), 150_000);
        writing.join().unwrap();
        let again = read(&path, 9).unwrap_err().to_string();
        assert!(again.starts_with("the pipe is empty"), "{again}");
    }

    #[test]
    fn endless_and_silent_pipes_fail() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        writer.write_all(b"12345").unwrap();
        assert_eq!(read(&path, 4).unwrap_err().to_string(), "it is larger than 4 bytes");
        let mut pipe = open_without_waiting(&path, OpenOptions::new().read(true)).unwrap();
        let error = read_pipe(&mut pipe, 9, Duration::from_millis(10), &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
