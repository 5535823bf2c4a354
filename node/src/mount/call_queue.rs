//! Queues of calls that may hang. Each call runs in a thread of its own, and the calls of one queue (a volume)
//! run one after the other. A call that does not return in time blocks only its own queue: the thread stays until
//! the kernel returns, and all other queues continue (I12).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{Changes, Force, Mount, MountError, MountPoint, Mounter, Origin};

/// Mounts, with deadlines. Clones share the queues.
#[derive(Clone)]
pub struct Mounts {
    mounter: Arc<dyn Mounter>,
    deadline: Duration,
    queues: Arc<Mutex<HashMap<String, VolumeQueue>>>,
}

type VolumeQueue = Arc<tokio::sync::Mutex<()>>;

impl Mounts {
    /// Calls of `mounter` count as hung after `deadline`.
    pub fn new(mounter: Arc<dyn Mounter>, deadline: Duration) -> Self {
        Self { mounter, deadline, queues: Arc::default() }
    }

    /// Mounts a file system.
    ///
    /// # Errors
    /// The mount was refused, or is still in progress.
    pub async fn mount(&self, queue: &str, mount: Mount) -> Result<(), MountError> {
        let what = describe(&mount);
        self.run(queue, what, move |mounter| mounter.mount(&mount)).await
    }

    /// Unmounts a path. A path without a mount is no error.
    ///
    /// # Errors
    /// It is still mounted, or its state is unknown.
    pub async fn unmount(&self, queue: &str, target: &Path, force: Force) -> Result<(), MountError> {
        let (target, what) = (target.to_owned(), format!("unmounting {}", target.display()));
        self.run(queue, what, move |mounter| mounter.unmount(&target, force)).await
    }

    /// Reads the mount table. This does not access the mounted file systems.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn points(&self) -> Result<Vec<MountPoint>, MountError> {
        self.mounter.points()
    }

    /// Must be called after a directory that may contain mounts was renamed, before the mount table is used again.
    pub fn renamed(&self) {
        self.mounter.renamed();
    }

    /// Reports changes of the mount table.
    ///
    /// # Errors
    /// The system does not report them.
    pub fn changes(&self) -> Result<Changes, MountError> {
        self.mounter.changes()
    }

    /// Whether exactly this path is a mount point.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn is_mounted(&self, path: &Path) -> Result<bool, MountError> {
        Ok(self.points()?.iter().any(|point| point.target == path))
    }

    /// Runs any call that may hang in a queue: mounts, and walks on remote file systems. Errors name the call by
    /// `what`.
    ///
    /// # Errors
    /// Those of `call`; and [`MountError::Hangs`] when the queue was not free, or the call did not return, in time.
    pub async fn run<T, F>(&self, queue: &str, what: String, call: F) -> Result<T, MountError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Mounter) -> Result<T, MountError> + Send + 'static,
    {
        let until = Instant::now() + self.deadline;
        let hangs = || MountError::Hangs { what: what.clone(), seconds: self.deadline.as_secs() };
        let turn = timeout_at(until, self.queue(queue).lock_owned()).await.map_err(|_| hangs())?;
        let (sender, answer) = oneshot::channel();
        let mounter = Arc::clone(&self.mounter);
        let thread = std::thread::Builder::new().name("mount".to_owned()).spawn(move || {
            let outcome = call(&*mounter);
            drop(turn);
            // The receiver may have been dropped.
            let _ = sender.send(outcome);
        });
        if let Err(error) = thread {
            return Err(MountError::Refused { what, why: error.to_string(), source: Some(error) });
        }
        match timeout_at(until, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                Err(MountError::Refused { what, why: "its worker panicked".to_owned(), source: None })
            }
            Err(_) => Err(hangs()),
        }
    }

    fn queue(&self, name: &str) -> VolumeQueue {
        let mut queues = self.queues.lock();
        // Every call that runs or waits in a queue has a reference to it.
        queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        Arc::clone(queues.entry(name.to_owned()).or_default())
    }
}

pub(super) fn describe(mount: &Mount) -> String {
    let source = match &mount.origin {
        Origin::Bind(path) => path.clone(),
        Origin::FileSystem { source, .. } => PathBuf::from(source),
        Origin::Memory { .. } => PathBuf::from("tmpfs"),
    };
    format!("mounting {} at {}", source.display(), mount.target.display())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Nothing;

    impl Mounter for Nothing {
        fn mount(&self, _: &Mount) -> Result<(), MountError> {
            Ok(())
        }

        fn unmount(&self, _: &Path, _: Force) -> Result<(), MountError> {
            Ok(())
        }

        fn points(&self) -> Result<Vec<MountPoint>, MountError> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn hung_call_blocks_only_its_own_queue() {
        let mounts = Mounts::new(Arc::new(Nothing), Duration::from_millis(50));
        let (end, wait) = mpsc::channel::<()>();
        let hanging = mounts.run("a", "mounting a".to_owned(), move |_| {
            let _ = wait.recv();
            Ok(())
        });
        let error = hanging.await.unwrap_err();
        assert_eq!(error.to_string(), "mounting a: no answer for 0 s; it is still being tried");
        let error = mounts.run("a", "again".to_owned(), |_| Ok(())).await.unwrap_err();
        assert!(error.is_uncertain(), "the queue is taken: {error}");
        // The deadline is short: a busy machine may need more than one call.
        let mut is_free = false;
        for _ in 0..100 {
            is_free |= mounts.run("b", "mounting b".to_owned(), |_| Ok(())).await.is_ok();
        }
        assert!(is_free, "another queue is free");
        end.send(()).unwrap();
        // The queue is free again as soon as the thread has noticed it.
        while mounts.run("a", "again".to_owned(), |_| Ok(())).await.is_err() {}
    }

    #[tokio::test]
    async fn panic_of_a_call_is_returned_as_an_error() {
        let mounts = Mounts::new(Arc::new(Nothing), Duration::from_secs(5));
        let call: fn(&dyn Mounter) -> Result<(), MountError> = |_| panic!("on purpose");
        let error = mounts.run("a", "mounting a".to_owned(), call).await.unwrap_err();
        assert_eq!(error.to_string(), "mounting a: its worker panicked");
        mounts.run("a", "again".to_owned(), |_| Ok(())).await.unwrap();
    }
}
