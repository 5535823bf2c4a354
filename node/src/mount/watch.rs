//! Changes of the table of mounts, as they happen. Nothing is polled on a timer.

use std::fs::File;
use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::table::TABLE;

/// Tells when the table of mounts changes.
#[derive(Debug)]
pub struct Changes(ChangeSource);

#[derive(Debug)]
enum ChangeSource {
    /// The kernel's table. Its file is ready when it changed.
    Kernel(AsyncFd<File>),
    /// A record's number of changes.
    Record(watch::Receiver<u64>),
    Never,
}

impl Changes {
    /// Of a table that does not tell.
    pub fn never() -> Self {
        Self(ChangeSource::Never)
    }

    /// Of the kernel's table. Needs a runtime with I/O.
    #[allow(
        deprecated,
        reason = "a File keeps its descriptor as long as it lives, which is what the other way has to promise"
    )]
    pub(super) fn of_kernel() -> io::Result<Self> {
        tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let file = File::open(TABLE)?;
        Ok(Self(ChangeSource::Kernel(AsyncFd::with_interest(file, Interest::PRIORITY | Interest::ERROR)?)))
    }

    pub(super) fn of_record(changes: watch::Receiver<u64>) -> Self {
        Self(ChangeSource::Record(changes))
    }

    /// Waits until it changed since this was made, or since the last answer. Several changes may be one answer; an answer without a change
    /// is possible.
    ///
    /// # Errors
    /// The kernel does not tell any more, or the record is gone.
    pub async fn changed(&mut self) -> io::Result<()> {
        match &mut self.0 {
            ChangeSource::Kernel(file) => {
                file.ready(Interest::PRIORITY | Interest::ERROR).await?.clear_ready();
                Ok(())
            }
            ChangeSource::Record(changes) => changes.changed().await.map_err(io::Error::other),
            ChangeSource::Never => std::future::pending().await,
        }
    }
}
