//! Notifies of changes in a directory (inotify).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Size of the buffer for a batch of events, in bytes; the next read returns the rest.
const ROOM: usize = 4096;

/// Reports when an entry of a directory is created or deleted, or changes its owner or mode.
#[derive(Debug)]
pub(super) struct Folder(AsyncFd<OwnedFd>);

impl Folder {
    /// Starts watching. Requires a runtime with I/O enabled.
    ///
    /// # Errors
    /// The directory does not exist, or the kernel is out of watches.
    #[allow(
        deprecated,
        reason = "an OwnedFd keeps its descriptor as long as it lives, which is what the other way has to promise"
    )]
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let descriptor = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let of_entries = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::ATTRIB;
        let of_itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        inotify::add_watch(&descriptor, dir, of_entries | of_itself)?;
        Ok(Self(AsyncFd::with_interest(descriptor, Interest::READABLE)?))
    }

    /// Waits until something has changed since the watch was created, or since the last call returned. Several changes may be
    /// merged into one.
    ///
    /// # Errors
    /// The directory was deleted or moved, or the kernel reports an error.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            // On "would block", no event was pending after all.
            if let Ok(read) = ready.try_io(|descriptor| read_all(descriptor.get_ref())) {
                return read;
            }
        }
    }
}

/// Reads all pending events. "Would block" when there are none.
fn read_all(descriptor: &OwnedFd) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut events = Reader::new(descriptor, &mut room);
    // The first read fails if there is no event; the rest drains the kernel's buffer.
    let mut last = events.next()?.events();
    loop {
        if last.intersects(
            ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT,
        ) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        match events.next() {
            Ok(event) => last = event.events(),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::time::Duration;

    use super::*;

    async fn next_change(folder: &mut Folder) -> io::Result<()> {
        tokio::time::timeout(Duration::from_secs(30), folder.changed()).await.expect("a change is reported")
    }

    /// Whether no earlier change is reported again.
    async fn is_quiet(folder: &mut Folder) -> bool {
        tokio::select! {
            biased;
            _ = folder.changed() => false,
            // The kernel queues an event before the call that causes it returns.
            () = async { for _ in 0..100 { tokio::task::yield_now().await } } => true,
        }
    }

    #[tokio::test]
    async fn only_changes_of_the_directory_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
        fs::create_dir(&inside).unwrap();
        let mut folder = Folder::of(&inside).unwrap();
        assert!(is_quiet(&mut folder).await);
        fs::read_dir(&inside).unwrap();
        fs::write(dir.path().join("beside"), "").unwrap();
        assert!(is_quiet(&mut folder).await, "looking is no change, and others are no matter");
        fs::write(inside.join("a"), "").unwrap();
        next_change(&mut folder).await.unwrap();
        fs::rename(inside.join("a"), inside.join("b")).unwrap();
        next_change(&mut folder).await.unwrap();
        fs::remove_file(inside.join("b")).unwrap();
        next_change(&mut folder).await.unwrap();
        assert!(is_quiet(&mut folder).await, "a change is reported once");
        fs::rename(&inside, dir.path().join("elsewhere")).unwrap();
        assert_eq!(next_change(&mut folder).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn watching_a_non_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Folder::of(&dir.path().join("none")).is_err());
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(Folder::of(&dir.path().join("file")).is_err());
    }
}
