//! Preparations around opening sled: cleanup before, syncs after.

use std::fs;
use std::io;
use std::path::Path;

use super::sled::{ServedError, conf_of};

/// Removes files known to keep sled from opening. Succeeds if the directory does not exist.
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
        // Left by an interrupted open. Every later open takes it for a snapshot.
        if name.starts_with("snap.") && name.ends_with(".generating") {
            tracing::warn!(path = %entry.path().display(), "removing what an interrupted open has left");
            fs::remove_file(entry.path())?;
            continue;
        }
        // sled would wait on a named pipe without a limit.
        if fs::metadata(entry.path()).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Err(ServedError::Unusable(format!("{name} in it is neither a file nor a directory")));
        }
    }
    // `conf` is never synced, so a power failure may have lost any part of it. sled writes it again.
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

/// Makes the files that opening has written durable: sled syncs neither its directory entries nor its `conf`
/// nor its snapshots.
pub(crate) fn after_open(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let synced = fs::File::open(entry.path()).and_then(|file| file.sync_all());
        match synced {
            // sled removes its old snapshots concurrently.
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
    fn leftover_files_are_removed_and_blobs_are_refused() {
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
