//! Notifications about changes of the mount table, without polling on a timer.

use std::fs::File;
use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::table::TABLE;

/// Reports changes of the mount table.
#[derive(Debug)]
pub struct Changes(ChangeSource);

#[derive(Debug)]
enum ChangeSource {
    /// The kernel's table. Its file becomes ready when the table changes.
    Kernel(AsyncFd<File>),
    /// The change counter of a record.
    Record(watch::Receiver<u64>),
    Never,
}

impl Changes {
    /// For a table that reports no changes.
    pub fn never() -> Self {
        Self(ChangeSource::Never)
    }

    /// For the kernel's table. Requires a runtime with I/O.
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

    /// Waits until the table has changed since this was created, or since the last call returned. Several changes may
    /// be reported as one, and spurious notifications are possible.
    ///
    /// # Errors
    /// The kernel no longer reports changes, or the record was dropped.
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
