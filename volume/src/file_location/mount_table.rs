//! The parts of the mount table (/proc/self/mountinfo) that show which directory of a file system is mounted where.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The mounts of this process by their ID.
#[derive(Clone, Debug, Default)]
pub struct MountTable(BTreeMap<u64, MountedDir>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct MountedDir {
    /// Major and minor number of the file system's device.
    device: (u32, u32),
    /// The mounted directory, as a path in its file system.
    root: PathBuf,
    target: PathBuf,
}

impl MountTable {
    /// Reads the table. Without /proc it is empty, and locations are compared by identity only.
    pub fn read() -> Self {
        Self::parse(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Parses the lines of the table (proc(5)). Malformed lines are skipped.
    pub fn parse(table: &[u8]) -> Self {
        Self(table.split(|byte| *byte == b'\n').filter_map(line).collect())
    }

    /// The device of the file system that a path leads to through this mount, and the path in that file system.
    pub(super) fn inside(&self, mount: u64, path: &Path) -> Option<((u32, u32), PathBuf)> {
        let mount = self.0.get(&mount)?;
        Some((mount.device, mount.root.join(path.strip_prefix(&mount.target).ok()?)))
    }
}

fn line(text: &[u8]) -> Option<(u64, MountedDir)> {
    // 36 35 98:0 /root /target rw,noatime master:1 - ext3 /dev/root rw,errors=continue
    let mut fields = text.split(|byte| *byte == b' ');
    let id = number(fields.next()?)?;
    let mut device = fields.nth(1)?.split(|byte| *byte == b':');
    let device = (number(device.next()?)?, number(device.next()?)?);
    let root = PathBuf::from(unescaped(fields.next()?));
    let target = PathBuf::from(unescaped(fields.next()?));
    fields.find(|field| *field == b"-")?;
    // Linux shows `/` as the root of every NFS mount (fs/nfs/super.c), also for different directories of a server.
    let has_root = !fields.next()?.starts_with(b"nfs");
    has_root.then_some((id, MountedDir { device, root, target }))
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A field of the mount table. Space, tab, newline, backslash and `#` are octal escapes.
pub fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, more)) = rest.split_first() {
        let octal = if first == b'\\' { more.get(..3).and_then(octal) } else { None };
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { more.get(3..).unwrap_or_default() } else { more };
    }
    OsString::from_vec(bytes)
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |sum, digit| match digit {
        b'0'..=b'7' => sum.checked_mul(8)?.checked_add(digit - b'0'),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_translated_to_their_file_system() {
        let table = MountTable::parse(
            b"1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
              2 1 8:1 /srv/real /mnt/a\\040b rw,noatime shared:1 master:1 - ext4 /dev/sda1 rw\n\
              3 1 8:2 /@/root /data rw - btrfs /dev/sdb rw\n\
              4 1 0:44 / /nfs rw - nfs4 server:/export rw\n\
              short line\n\
              x 1 0:1 / /t rw - tmpfs tmpfs rw\n",
        );
        for (mount, path, expected) in [
            (1, "/srv/real/x", Some(((8, 1), "/srv/real/x"))),
            (1, "/", Some(((8, 1), "/"))),
            (2, "/mnt/a b", Some(((8, 1), "/srv/real"))),
            (2, "/mnt/a b/c/d", Some(((8, 1), "/srv/real/c/d"))),
            (3, "/data/v", Some(((8, 2), "/@/root/v"))),
            (2, "/other", None),
            (4, "/nfs/v", None),
            (5, "/", None),
        ] {
            let expected = expected.map(|(device, path)| (device, PathBuf::from(path)));
            assert_eq!(table.inside(mount, Path::new(path)), expected, "mount {mount}, {path}");
        }
    }

    #[test]
    fn octal_escapes_must_fit_a_byte() {
        for (text, expected) in
            [("040", Some(32)), ("377", Some(255)), ("400", None), ("08x", None), ("777", None)]
        {
            assert_eq!(octal(text.as_bytes()), expected, "{text}");
        }
    }
}
