//! Reads a log from its files while they grow and are rotated.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use jiff::Timestamp;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::fs::File;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt as _, AsyncSeekExt as _, BufReader, Interest};
use tokio::sync::{Semaphore, mpsc};

use super::{LogPlace, LogQuery};
use crate::runtime::process::log::{self, Line};

/// Sends a log to a channel, until its end or until the receiver is dropped.
pub(super) async fn read(mut place: LogPlace, query: LogQuery, to: mpsc::Sender<Bytes>) -> io::Result<()> {
    // The watch starts before the first read, so that no change is missed.
    let changes = if query.follow { Some(Changes::of(&place.dir)?) } else { None };
    let mut writer = Writer { at_start: true, left: query.limit, query: &query, to };
    let mut at = start(&place, &query).await?;
    loop {
        let now = place.state.borrow_and_update().clone();
        let was_open = query.follow && place.is_open(&now);
        while let Some(file) = &mut at {
            if !file.read_on(&mut writer).await? {
                return Ok(());
            }
            match next(&place, file)? {
                Some(path) => {
                    // Reads lines that were written between the last read and the rotation.
                    if !file.read_on(&mut writer).await? {
                        return Ok(());
                    }
                    at = open(&path, 0).await?;
                }
                None => break,
            }
        }
        let Some(changes) = changes.as_ref().filter(|_| was_open) else { return Ok(()) };
        tokio::select! {
            changed = changes.next() => changed?,
            // The sender is dropped with the runtime: no further line will be written.
            changed = place.state.changed() => if changed.is_err() { return Ok(()) },
            () = writer.to.closed() => return Ok(()),
        }
        if at.is_none() {
            at = start(&place, &query).await?;
        }
    }
}

/// An open log file.
struct Reading {
    inode: u64,
    from: BufReader<File>,
    /// The incomplete last line.
    line: Vec<u8>,
}

impl Reading {
    /// Reads to the current end of the file. Returns false when the receiver is dropped or the limit is reached.
    async fn read_on(&mut self, writer: &mut Writer<'_>) -> io::Result<bool> {
        loop {
            if self.from.read_until(b'\n', &mut self.line).await? == 0 {
                return Ok(true);
            }
            if self.line.last() != Some(&b'\n') {
                continue;
            }
            self.line.pop();
            // Skips invalid lines, which a full disk has truncated.
            let goes_on = match log::parse(&self.line) {
                Some(line) => writer.write(&line).await,
                None => true,
            };
            self.line.clear();
            if !goes_on {
                return Ok(false);
            }
        }
    }
}

async fn open(path: &Path, offset: u64) -> io::Result<Option<Reading>> {
    let mut file = match File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let inode = file.metadata().await?.ino();
    file.seek(io::SeekFrom::Start(offset)).await?;
    Ok(Some(Reading { inode, from: BufReader::with_capacity(64 * 1024, file), line: Vec::new() }))
}

/// Opens the log at the first line to show.
async fn start(place: &LogPlace, query: &LogQuery) -> io::Result<Option<Reading>> {
    let files = log::files(&place.dir, place.restart);
    let Some(tail) = query.tail else {
        return match files.first() {
            Some(path) => open(path, 0).await,
            None => Ok(None),
        };
    };
    let Some((path, offset)) = tail_of(&files, tail, query).await? else { return Ok(None) };
    open(&path, offset).await
}

/// Limits concurrent searches for the start of a tail: each reads the whole log, and notes up to a million lines.
static TAILS: Semaphore = Semaphore::const_new(4);

/// The file and the offset of the first of the last `tail` lines.
async fn tail_of(files: &[PathBuf], tail: usize, query: &LogQuery) -> io::Result<Option<(PathBuf, u64)>> {
    let _permit = TAILS.acquire().await.map_err(io::Error::other)?;
    let mut last: VecDeque<(usize, u64)> = VecDeque::new();
    let mut end = (0, 0);
    for (index, path) in files.iter().enumerate() {
        let Some(mut reading) = open(path, 0).await? else { continue };
        let mut offset = 0;
        loop {
            reading.line.clear();
            let n = reading.from.read_until(b'\n', &mut reading.line).await?;
            if n == 0 {
                break;
            }
            let line = log::parse(reading.line.strip_suffix(b"\n").unwrap_or_default());
            if line.is_some_and(|line| query.stream.is_none_or(|stream| stream == line.stream)) {
                if last.len() >= tail.max(1) {
                    last.pop_front();
                }
                last.push_back((index, offset));
            }
            if reading.line.ends_with(b"\n") {
                offset += n as u64;
            }
        }
        end = (index, offset);
    }
    let from = if tail == 0 { Some(end) } else { last.front().copied().or(Some(end)) };
    Ok(from.and_then(|(index, offset)| Some((files.get(index)?.clone(), offset))))
}

/// The file after the one that was read; `None` for the newest.
fn next(place: &LogPlace, reading: &Reading) -> io::Result<Option<PathBuf>> {
    let mut found = Vec::new();
    for path in log::files(&place.dir, place.restart) {
        match std::fs::metadata(&path) {
            Ok(metadata) => found.push((path, metadata.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let after = match found.iter().position(|(_, inode)| *inode == reading.inode) {
        Some(index) => index + 1,
        // The file was deleted in the meantime: continue with the oldest one.
        None => 0,
    };
    Ok(found.into_iter().nth(after).map(|(path, _)| path))
}

struct Writer<'a> {
    query: &'a LogQuery,
    to: mpsc::Sender<Bytes>,
    left: Option<u64>,
    /// The next byte starts a line.
    at_start: bool,
}

impl Writer<'_> {
    /// Sends a line. Returns false when the receiver is dropped or the limit is reached.
    async fn write(&mut self, line: &Line<'_>) -> bool {
        if self.query.stream.is_some_and(|stream| stream != line.stream) {
            return true;
        }
        if let Some(since) = self.query.since
            && line.time.parse::<Timestamp>().is_ok_and(|time| time < since)
        {
            return true;
        }
        let mut text = Vec::with_capacity(line.time.len() + line.text.len() + 2);
        if self.query.timestamps && self.at_start {
            text.extend_from_slice(line.time.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(line.text);
        if line.is_whole {
            text.push(b'\n');
        }
        self.at_start = line.is_whole;
        if let Some(left) = &mut self.left {
            text.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= text.len() as u64;
        }
        if !text.is_empty() && self.to.send(text.into()).await.is_err() {
            return false;
        }
        self.left != Some(0)
    }
}

/// Reports changes in a directory.
struct Changes(AsyncFd<OwnedFd>);

impl Changes {
    #[allow(deprecated, reason = "unsound for types that lie about their file alone; an OwnedFd does not")]
    fn of(dir: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
        inotify::add_watch(&fd, dir, what)?;
        Ok(Self(AsyncFd::with_interest(fd, Interest::READABLE)?))
    }

    /// Waits for the next change; several changes may be merged.
    async fn next(&self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        let mut buffer = [0_u8; 4096];
        loop {
            match rustix::io::read(self.0.get_ref(), &mut buffer) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use serde_json::json;
    use tokio::sync::watch;

    use super::*;
    use crate::runtime::PodState;
    use crate::runtime::process::log::{Log, Stream};

    fn state(is_running: bool) -> PodState {
        let state = if is_running { json!({"running": {}}) } else { json!({"terminated": {"exitCode": 0}}) };
        let status = json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state});
        PodState { containers: vec![serde_json::from_value(status).unwrap()], ..PodState::default() }
    }

    fn place(dir: &Path) -> (LogPlace, watch::Sender<PodState>) {
        let sender = watch::Sender::new(state(true));
        let place =
            LogPlace { dir: dir.to_owned(), restart: 0, container: "c".into(), state: sender.subscribe() };
        (place, sender)
    }

    async fn text(dir: &Path, query: &str) -> String {
        let (place, _state) = place(dir);
        let query = LogQuery::parse(query, Timestamp::now()).unwrap();
        let (to, mut from) = mpsc::channel(1);
        let task = tokio::spawn(read(place, query, to));
        let mut all = Vec::new();
        while let Some(bytes) = from.recv().await {
            all.extend_from_slice(&bytes);
        }
        task.await.unwrap().unwrap();
        String::from_utf8(all).unwrap()
    }

    #[tokio::test]
    async fn query_selects_the_lines() {
        let dir = tempfile::tempdir().unwrap();
        let lines = "2026-01-01T00:00:01.000000000Z stdout F one\n2026-01-01T00:00:02.000000000Z stderr F two\n\
                     cut\n2026-01-01T00:00:03.000000000Z stdout P thr\n2026-01-01T00:00:03.500000000Z stdout F ee\n";
        std::fs::write(dir.path().join("0.log.1"), lines).unwrap();
        std::fs::write(dir.path().join("0.log"), "2026-01-01T00:00:04.000000000Z stdout F four\n").unwrap();
        for (query, want) in [
            ("", "one\ntwo\nthree\nfour\n"),
            ("stream=Stderr", "two\n"),
            ("tailLines=1", "four\n"),
            ("tailLines=3", "three\nfour\n"),
            ("tailLines=99", "one\ntwo\nthree\nfour\n"),
            ("tailLines=0", ""),
            ("tailLines=1&stream=Stderr", "two\n"),
            ("limitBytes=5", "one\nt"),
            ("limitBytes=4", "one\n"),
            ("sinceTime=2026-01-01T00:00:03Z", "three\nfour\n"),
            ("sinceSeconds=1", ""),
            (
                "timestamps=true&sinceTime=2026-01-01T00:00:03Z",
                "2026-01-01T00:00:03.000000000Z three\n2026-01-01T00:00:04.000000000Z four\n",
            ),
        ] {
            assert_eq!(text(dir.path(), query).await, want, "{query}");
        }
        assert_eq!(text(&dir.path().join("none"), "").await, "", "a container without output");
    }

    #[tokio::test]
    async fn followed_log_survives_rotation_and_ends_with_the_container() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), 0, 300, 4).unwrap();
        let (place, state_of) = place(dir.path());
        let (to, mut from) = mpsc::channel(4);
        let query = LogQuery { follow: true, ..LogQuery::default() };
        let task = tokio::spawn(read(place, query, to));
        let mut all = String::new();
        for n in 0..60 {
            log.take(Stream::Stdout, format!("line {n}\n").as_bytes());
            let wait = tokio::time::timeout(Duration::from_secs(20), from.recv());
            all.push_str(std::str::from_utf8(&wait.await.expect("the line arrives").unwrap()).unwrap());
        }
        assert!(dir.path().join("0.log.3").exists());
        log.take(Stream::Stdout, &b"last\n"[..]);
        state_of.send_replace(state(false));
        while let Some(bytes) = from.recv().await {
            all.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        task.await.unwrap().unwrap();
        let want: String = (0..60).map(|n| format!("line {n}\n")).collect();
        assert_eq!(all, want + "last\n");
    }
}
