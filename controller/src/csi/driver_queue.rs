//! One queue with its workers per driver: what upstream's sidecar does for its driver runs here once for each reachable
//! driver, from its registration to its removal. So a driver that hangs delays only its own objects (I12). A new queue
//! starts with every object, because an informer passes its cache to a handler that is added.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_csi::driver::Driver;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, ControllerError};
use orlop_client::queue::RateLimit;

/// Backoff of failing calls. Upstream: `--retry-interval-start` and `--retry-interval-max` of the sidecars.
pub const RETRY: RateLimit = RateLimit {
    first: std::time::Duration::from_secs(1),
    max: std::time::Duration::from_secs(300),
    bucket: None,
};
/// Calls at a time to one driver, of one queue. Upstream: `--workers`.
pub const WORKERS: usize = 10;

struct Serving {
    driver: Driver,
    shutdown: CancellationToken,
}

/// Runs `serve` for every known driver until `context.shutdown`. When a driver registers with other properties, it gets a new
/// task after the old one has ended.
///
/// # Errors
/// A driver's task panicked.
pub async fn run<F, Fut>(context: &Context, serve: F) -> Result<(), ControllerError>
where
    F: Fn(Context, Driver) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut changes = context.drivers.changes();
    let mut serving: BTreeMap<String, Serving> = BTreeMap::new();
    let mut turns: BTreeMap<String, Arc<Mutex<()>>> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        changes.mark_unchanged();
        let known = context.drivers.all();
        serving.retain(|_, served| {
            let stays = known.contains(&served.driver);
            if !stays {
                served.shutdown.cancel();
            }
            stays
        });
        for driver in known {
            let name = driver.name().to_owned();
            if serving.contains_key(&name) {
                continue;
            }
            let shutdown = context.shutdown.child_token();
            let own = Context { shutdown: shutdown.clone(), ..context.clone() };
            let turn = Arc::clone(turns.entry(name.clone()).or_default());
            let task = serve(own, driver.clone());
            tasks.spawn(async move {
                let _turn = turn.lock().await;
                task.await;
            });
            serving.insert(name, Serving { driver, shutdown });
        }
        tokio::select! {
            () = context.shutdown.cancelled() => break,
            changed = changes.changed() => if changed.is_err() { break },
            Some(ended) = tasks.join_next() => {
                if let Err(error) = ended {
                    return Err(ControllerError(format!("a driver's task ended: {error}")));
                }
            }
        }
    }
    // Running calls are allowed to finish.
    while tasks.join_next().await.is_some() {}
    Ok(())
}
