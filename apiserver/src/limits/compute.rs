//! Threads for requests whose cost a client chooses: large bodies, long lists, large objects.
//!
//! The threads that serve connections also serve health checks, Leases and watches, so they never run such a request.
//! It runs on a runtime of its own, which has a thread for each processor and runs a bounded number of requests at a
//! time. The clients share these places as they share the permits ([`super::fair_queue`]).

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use orlop_api::status::ApiError;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio_util::task::AbortOnDropHandle;

use super::driven_body;
use super::fair_queue::{Bounds, Client};
use super::inflight::{Inflight, Permit};

tokio::task_local! {
    /// The place of the work that runs on this task.
    static PLACE: RefCell<Option<Place>>;
}

/// A place, and what is needed to take another one.
struct Place {
    permit: Permit,
    places: Arc<Inflight>,
    client: Client,
}

impl Place {
    /// Waits for a place.
    ///
    /// # Errors
    /// 429 if no place becomes free.
    async fn take(places: Arc<Inflight>, client: Client) -> Result<Self, ApiError> {
        let busy = |_| ApiError::too_many_requests("Too many requests, please try again later.", 1);
        let permit = places.enter(client).await.map_err(busy)?;
        Ok(Place { permit, places, client })
    }
}

/// Waits without the place of the caller's work, and then takes a place again.
///
/// # Errors
/// 429 if no place becomes free.
pub(crate) async fn wait_outside<T>(waited: impl Future<Output = T>) -> Result<T, ApiError> {
    // Light work has no place.
    let place = PLACE.try_with(|place| place.borrow_mut().take()).ok().flatten();
    let Some(Place { permit, places, client }) = place else { return Ok(waited.await) };
    drop(permit);
    let result = waited.await;
    let again = Place::take(places, client).await?;
    let _ = PLACE.try_with(|place| *place.borrow_mut() = Some(again));
    Ok(result)
}

/// Gives up the place of the caller's work, which is about to wait for another server: others compute meanwhile.
pub(crate) fn leave_place() {
    // Light work has no place.
    let _ = PLACE.try_with(|place| drop(place.borrow_mut().take()));
}

/// Requests that run at a time, for each thread: one computes while another waits for the store.
const PLACES_PER_THREAD: usize = 2;

/// The runtime, and its places.
pub(crate) struct Compute {
    /// `None` if the caller's runtime has a single thread for everything, as in tests with paused time: work then runs
    /// there. Also `None` while it is dropped.
    runtime: Option<Runtime>,
    places: Arc<Inflight>,
}

impl Compute {
    /// Starts the threads. A request waits at most `patience` for a place.
    ///
    /// # Errors
    /// The system has no threads left.
    pub(crate) fn start(patience: Duration) -> io::Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            None
        } else {
            let mut builder = Builder::new_multi_thread();
            Some(builder.worker_threads(threads).thread_name("compute").enable_all().build()?)
        };
        let bounds = Bounds::of_permits(threads * PLACES_PER_THREAD);
        Ok(Compute { runtime, places: Inflight::new(bounds, patience) })
    }

    /// Runs the work of a client on these threads; `None` is a controller in this process, which needs no place. If the
    /// caller is dropped, the work ends when it waits next, and keeps its place until then.
    ///
    /// # Errors
    /// The error of the work, or a 429 if no place becomes free.
    ///
    /// # Panics
    /// The work panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        client: Option<Client>,
        work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = match client {
            Some(client) => Some(Place::take(self.places.clone(), client).await?),
            None => None,
        };
        let Some(runtime) = &self.runtime else { return work.await };
        let task = runtime.spawn(PLACE.scope(RefCell::new(place), work));
        match AbortOnDropHandle::new(task).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(ApiError::unavailable("the server is shutting down")),
            },
        }
    }
}

impl Compute {
    /// Computes the body of a response on these threads, as far as the client reads it.
    pub(crate) fn drive(&self, response: Response) -> Response {
        match &self.runtime {
            Some(runtime) => response.map(|body| driven_body::drive(runtime.handle(), body)),
            None => response,
        }
    }
}

impl Drop for Compute {
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

    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_runs_on_threads_of_its_own() {
        let compute = Compute::start(Duration::from_secs(1)).unwrap();
        let thread = || std::thread::current().name().map(str::to_owned);
        let there = compute.run(None, async move { Ok(thread()) }).await.unwrap();
        assert_eq!(there.as_deref(), Some("compute"));
        assert_ne!(thread(), there);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn request_without_a_place_is_rejected() {
        let compute = Arc::new(Compute::start(Duration::from_millis(10)).unwrap());
        // The share of one client.
        let busy: Vec<_> = (0..64)
            .map(|_| {
                let compute = compute.clone();
                tokio::spawn(async move {
                    compute.run(Some(Client(1)), std::future::pending::<Result<(), ApiError>>()).await
                })
            })
            .collect();
        for task in busy {
            if let Ok(Ok(refused)) = tokio::time::timeout(Duration::from_secs(1), task).await {
                assert_eq!(refused.unwrap_err().code, 429);
                return;
            }
        }
        panic!("every request has a place");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn waiting_work_has_no_place() {
        let compute = Arc::new(Compute::start(Duration::from_secs(5)).unwrap());
        let (begin, _) = tokio::sync::broadcast::channel::<()>(1);
        let waits = Arc::new(AtomicUsize::new(0));
        // As many as there are places, of which one client has only a part.
        let count = std::thread::available_parallelism().map_or(1, usize::from) * PLACES_PER_THREAD;
        let waiting: Vec<_> = (0..count)
            .map(|_| {
                let (compute, mut begin, waits) = (compute.clone(), begin.subscribe(), waits.clone());
                tokio::spawn(async move {
                    let work = async move {
                        let wait = async {
                            waits.fetch_add(1, Ordering::SeqCst);
                            begin.recv().await
                        };
                        let is_begun = wait_outside(wait).await?.is_ok();
                        Ok((is_begun, PLACE.with(|place| place.borrow().is_some())))
                    };
                    compute.run(Some(Client(1)), work).await
                })
            })
            .collect();
        let all_wait = async {
            while waits.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), all_wait).await.unwrap();
        assert_eq!(compute.run(Some(Client(1)), async { Ok(7) }).await.unwrap(), 7);
        begin.send(()).unwrap();
        for work in waiting {
            assert_eq!(work.await.unwrap().unwrap(), (true, true));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    #[should_panic(expected = "broken")]
    async fn panic_reaches_the_caller() {
        let compute = Compute::start(Duration::from_secs(1)).unwrap();
        let _ = compute.run(None, async { if true { panic!("broken") } else { Ok(()) } }).await;
    }
}
