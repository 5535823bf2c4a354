//! Changes of what is in a directory, told by the kernel (inotify).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Room for a good number of events; what does not fit is read next.
const ROOM: usize = 4096;

/// Tells when something comes into a directory, goes from it, or changes its owner or mode.
#[derive(Debug)]
pub(super) struct Folder(AsyncFd<OwnedFd>);

impl Folder {
    /// From now on. Needs a runtime with I/O.
    ///
    /// # Errors
    /// There is no such directory, or the kernel has nobody left to watch it.
    #[allow(
        deprecated,
        reason = "an OwnedFd keeps its descriptor as long as it lives, which is what the other way has to promise"
    )]
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let told = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let of_entries = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::ATTRIB;
        let of_itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        inotify::add_watch(&told, dir, of_entries | of_itself)?;
        Ok(Self(AsyncFd::with_interest(told, Interest::READABLE)?))
    }

    /// Waits until something changed since this was made, or since the last answer. Several changes may be one answer.
    ///
    /// # Errors
    /// The directory is not there any more, or not where it was; or the kernel does not tell.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            // Otherwise there is nothing to read after all.
            if let Ok(read) = ready.try_io(|told| read_all(told.get_ref())) {
                return read;
            }
        }
    }
}

/// Takes the events that are there. "Would block" when there are none.
fn read_all(told: &OwnedFd) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut events = Reader::new(told, &mut room);
    // The first answers whether there is anything; the kernel's own buffer is emptied as long as there is more.
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

    async fn told(folder: &mut Folder) -> io::Result<()> {
        tokio::time::timeout(Duration::from_secs(30), folder.changed()).await.expect("a change is told")
    }

    /// Whether nothing is told that happened before.
    async fn is_quiet(folder: &mut Folder) -> bool {
        tokio::select! {
            biased;
            _ = folder.changed() => false,
            // The kernel queues events before the calls that make them return.
            () = async { for _ in 0..100 { tokio::task::yield_now().await } } => true,
        }
    }

    #[tokio::test]
    async fn what_comes_and_goes_is_told_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
        fs::create_dir(&inside).unwrap();
        let mut folder = Folder::of(&inside).unwrap();
        assert!(is_quiet(&mut folder).await);
        fs::read_dir(&inside).unwrap();
        fs::write(dir.path().join("beside"), "").unwrap();
        assert!(is_quiet(&mut folder).await, "looking is no change, and others are no matter");
        fs::write(inside.join("a"), "").unwrap();
        told(&mut folder).await.unwrap();
        fs::rename(inside.join("a"), inside.join("b")).unwrap();
        told(&mut folder).await.unwrap();
        fs::remove_file(inside.join("b")).unwrap();
        told(&mut folder).await.unwrap();
        assert!(is_quiet(&mut folder).await, "it is told once");
        fs::rename(&inside, dir.path().join("elsewhere")).unwrap();
        assert_eq!(told(&mut folder).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn what_is_no_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Folder::of(&dir.path().join("none")).is_err());
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(Folder::of(&dir.path().join("file")).is_err());
    }
}
