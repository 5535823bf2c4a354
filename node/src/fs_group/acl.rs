//! POSIX access control lists of files (acl(5)). On a file with an ACL the group bits of the mode are the mask,
//! and the owning group has an entry of its own: both receive the rights of the group.

use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

const NAME: &str = "system.posix_acl_access";
const VERSION: u32 = 2;
const HEADER: usize = 4;
const ENTRY: usize = 8;
/// The largest size of an extended attribute.
const MOST_BYTES: usize = 64 << 10;

const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;

/// Adds these rights to the owning group in the ACL of a file. Returns false if the file has no ACL, or the group
/// has the rights already.
pub(super) fn raise(file: &Path, rights: u32) -> Result<bool, Errno> {
    let mut few = [0; 512];
    let list = match getxattr(file, NAME, &mut few[..]) {
        Ok(length) => few.get(..length).unwrap_or_default().to_vec(),
        Err(Errno::NODATA | Errno::NOTSUP) => return Ok(false),
        Err(Errno::RANGE) => {
            let mut many = vec![0; MOST_BYTES];
            let length = getxattr(file, NAME, &mut many[..])?;
            many.truncate(length);
            many
        }
        Err(errno) => return Err(errno),
    };
    match raised(&list, rights) {
        Some(list) => setxattr(file, NAME, &list, XattrFlags::REPLACE).map(|()| true),
        None => Ok(false),
    }
}

/// Returns the ACL with the added rights; none when nothing changes, or when the format is unknown. Pure.
/// (linux/posix_acl_xattr.h: a version, then entries of tag, rights and id, all little-endian.)
fn raised(list: &[u8], rights: u32) -> Option<Vec<u8>> {
    let version = list.get(..HEADER)?;
    if version != VERSION.to_le_bytes() || !(list.len() - HEADER).is_multiple_of(ENTRY) {
        return None;
    }
    let rights = u16::try_from(rights & 7).ok()?;
    let mut new = list.to_vec();
    for entry in new.get_mut(HEADER..)?.chunks_exact_mut(ENTRY) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        if tag == GROUP_OBJ || tag == MASK {
            let has = u16::from_le_bytes([entry[2], entry[3]]) | rights;
            entry[2..4].copy_from_slice(&has.to_le_bytes());
        }
    }
    (new != list).then_some(new)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Builds an ACL of (tag, rights) entries.
    pub(crate) fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut list = VERSION.to_le_bytes().to_vec();
        for (tag, rights) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(rights.to_le_bytes());
            // Entries of named users and groups have an id.
            let id = if *tag == 0x02 || *tag == 0x08 { 1234 } else { u32::MAX };
            list.extend(id.to_le_bytes());
        }
        list
    }

    #[test]
    fn only_group_and_mask_gain_rights() {
        let before = list(&[(0x01, 6), (0x02, 4), (0x04, 4), (0x08, 1), (0x10, 5), (0x20, 0)]);
        let after = list(&[(0x01, 6), (0x02, 4), (0x04, 6), (0x08, 1), (0x10, 7), (0x20, 0)]);
        assert_eq!(raised(&before, 6), Some(after.clone()));
        assert_eq!(raised(&after, 6), None);
        for not_understood in [&b""[..], b"\x03\0\0\0", b"\x02\0\0\0\x01", b"\x02\0"] {
            assert_eq!(raised(not_understood, 7), None);
        }
    }
}
