//! One queue with its workers per driver: what upstream's sidecar does for its driver runs here once for each reachable
//! driver, from its registration to its removal. So a driver that hangs delays only its own objects (I12). A new queue
//! starts with every object, because an informer passes its cache to a handler that is added.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use orlop_csi::driver::Driver;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use orlop_client::queue::RateLimit;
use orlop_client::worker::panic_text;

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
/// task after the old one has ended. After a panic, a driver gets a new task 1 s later (I12).
pub async fn run<F, Fut>(context: &Context, serve: F)
where
    F: Fn(Context, Driver) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut changes = context.drivers.changes();
    let mut serving: BTreeMap<String, Serving> = BTreeMap::new();
    let mut turns: BTreeMap<String, Arc<Mutex<()>>> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        if context.shutdown.is_cancelled() {
            break;
        }
        changes.mark_unchanged();
        let known = context.drivers.all();
        serving.retain(|_, served| {
            // A cancelled one has panicked.
            let stays = known.contains(&served.driver) && !served.shutdown.is_cancelled();
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
            serving.insert(name.clone(), Serving { driver, shutdown: shutdown.clone() });
            tasks.spawn(async move {
                let _turn = turn.lock().await;
                if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                    let panic = panic_text(panic.as_ref());
                    tracing::error!(driver = name, panic, "the queue of a driver panicked, it starts again");
                    tokio::time::sleep(RETRY.first).await;
                    shutdown.cancel();
                }
            });
        }
        tokio::select! {
            () = context.shutdown.cancelled() => break,
            changed = changes.changed() => if changed.is_err() { break },
            Some(_) = tasks.join_next() => {}
        }
    }
    // Running calls are allowed to finish.
    while tasks.join_next().await.is_some() {}
}
