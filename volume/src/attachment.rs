//! Names of VolumeAttachments.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The prefix of every name of a VolumeAttachment.
pub const PREFIX: &str = "csi-";

/// The digest in the name of the VolumeAttachment of a CSI volume on a node: SHA-256 over handle, driver and node without
/// separators.
// Tests: AD-101
pub fn digest(driver: &str, handle: &str, node: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [handle, driver, node] {
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

/// The name of the VolumeAttachment with this digest.
pub fn name_of_digest(digest: &[u8; 32]) -> String {
    let mut name = String::with_capacity(PREFIX.len() + 2 * digest.len());
    name.push_str(PREFIX);
    for byte in digest {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// The name of the VolumeAttachment of a CSI volume on a node.
pub fn name(driver: &str, handle: &str, node: &str) -> String {
    name_of_digest(&digest(driver, handle, node))
}
