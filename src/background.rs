//! Threads for the controllers and node agents of an API server's process.
//!
//! What a controller computes depends on the objects that clients create, so it must not run on the threads that serve connections,
//! health checks, Leases and watches.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::context::TokioContext;

/// The nice value of the threads: requests take precedence when the processors are busy.
const NICE: i32 = 1;

/// A runtime with a thread for each processor.
pub(crate) struct Background {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Background {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system has no threads left.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("controllers")
            .on_thread_start(|| {
                // On Linux, the nice value belongs to the thread. Without it, the threads share the processors as equals.
                let _ = rustix::process::nice(NICE);
            })
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        Ok(Background { runtime: Some(runtime), handle })
    }

    /// The handle on which tasks are spawned.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs `setup` on the caller's thread; the tasks that it spawns run on these threads.
    pub(crate) async fn spawning_here<T>(&self, setup: impl Future<Output = T>) -> T {
        TokioContext::new(setup, self.handle.clone()).await
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its threads, which is not allowed on a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn tasks_run_on_threads_of_their_own() {
        let background = Background::start().unwrap();
        let name = || std::thread::current().name().map(str::to_owned);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let setup = async {
            tokio::spawn(async move { sender.send(name()) });
        };
        background.spawning_here(setup).await;
        assert_eq!(receiver.await.unwrap().as_deref(), Some("controllers"));
        assert_ne!(name().as_deref(), Some("controllers"));
    }
}
