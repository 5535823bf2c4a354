//! A part of a process that runs in the background.

use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::error::RunError;

/// An optional background task.
pub(super) struct Task {
    name: &'static str,
    handle: Option<JoinHandle<Result<(), RunError>>>,
}

impl Task {
    pub(super) fn none(name: &'static str) -> Self {
        Task { name, handle: None }
    }

    pub(super) fn spawn<E: Into<RunError>>(
        &mut self,
        body: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.spawn_on(body, &Handle::current());
    }

    pub(super) fn spawn_on<E: Into<RunError>>(
        &mut self,
        body: impl Future<Output = Result<(), E>> + Send + 'static,
        threads: &Handle,
    ) {
        self.handle = Some(threads.spawn(async { body.await.map_err(Into::into) }));
    }

    /// Waits for the end of the task; never returns if there is no task.
    pub(super) async fn ended(&mut self) -> Result<(), RunError> {
        let Some(handle) = &mut self.handle else { return std::future::pending().await };
        let result = handle.await;
        self.handle = None;
        // The task is never aborted, so a missing result is a panic.
        result.unwrap_or(Err(RunError::Panic(self.name)))
    }

    /// Waits for the end of the task; returns immediately if there is no task.
    pub(super) async fn finish(&mut self) -> Result<(), RunError> {
        if self.handle.is_none() { Ok(()) } else { self.ended().await }
    }
}
