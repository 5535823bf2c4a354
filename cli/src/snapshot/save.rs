//! Saves a snapshot.

use std::error::Error;
use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::client::Body;
use orlop_apiserver::OMITTED_FROM_SNAPSHOTS;
use orlop_client::client::Endpoint;
use orlop_store::Kv;
use orlop_store::archive::{self, ArchiveError, Header};
use orlop_store::embedded::{Embedded, Options};

use crate::config::SnapshotFile;
use crate::local_admin;
use crate::output_file;

/// The path of the new file.
///
/// # Errors
/// It exists, and may not be replaced.
pub(super) fn target(file: &SnapshotFile) -> Result<&Path, String> {
    let path = &file.path;
    // First, because --force would be the wrong advice.
    output_file::check_replaceable(path)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let exists = std::fs::symlink_metadata(path).is_ok();
    match exists && !file.force {
        true => Err(format!("{} exists; choose another name, or replace it with --force", path.display())),
        false => Ok(path),
    }
}

/// Saves a snapshot of a server. The file is renamed to its final name once it is complete.
pub(super) async fn fetch(file: &Path, from: Endpoint) -> Result<Header, Box<dyn Error>> {
    let client = local_admin::connect(from).await?;
    let request = http::Request::get("/orlop/snapshot").body(Body::empty())?;
    let response =
        client.send(request).await.map_err(|error| format!("the server does not answer: {error}"))?;
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let bytes = body.collect().await?.to_bytes();
        return Err(refusal(status, &bytes).into());
    }
    let (sender, receiver) = std::sync::mpsc::sync_channel(4);
    let writing = {
        let file = file.to_owned();
        tokio::task::spawn_blocking(move || store(&file, &receiver))
    };
    while let Some(frame) = body.frame().await {
        let part = frame.map(|frame| frame.into_data().ok()).map_err(|error| error.to_string());
        let failed = part.is_err();
        // The receiver is dropped if writing failed; the writer reports why.
        if sender.send(part).is_err() || failed {
            break;
        }
    }
    drop(sender);
    Ok(writing.await??)
}

/// A part of the response (`None` for a frame without data), or why the connection broke.
type Part = Result<Option<bytes::Bytes>, String>;

/// Saves and checks the snapshot before it gets its name, so that a bad one does not overwrite a good file.
fn store(file: &Path, parts: &std::sync::mpsc::Receiver<Part>) -> Result<Header, ArchiveError> {
    let mut came = file.as_os_str().to_owned();
    came.push(".unchecked");
    let came = Path::new(&came);
    archive::save(came, |out| {
        for part in parts {
            match part {
                Ok(Some(bytes)) => out.write_all(&bytes)?,
                Ok(None) => {}
                Err(why) => {
                    return Err(io::Error::other(format!("the response of the server ended early: {why}")));
                }
            }
        }
        Ok(())
    })?;
    let named = archive::check(came).and_then(|whole| {
        let io = |action| move |source| ArchiveError::Io { action, path: file.to_owned(), source };
        std::fs::rename(came, file).map_err(io("write"))?;
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(parent).and_then(|dir| dir.sync_all()).map_err(io("sync the directory of"))?;
        Ok(whole.header)
    });
    if named.is_err() {
        // The download had no error but the file is incomplete. It may also have its final name already.
        let _ = std::fs::remove_file(came);
    }
    named
}

fn refusal(status: http::StatusCode, body: &[u8]) -> String {
    let document = serde_json::from_slice::<serde_json::Value>(body).ok();
    let message = document.as_ref().and_then(|document| document["message"].as_str());
    let text = message.map_or_else(|| String::from_utf8_lossy(body).trim().to_owned(), str::to_owned);
    format!("the server returned no snapshot: {status}: {text}")
}

/// Saves a snapshot of the directory of a store that no process has open.
pub(super) fn take(file: &Path, data_dir: &Path) -> Result<Header, Box<dyn Error>> {
    if !data_dir.join("journal").is_dir() {
        return Err(format!("there is no store in {}", data_dir.display()).into());
    }
    let options = Options { lock_wait: Duration::ZERO, ballast_bytes: Some(0), ..Options::default() };
    let store = Embedded::<()>::open(data_dir, options)?;
    let (id, picture) = (store.id(), store.head());
    let time_ms = jiff::Timestamp::now().as_millisecond();
    let header =
        archive::save(file, |out| archive::write(out, id, time_ms, &picture, &OMITTED_FROM_SNAPSHOTS))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(store.close());
    Ok(header)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The response of a server.
    fn archive_bytes(folder: &Path) -> Vec<u8> {
        let store = orlop_store::memory::Memory::<()>::new();
        let made = folder.join("made");
        archive::save(&made, |out| archive::write(out, store.id(), 0, &store.head(), &[])).unwrap();
        std::fs::read(made).unwrap()
    }

    #[test]
    fn existing_file_is_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, force| SnapshotFile { path: folder.path().join(name), force };
        std::fs::write(folder.path().join("old"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        assert!(target(&file("new", false)).is_ok());
        for name in ["old", "link"] {
            assert!(target(&file(name, false)).unwrap_err().contains("--force"), "{name}");
            assert!(target(&file(name, true)).is_ok(), "{name}");
        }
        for force in [false, true] {
            let refused = target(&file("/dev/null", force)).unwrap_err();
            assert!(refused.contains("device") && !refused.contains("--force"), "{refused}");
        }
    }

    #[test]
    fn bad_snapshot_does_not_replace_a_good_file() {
        let folder = tempfile::tempdir().unwrap();
        let good = archive_bytes(folder.path());
        let mut damaged = good.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        let file = folder.path().join("file");
        for (case, parts, is_good) in [
            ("1 good", vec![Ok(Some(good.clone().into())), Ok(None)], true),
            ("2 nothing", vec![], false),
            ("3 half of it", vec![Ok(Some(good[..middle].to_vec().into()))], false),
            ("4 damaged", vec![Ok(Some(damaged.into()))], false),
            ("5 broken off", vec![Ok(Some(good.clone().into())), Err("gone".to_owned())], false),
        ] {
            let (sender, receiver) = std::sync::mpsc::channel();
            for part in parts {
                sender.send(part).unwrap();
            }
            drop(sender);
            assert_eq!(store(&file, &receiver).is_ok(), is_good, "{case}");
            assert_eq!(std::fs::read(&file).unwrap(), good, "{case}: the good one is there");
            let there = std::fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(there, 2, "{case}: nothing else is left");
        }
    }
}
