//! Calls that may hang, each in a thread of its own, one after the other in a queue (a volume). A call that does not end in time
//! keeps its queue, and only that: the thread stays until the kernel lets it go, and everybody else goes on (I12).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Calls of `mounter` count as hanging after `deadline`.
    pub fn new(mounter: Arc<dyn Mounter>, deadline: Duration) -> Self {
        Self { mounter, deadline, queues: Arc::default() }
    }

    /// Makes a mount.
    ///
    /// # Errors
    /// It was refused, or is still being tried.
    pub async fn mount(&self, queue: &str, mount: Mount) -> Result<(), MountError> {
        let what = describe(&mount);
        self.run(queue, what, move |mounter| mounter.mount(&mount)).await
    }

    /// Takes away what is mounted at a path. Nothing there is no error.
    ///
    /// # Errors
    /// It is still mounted, or nobody knows.
    pub async fn unmount(&self, queue: &str, target: &Path, force: Force) -> Result<(), MountError> {
        let (target, what) = (target.to_owned(), format!("unmounting {}", target.display()));
        self.run(queue, what, move |mounter| mounter.unmount(&target, force)).await
    }

    /// The table of mounts. Reading it does not touch what is mounted.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn points(&self) -> Result<Vec<MountPoint>, MountError> {
        self.mounter.points()
    }

    /// To be called when a directory was renamed that may have mounts below, before the table is believed again.
    pub fn renamed(&self) {
        self.mounter.renamed();
    }

    /// Tells when the table changes.
    ///
    /// # Errors
    /// The system does not say.
    pub fn changes(&self) -> Result<Changes, MountError> {
        self.mounter.changes()
    }

    /// Whether something is mounted exactly there.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn is_mounted(&self, path: &Path) -> Result<bool, MountError> {
        Ok(self.points()?.iter().any(|point| point.target == path))
    }

    /// Runs anything that may hang in a queue: mounts, and walks on file systems that others serve. `what` is how errors name it.
    ///
    /// # Errors
    /// Those of `call`; and [`MountError::Hangs`] when the queue was not free, or the call not done, in time.
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
            // Nobody may be waiting any more.
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
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever is in a queue, or waits for it, holds it too.
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
    async fn a_call_that_hangs_holds_up_its_lane_and_no_other() {
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
        // The deadline is short: a machine that is busy may need more than one call.
        let mut is_free = false;
        for _ in 0..100 {
            is_free |= mounts.run("b", "mounting b".to_owned(), |_| Ok(())).await.is_ok();
        }
        assert!(is_free, "another queue is free");
        end.send(()).unwrap();
        // The queue is free again as soon as the thread has seen it.
        while mounts.run("a", "again".to_owned(), |_| Ok(())).await.is_err() {}
    }

    #[tokio::test]
    async fn a_worker_that_panics_is_an_error() {
        let mounts = Mounts::new(Arc::new(Nothing), Duration::from_secs(5));
        let call: fn(&dyn Mounter) -> Result<(), MountError> = |_| panic!("on purpose");
        let error = mounts.run("a", "mounting a".to_owned(), call).await.unwrap_err();
        assert_eq!(error.to_string(), "mounting a: its worker panicked");
        mounts.run("a", "again".to_owned(), |_| Ok(())).await.unwrap();
    }
}
