//! A record: what several processes, most of them killed, did to a file system, in order, with their reports;
//! and its file format.

use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::Rng as _;
use rand::rngs::StdRng;

use crate::child;
use crate::fuse::layer::{Layer, MARKS, Plan};
use crate::fuse::tree::{Op, Tree};
use crate::ledger::Ledger;
use crate::load::Load;

/// A process that neither ends nor is killed within this time hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a process of the record ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Killed at this change.
    Killed(u64),
    /// Closed after this many commits.
    Closed(u64),
}

/// Short and long lives; the short ones end during the creation of the store or during a recovery.
fn lives(random: &mut StdRng) -> Vec<End> {
    vec![
        End::Killed(random.random_range(1..60)),
        End::Killed(random.random_range(1..40)),
        End::Killed(random.random_range(3000..6000)),
        End::Killed(random.random_range(1..30)),
        End::Closed(random.random_range(200..400)),
        End::Killed(random.random_range(1..60)),
        End::Killed(random.random_range(2000..5000)),
    ]
}

/// Runs processes on a file system created by `begin`, and returns the whole record, including `begin`.
/// `None` where there is no FUSE.
pub(crate) fn record(begin: Vec<Op>, generation: u64, random: &mut StdRng) -> Option<Vec<Op>> {
    let mut ledger = Ledger::default();
    let mut tree = Tree::new();
    for op in &begin {
        tree.apply(op);
        if let Op::Mark(line) = op {
            ledger.take(line).unwrap();
        }
    }
    let layer = Layer::mount(tree, true)?;
    let mut heard = 0;
    for (n, end) in lives(random).into_iter().enumerate() {
        let (kill_at, commits) = match end {
            End::Killed(at) => (Some(at), u64::MAX),
            End::Closed(commits) => (None, commits),
        };
        let session = generation * 100 + n as u64;
        let load = Load { seed: random.random(), session, from: ledger.floor, writers: 8, commits };
        let marks = layer.path().join(MARKS);
        let child = Arc::new(Mutex::new(child::start(&layer.path(), &load, Some(&marks))));
        // The start of the process takes longer than this.
        if let Some(after) = kill_at {
            layer.plan(Plan::Kill { after, child: Arc::clone(&child) });
        }
        let status = wait(&child, end);
        layer.plan(Plan::Go);
        let (lines, now) = layer.marks_behind(heard);
        heard = now;
        for line in &lines {
            ledger.take(line).unwrap_or_else(|fault| panic!("life {n} ({end:?}): {fault}"));
        }
        assert!(status.success() == matches!(end, End::Closed(_)), "life {n} ({end:?}) ended with {status}");
    }
    let lived = layer.end();
    println!("record {generation}: {} operations, {} commits acknowledged", lived.len(), ledger.acknowledged);
    Some(begin.into_iter().chain(lived).collect())
}

fn wait(child: &Mutex<std::process::Child>, end: End) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        // Not locked while waiting: the file system needs the lock to kill the process.
        if let Some(status) = child.lock().try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > PATIENCE {
            child.lock().kill().unwrap();
            panic!("a process has not ended in {PATIENCE:?}, but should be {end:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Saves a record to a file.
pub(crate) fn save(path: &Path, record: &[Op]) -> io::Result<()> {
    let mut out = Vec::new();
    for op in record {
        let (kind, numbers, texts): (u8, [u64; 3], [&[u8]; 2]) = match op {
            Op::Create { dir, name, ino, is_dir } => {
                (0, [*dir, *ino, u64::from(*is_dir)], [name.as_bytes(), b""])
            }
            Op::Remove { dir, name, ino } => (1, [*dir, *ino, 0], [name.as_bytes(), b""]),
            Op::Rename { from, name, to, new_name, ino } => {
                (2, [*from, *to, *ino], [name.as_bytes(), new_name.as_bytes()])
            }
            Op::Write { ino, offset, bytes } => (3, [*ino, *offset, 0], [bytes, b""]),
            Op::Resize { ino, length } => (4, [*ino, *length, 0], [b"", b""]),
            Op::Sync { ino } => (5, [*ino, 0, 0], [b"", b""]),
            Op::SyncFailed { ino } => (6, [*ino, 0, 0], [b"", b""]),
            Op::Mark(text) => (7, [0, 0, 0], [text.as_bytes(), b""]),
        };
        out.push(kind);
        numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
        for text in texts {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text);
        }
    }
    std::fs::write(path, out)
}

/// Parses a record written by [`save`]. `None` when the bytes are truncated or not a record.
pub(crate) fn load(bytes: &[u8]) -> Option<Vec<Op>> {
    fn number(rest: &mut &[u8]) -> Option<u64> {
        let (number, behind) = rest.split_first_chunk()?;
        *rest = behind;
        Some(u64::from_le_bytes(*number))
    }
    fn text(rest: &mut &[u8]) -> Option<Vec<u8>> {
        let length = number(rest)? as usize;
        let (text, behind) = rest.split_at_checked(length)?;
        *rest = behind;
        Some(text.to_owned())
    }
    let mut record = Vec::new();
    let mut rest = bytes;
    while let Some((kind, behind)) = rest.split_first() {
        rest = behind;
        let [a, b, c] = [number(&mut rest)?, number(&mut rest)?, number(&mut rest)?];
        let (first, second) = (text(&mut rest)?, String::from_utf8(text(&mut rest)?).ok()?);
        let name = || String::from_utf8(first.clone()).ok();
        record.push(match kind {
            0 => Op::Create { dir: a, name: name()?, ino: b, is_dir: c == 1 },
            1 => Op::Remove { dir: a, name: name()?, ino: b },
            2 => Op::Rename { from: a, name: name()?, to: b, new_name: second, ino: c },
            3 => Op::Write { ino: a, offset: b, bytes: first },
            4 => Op::Resize { ino: a, length: b },
            5 => Op::Sync { ino: a },
            6 => Op::SyncFailed { ino: a },
            7 => Op::Mark(name()?),
            _ => return None,
        });
    }
    Some(record)
}

#[test]
fn saved_record_can_be_loaded() {
    let record = vec![
        Op::Create { dir: 1, name: "a".into(), ino: 3, is_dir: true },
        Op::Remove { dir: 1, name: "a".into(), ino: 3 },
        Op::Rename { from: 1, name: "a".into(), to: 2, new_name: "b".into(), ino: 3 },
        Op::Write { ino: 3, offset: 7, bytes: vec![0, 255] },
        Op::Resize { ino: 3, length: 9 },
        Op::Sync { ino: 3 },
        Op::SyncFailed { ino: 3 },
        Op::Mark("A 1 2 3".into()),
    ];
    let file = tempfile::NamedTempFile::new().unwrap();
    save(file.path(), &record).unwrap();
    let bytes = std::fs::read(file.path()).unwrap();
    assert_eq!(load(&bytes), Some(record));
    assert_eq!(load(&bytes[..bytes.len() - 1]), None);
}
