//! The mount table (/proc/self/mountinfo), read again only when the kernel reports a change. The kernel reports
//! mounts and unmounts, but not the renaming of a directory above a mount: call [`Table::forget`] after a rename.

use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use orlop_volume::file_location::unescaped;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::MountPoint;

/// The file of the table.
pub(super) const TABLE: &str = "/proc/self/mountinfo";
/// The maximum number of reads when the table changes while it is read.
const MOST_READS: usize = 32;

/// An entry of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountInfo {
    /// The id of the mount ([`orlop_volume::rooted_fs::mount_id`]).
    pub(super) id: u64,
    /// Options of the mount only: `ro`, `nosuid`.
    pub(super) mount_options: Vec<String>,
    /// Later mounts below it propagate to its peers.
    pub(crate) is_shared: bool,
    /// The public part of the entry.
    pub(crate) point: MountPoint,
}

/// The table, cached until it changes.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<CachedTable>);

#[derive(Debug, Default)]
struct CachedTable {
    /// The kernel tracks changes per open file, so this file stays open.
    file: Option<File>,
    lines: Arc<[MountInfo]>,
    reads: u64,
    is_forgotten: bool,
}

impl Table {
    /// The entries, in the order of the table.
    pub(super) fn lines(&self) -> io::Result<Arc<[MountInfo]>> {
        let mut known = self.0.lock();
        let mut is_stale = known.file.is_none() | std::mem::take(&mut known.is_forgotten);
        for _ in 0..MOST_READS {
            let Some(file) = &known.file else {
                known.file = Some(File::open(TABLE)?);
                continue;
            };
            // Poll first, which clears the change mark, and read then: no change is missed.
            is_stale |= has_changed(file)?;
            if !is_stale {
                break;
            }
            let lines = parse(&read(file)?).into();
            is_stale = false;
            known.lines = lines;
            known.reads += 1;
        }
        Ok(Arc::clone(&known.lines))
    }

    /// Discards the cache.
    pub(super) fn forget(&self) {
        self.0.lock().is_forgotten = true;
    }

    /// The number of reads.
    #[cfg(test)]
    pub(super) fn reads(&self) -> u64 {
        self.0.lock().reads
    }
}

fn has_changed(file: &File) -> io::Result<bool> {
    let mut asked = [PollFd::new(file, PollFlags::PRI)];
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        match poll(&mut asked, Some(&none)) {
            Ok(_) => return Ok(asked[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn read(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(16 << 10);
    let mut part = vec![0; 16 << 10];
    loop {
        match file.read_at(&mut part, bytes.len() as u64) {
            Ok(0) => return Ok(bytes),
            Ok(length) => bytes.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Parses the lines of /proc/self/mountinfo (proc(5)). Malformed lines are skipped.
pub(crate) fn parse(table: &[u8]) -> Vec<MountInfo> {
    table.split(|byte| *byte == b'\n').filter_map(line).collect()
}

fn line(text: &[u8]) -> Option<MountInfo> {
    // 36 35 98:0 /root /target rw,noatime master:1 - ext3 /dev/root rw,errors=continue
    let mut fields = text.split(|byte| *byte == b' ');
    let id = number(fields.next()?)?;
    let _parent = fields.next()?;
    let mut device = fields.next()?.split(|byte| *byte == b':');
    let device = (number(device.next()?)?, number(device.next()?)?);
    let root = PathBuf::from(unescaped(fields.next()?));
    let target = PathBuf::from(unescaped(fields.next()?));
    let mount_options = words(fields.next()?);
    // Any number of tags, then a dash.
    let mut is_shared = false;
    fields.by_ref().find(|field| {
        is_shared |= field.starts_with(b"shared:");
        *field == b"-"
    })?;
    let fs_type = unescaped(fields.next()?).to_string_lossy().into_owned();
    let source = unescaped(fields.next()?).to_string_lossy().into_owned();
    let mut options = mount_options.clone();
    for option in words(fields.next().unwrap_or_default()) {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    Some(MountInfo {
        id,
        mount_options,
        is_shared,
        point: MountPoint { target, root, fs_type, source, options, device },
    })
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn words(text: &[u8]) -> Vec<String> {
    let words = text.split(|byte| *byte == b',').filter(|word| !word.is_empty());
    words.map(|word| unescaped(word).to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn mountinfo_lines_are_parsed() {
        let text = b"36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 propagate_from:3 - ext3 /dev/root rw,errors=continue\n\
              37 35 7:12 / /x\\134040y\\012z ro shared:7 master:1 - nfs4 server:/p\\040q ro,vers=4.2\n\
              short line\n\
              x 35 0:1 / /t rw - tmpfs tmpfs rw\n\
              38 35 0:1 / /tail\\04 rw,relatime - tmpfs shared:1 rw,size=4k\n";
        let found = parse(text);
        let points: Vec<_> = found.iter().map(|line| &line.point).collect();
        assert_eq!(points.len(), 3);
        assert_eq!(points[0].target, Path::new("/mnt/a b"));
        assert_eq!(points[0].root, Path::new("/mnt1"));
        assert_eq!(points[0].device, (98, 0));
        assert_eq!(points[0].options, ["rw", "noatime", "errors=continue"]);
        assert_eq!(points[1].target, Path::new("/x\\040y\nz"));
        assert_eq!((&*points[1].fs_type, &*points[1].source), ("nfs4", "server:/p q"));
        assert_eq!(points[2].target, Path::new("/tail\\04"), "an escape that is cut off is none");
        assert_eq!(found[2].mount_options, ["rw", "relatime"]);
        assert_eq!(found[1].id, 37);
        let shared: Vec<bool> = found.iter().map(|line| line.is_shared).collect();
        assert_eq!(shared, [false, true, false]);
    }

    #[test]
    fn arbitrary_bytes_are_parsed_without_a_panic() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(seed);
        let good = b"36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n";
        for _ in 0..5000 {
            let mut text = good.to_vec();
            for _ in 0..rand::Rng::random_range(&mut random, 1..8) {
                let at = rand::Rng::random_range(&mut random, 0..text.len());
                text[at] =
                    *b" \\,:-\n0479\xff".get(rand::Rng::random_range(&mut random, 0..11_usize)).unwrap_or(&0);
            }
            let lines = text.split(|byte| *byte == b'\n').count();
            assert!(parse(&text).len() <= lines);
        }
    }

    #[test]
    fn kernel_table_is_read_once_while_nothing_changes() -> io::Result<()> {
        let table = Table::default();
        assert!(table.lines()?.iter().any(|line| line.point.target == Path::new("/")));
        // Other processes may mount between two calls: at least one of the runs must find no change.
        let is_quiet = (0..1000).any(|_| {
            let before = table.reads();
            (0..10).all(|_| table.lines().is_ok()) && table.reads() == before
        });
        assert!(is_quiet, "{} reads", table.reads());
        Ok(())
    }
}
