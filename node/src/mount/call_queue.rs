//! Queues of calls that may hang. Each call runs in a thread of its own, and the calls of one queue (a volume)
//! run one after the other. A call that does not return in time blocks only its own queue: the thread stays until
//! the kernel returns, and all other queues continue (I12). The number of concurrent calls is bounded, and a late
//! call no longer counts.

use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::{Changes, Force, Mount, MountError, MountPoint, Mounter, Origin};

/// The maximum number of concurrent calls, each of which has a thread. A late call does not count.
const MAX_CALLS: usize = 64;

/// Mounts, with deadlines. Clones share the queues.
#[derive(Clone)]
pub struct Mounts {
    mounter: Arc<dyn Mounter>,
    deadline: Duration,
    queues: Queues,
    permits: Arc<Semaphore>,
}

type VolumeQueue = Arc<tokio::sync::Mutex<()>>;
/// The queues with a running or waiting call.
type Queues = Arc<Mutex<HashMap<String, VolumeQueue>>>;

/// The value of a call.
type AnyValue = Box<dyn Any + Send>;
type BoxedCall = Box<dyn FnOnce(&dyn Mounter) -> Result<AnyValue, MountError> + Send>;

/// A reference to a queue, which exists while it has references.
struct QueueRef {
    queues: Queues,
    name: String,
    queue: VolumeQueue,
}

impl Drop for QueueRef {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        // The map and this reference. Every other user has a reference too, and clones are made under this lock.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.name);
        }
    }
}

/// The right to run a call in a queue. The fields are dropped in this order.
struct QueueTurn {
    _lock: OwnedMutexGuard<()>,
    _queue: QueueRef,
}

impl Mounts {
    /// Calls of `mounter` count as hung after `deadline`.
    pub fn new(mounter: Arc<dyn Mounter>, deadline: Duration) -> Self {
        Self { mounter, deadline, queues: Arc::default(), permits: Arc::new(Semaphore::new(MAX_CALLS)) }
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
    /// The deadline applies to the wait for the queue, and again to the call. The wait for one of the [`MAX_CALLS`]
    /// permits has none: each permit is free again after the deadline of its call at the latest.
    ///
    /// # Errors
    /// Those of `call`; and [`MountError::Hangs`] when the queue was not free, or the call did not return, in time.
    pub async fn run<T, F>(&self, queue: &str, what: String, call: F) -> Result<T, MountError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Mounter) -> Result<T, MountError> + Send + 'static,
    {
        let call = move |mounter: &dyn Mounter| call(mounter).map(|value| Box::new(value) as AnyValue);
        let value = self.run_boxed(queue, what, Box::new(call)).await?;
        Ok(*value.downcast().expect("run_boxed returns the value of the call, which is a T"))
    }

    /// [`Mounts::run`] for a call of any type, so that the compiler translates the queue once and not for each call.
    async fn run_boxed(&self, queue: &str, what: String, call: BoxedCall) -> Result<AnyValue, MountError> {
        let hangs = || MountError::Hangs { what: what.clone(), seconds: self.deadline.as_secs() };
        // The queue comes first: a call that waits for a hung one must not occupy a permit.
        let queue = self.queue(queue);
        let lock = Arc::clone(&queue.queue).lock_owned();
        let lock = timeout_at(Instant::now() + self.deadline, lock).await.map_err(|_| hangs())?;
        let turn = QueueTurn { _lock: lock, _queue: queue };
        // The semaphore is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let until = Instant::now() + self.deadline;
        let (sender, answer) = oneshot::channel();
        let (running, ended) = oneshot::channel::<()>();
        let mounter = Arc::clone(&self.mounter);
        let thread = std::thread::Builder::new().name("mount".to_owned()).spawn(move || {
            // Dropped at the end, also by a panic.
            let _running = running;
            let outcome = call(&*mounter);
            drop(turn);
            // The receiver may have been dropped.
            let _ = sender.send(outcome);
        });
        if let Err(error) = thread {
            return Err(MountError::Refused { what, why: error.to_string(), source: Some(error) });
        }
        // In a task of its own, because the caller may drop this future while the call still runs.
        tokio::spawn(async move {
            // Ends with an error in both cases: the call is late, or it has ended and dropped its sender.
            let _ = timeout_at(until, ended).await;
            drop(permit);
        });
        match timeout_at(until, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                Err(MountError::Refused { what, why: "its worker panicked".to_owned(), source: None })
            }
            Err(_) => Err(hangs()),
        }
    }

    fn queue(&self, name: &str) -> QueueRef {
        let mut queues = self.queues.lock();
        let queue = Arc::clone(queues.entry(name.to_owned()).or_default());
        QueueRef { queues: Arc::clone(&self.queues), name: name.to_owned(), queue }
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;

    /// A bound for tests that would wait forever.
    const LONG: Duration = Duration::from_secs(60);

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

    /// Where calls wait until the sender is dropped.
    type Gate = Arc<Mutex<mpsc::Receiver<()>>>;

    fn gate() -> (mpsc::Sender<()>, Gate) {
        let (end, wait) = mpsc::channel();
        (end, Arc::new(Mutex::new(wait)))
    }

    fn wait(gate: &Gate) -> Result<(), MountError> {
        let _ = gate.lock().recv();
        Ok(())
    }

    /// Runs a call in another queue after calls have used all permits. The deadline is short: a busy machine may need
    /// more than one call.
    async fn assert_is_free(mounts: &Mounts) {
        let free = async { while mounts.run("free", "mounting".to_owned(), |_| Ok(())).await.is_err() {} };
        tokio::time::timeout(LONG, free).await.unwrap();
    }

    #[tokio::test]
    async fn concurrent_calls_are_bounded() {
        let mounts = Mounts::new(Arc::new(Nothing), LONG);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (end, gate) = gate();
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let calls: Vec<_> = (0..200)
            .map(|at| {
                let (mounts, running, most) = (mounts.clone(), Arc::clone(&running), Arc::clone(&most));
                let (gate, begun) = (Arc::clone(&gate), begun.clone());
                tokio::spawn(async move {
                    let call = move |_: &dyn Mounter| {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        let _ = begun.send(());
                        wait(&gate)?;
                        running.fetch_sub(1, Ordering::SeqCst);
                        Ok(())
                    };
                    mounts.run(&format!("q{at}"), "mounting".to_owned(), call).await
                })
            })
            .collect();
        for _ in 0..MAX_CALLS {
            begins.recv().await.unwrap();
        }
        // No other call starts, however often the runtime polls it.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(begins.try_recv().is_err());
        drop(end);
        assert!(join_all(calls).await.into_iter().all(|outcome| outcome.unwrap().is_ok()));
        assert_eq!(most.load(Ordering::SeqCst), MAX_CALLS);
    }

    #[tokio::test]
    async fn hung_calls_do_not_starve_other_queues() {
        let mounts = Mounts::new(Arc::new(Nothing), Duration::from_millis(50));
        let (end, gate) = gate();
        let hanging = (0..MAX_CALLS).map(|at| {
            let (mounts, gate) = (&mounts, Arc::clone(&gate));
            async move {
                let call = move |_: &dyn Mounter| wait(&gate);
                mounts.run(&format!("q{at}"), "mounting".to_owned(), call).await
            }
        });
        assert!(join_all(hanging).await.into_iter().all(|outcome| outcome.is_err()));
        assert_is_free(&mounts).await;
        drop(end);
    }

    #[tokio::test]
    async fn hung_calls_without_a_caller_do_not_starve_other_queues() {
        let mounts = Mounts::new(Arc::new(Nothing), Duration::from_millis(50));
        let (end, gate) = gate();
        for at in 0..MAX_CALLS {
            let gate = Arc::clone(&gate);
            let call = move |_: &dyn Mounter| wait(&gate);
            let dropped = mounts.run(&format!("q{at}"), "mounting".to_owned(), call).now_or_never();
            assert!(dropped.is_none());
        }
        assert_eq!(mounts.permits.available_permits(), 0);
        assert_is_free(&mounts).await;
        drop(end);
    }

    #[tokio::test]
    async fn queue_exists_only_while_it_is_used() {
        let mounts = Mounts::new(Arc::new(Nothing), Duration::from_millis(50));
        let names = || mounts.queues.lock().keys().cloned().collect::<Vec<_>>();
        let (end, wait) = mpsc::channel::<()>();
        let hanging = mounts.run("a", "mounting a".to_owned(), move |_| {
            let _ = wait.recv();
            Ok(())
        });
        assert!(hanging.await.is_err());
        assert!(mounts.run("a", "again".to_owned(), |_| Ok(())).await.is_err());
        assert!(mounts.run("a", "dropped".to_owned(), |_| Ok(())).now_or_never().is_none());
        assert_is_free(&mounts).await;
        assert_eq!(names(), ["a"], "its call still hangs");
        end.send(()).unwrap();
        while mounts.run("a", "again".to_owned(), |_| Ok(())).await.is_err() {}
        // A call that was late on a busy machine may still run.
        let is_empty = async {
            while !names().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG, is_empty).await.unwrap();
    }
}
