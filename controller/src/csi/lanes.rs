//! One lane per driver: what a sidecar of a driver does upstream runs here once for each driver that can be reached, from
//! when it appears until it is taken away. So a driver that hangs holds up its own objects and no others (I12), and a lane
//! that begins looks at everything there is, because handlers are told what is cached when they are added.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_csi::driver::Driver;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::manager::{Context, ControllerError};
use crate::queue::RateLimit;

/// How failing calls are slowed down. Upstream: `--retry-interval-start` and `--retry-interval-max` of the sidecars.
pub const RETRY: RateLimit = RateLimit {
    first: std::time::Duration::from_secs(1),
    max: std::time::Duration::from_secs(300),
    bucket: None,
};
/// Calls at a time to one driver, of one lane. Upstream: `--workers`.
pub const WORKERS: usize = 10;

struct Lane {
    driver: Driver,
    shutdown: CancellationToken,
}

/// Runs `serve` for every known driver until `context.shutdown`. A driver that says something new of itself gets a new
/// lane when the old one has ended.
///
/// # Errors
/// A lane panicked.
pub async fn run<F, Fut>(context: &Context, serve: F) -> Result<(), ControllerError>
where
    F: Fn(Context, Driver) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut changes = context.drivers.changes();
    let mut lanes: BTreeMap<String, Lane> = BTreeMap::new();
    let mut turns: BTreeMap<String, Arc<Mutex<()>>> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        changes.mark_unchanged();
        let known = context.drivers.all();
        lanes.retain(|_, lane| {
            let stays = known.contains(&lane.driver);
            if !stays {
                lane.shutdown.cancel();
            }
            stays
        });
        for driver in known {
            let name = driver.name().to_owned();
            if lanes.contains_key(&name) {
                continue;
            }
            let shutdown = context.shutdown.child_token();
            let own = Context { shutdown: shutdown.clone(), ..context.clone() };
            let turn = Arc::clone(turns.entry(name.clone()).or_default());
            let lane = serve(own, driver.clone());
            tasks.spawn(async move {
                let _turn = turn.lock().await;
                lane.await;
            });
            lanes.insert(name, Lane { driver, shutdown });
        }
        tokio::select! {
            () = context.shutdown.cancelled() => break,
            changed = changes.changed() => if changed.is_err() { break },
            Some(ended) = tasks.join_next() => {
                if let Err(error) = ended {
                    return Err(ControllerError(format!("a driver's lane ended: {error}")));
                }
            }
        }
    }
    // Calls that run are allowed to end.
    while tasks.join_next().await.is_some() {}
    Ok(())
}
