//! Long computations of the verbs. They run on blocking threads and end with their request: when its time is over, or when
//! its client has gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orlop_api::status::ApiError;

/// Whether a computation has to end. Its result is not used then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Requests the stop when it is dropped.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a computation, which ends if the future is dropped.
///
/// # Errors
/// 500 if the computation panics.
pub(super) async fn run<T: Send + 'static>(
    work: impl FnOnce(Stop) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let stop = Stop::default();
    let _request = StopOnDrop(stop.clone());
    tokio::task::spawn_blocking(move || work(stop)).await.map_err(ApiError::internal)
}

/// A stop that is already requested.
#[cfg(test)]
pub(super) fn stopped() -> Stop {
    Stop(Arc::new(AtomicBool::new(true)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn computation_ends_with_its_request() {
        let (ended, has_ended) = std::sync::mpsc::channel();
        let endless = run(move |stop| {
            while !stop.is_requested() {
                std::thread::yield_now();
            }
            let _ = ended.send(());
        });
        assert!(tokio::time::timeout(Duration::from_millis(20), endless).await.is_err());
        assert!(has_ended.recv_timeout(Duration::from_secs(2)).is_ok());
    }

    #[tokio::test]
    async fn finished_computation_has_a_result() {
        assert_eq!(run(|stop| stop.is_requested()).await.ok(), Some(false));
    }
}
