//! What has to be right around sled before it is opened, and after.

use std::fs;
use std::io;
use std::path::Path;

use super::sled::{ServedError, conf_of};

/// Cleans the directory of what is known to keep sled from opening. Fine when it does not exist.
pub(crate) fn before_open(dir: &Path) -> Result<(), ServedError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // An open that was interrupted leaves it, and every later one takes it for a snapshot.
        if name.starts_with("snap.") && name.ends_with(".generating") {
            tracing::warn!(path = %entry.path().display(), "removing what an interrupted open has left");
            fs::remove_file(entry.path())?;
        }
    }
    // It is never synced, so a power cut may have taken any part of it. sled writes it again.
    let conf = dir.join("conf");
    match fs::read(&conf) {
        Ok(bytes) if conf_of(dir)?.is_none_or(|conf| bytes == conf) => {}
        Ok(_) => {
            tracing::warn!(path = %conf.display(), "removing a damaged conf; it is written again");
            fs::remove_file(&conf)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    match fs::read_dir(dir.join("blobs")) {
        Ok(mut blobs) => match blobs.next() {
            Some(_) => Err(ServedError::Unusable("there are files in blobs/, which are never synced".into())),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes durable whatever opening has written: sled syncs neither its names nor its `conf` nor its
/// snapshots.
pub(crate) fn after_open(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let synced = fs::File::open(entry.path()).and_then(|file| file.sync_all());
        match synced {
            // It tidies up its old snapshots behind our back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn cleans_and_refuses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        before_open(&path.join("missing")).unwrap();
        for (name, bytes, stays) in [
            ("snap.0000000000000001.generating", &b"x"[..], false),
            ("snap.0000000000000001", b"x", true),
            ("conf", b"segment_size: 1\n", false),
            ("db", b"", true),
        ] {
            fs::write(path.join(name), bytes).unwrap();
            before_open(path).unwrap();
            assert_eq!(path.join(name).exists(), stays, "{name}");
        }
        fs::write(path.join("conf"), conf_of(path).unwrap().unwrap()).unwrap();
        fs::create_dir(path.join("blobs")).unwrap();
        before_open(path).unwrap();
        assert!(path.join("conf").exists());
        fs::write(path.join("blobs/7"), b"x").unwrap();
        assert!(matches!(before_open(path), Err(ServedError::Unusable(_))));
    }
}
