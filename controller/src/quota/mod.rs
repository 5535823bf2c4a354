//! `resourcequota-controller`: counts the usage of every quota and writes it to the quota's status.
//!
//! The API server charges a quota in the commit that stores an object, so the recorded usage does not lag behind.
//! The controller counts initially and when a quota changes, and releases the usage of objects that were deleted
//! or have ended (upstream: pkg/controller/resourcequota).
//!
//! A count cannot lose a concurrent charge: the controller reads the quota first, then the objects, and writes
//! the status on the condition that the quota is unchanged. Every charge changes the quota. Clients that create objects without
//! pause could therefore keep a new limit from taking effect. So after a conflict, and if a count takes long, the controller writes the
//! limits without usage: admission then rejects such objects (`status unknown for quota`) until they are counted.
//!
//! [`count`] decides, [`listing`] reads the objects, [`watches`] watches only the kinds that a quota counts.

pub mod count;
pub mod listing;
pub mod watches;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use kube::Client;
use kube::api::PostParams;
use orlop_client::api::Api;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::context::{Context, ControllerError};
use listing::Listing;
use orlop_apimachinery::clock::Clock;
use orlop_apimachinery::quota::amounts::Amounts;
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::worker;
use watches::Watches;

/// Immediate attempts to count a quota that is charged concurrently. After these, the queue delays the next
/// attempt.
const ATTEMPTS: usize = 16;
/// How long a count waits after the first deletion or change of an object, so that several are counted together.
const GATHER: Duration = Duration::from_millis(50);

/// How long a count takes before the limits are written without it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a quota was not counted.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// The quota could not be read or written.
    #[error("cannot {what} quota {key}: {cause}")]
    Api {
        /// The attempted operation.
        what: &'static str,
        /// The quota.
        key: String,
        /// The cause.
        cause: kube::Error,
    },
    /// Some objects could not be counted. The usage of the others is written.
    #[error("cannot count for quota {key}: {causes}")]
    Count {
        /// The quota.
        key: String,
        /// The cause for each resource.
        causes: String,
    },
    /// The quota changed during every attempt.
    #[error("quota {0} changes faster than it can be counted")]
    Moving(String),
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let quotas: Informer<ResourceQuota> = context.informers.of();
        watches::index(&quotas);
        let changed = Arc::new(Notify::new());
        let _quotas = quotas.add_handler({
            let (queue, changed) = (queue.clone(), Arc::clone(&changed));
            move |change: &Change<ResourceQuota>| {
                let Some(new) = change.new.as_deref() else { return changed.notify_one() };
                let old = change.old().filter(|_| !change.replaced());
                if old.is_none_or(|old| old.spec != new.spec) {
                    changed.notify_one();
                }
                // A write that leaves the status unchanged is a touch: an object that counts was stored in the meantime.
                let touched = || old.is_some_and(|old| old.status == new.status);
                if old.is_none() || count::is_stale(new) || touched() {
                    queue.add(change.key().to_string());
                }
            }
        });
        if !context.ready(quotas.synced()).await {
            return Ok(());
        }
        let listing = Listing::new(context.client.clone());
        let watches = Watches::new(&context, quotas.clone(), queue.clone());
        let _following = AbortOnDropHandle::new(tokio::spawn({
            let (listing, shutdown) = (listing.clone(), context.shutdown.clone());
            async move { watches.follow(listing, changed, shutdown).await }
        }));
        let _again = AbortOnDropHandle::new(tokio::spawn(again(
            context.options.resource_quota_sync_period,
            quotas,
            queue.clone(),
        )));
        let this =
            Counting { client: context.client.clone(), listing, clock: context.clock, queue: queue.clone() };
        let workers = context.options.concurrent_resource_quota_syncs;
        worker::run_until(
            &context.shutdown,
            &queue,
            workers,
            context.syncs::<ResourceQuota, _>(controller::RESOURCE_QUOTA),
            |key| this.sync(key),
        )
        .await;
        Ok(())
    })
}

/// Queues all quotas every `period`: a pod that is stuck in termination stops counting without an event.
async fn again(period: Duration, quotas: Informer<ResourceQuota>, queue: WorkQueue<String>) {
    if period.is_zero() {
        return;
    }
    loop {
        tokio::time::sleep(period).await;
        quotas.kept().iter().for_each(|quota| queue.add(quota.key().to_string()));
    }
}

struct Counting {
    client: Client,
    listing: Listing,
    clock: Clock,
    queue: WorkQueue<String>,
}

/// The result of a write of the status.
enum Written {
    /// The quota afterwards.
    Done(Box<ResourceQuota>),
    /// The quota was deleted.
    Gone,
    /// Another client has changed the quota.
    Moved,
}

impl Counting {
    /// Counts a quota and writes its status. If the write fails, the charged usage stays, and the queue retries. Limits that are written
    /// before a count stay if the count fails: admission rejects objects until a retry succeeds.
    async fn sync(&self, key: String) -> Result<(), QuotaError> {
        let (namespace, name) = split_key(&key);
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), namespace);
        let mut is_contended = self.queue.failures(&key) > 0;
        for _ in 0..ATTEMPTS {
            let found = api.get_opt(name).await;
            let found = found.map_err(|cause| QuotaError::Api { what: "read", key: key.clone(), cause })?;
            let Some(mut quota) = found else { return Ok(()) };
            if is_contended {
                quota = match write_limits(&api, &key, quota).await? {
                    Written::Done(limited) => *limited,
                    Written::Gone => return Ok(()),
                    Written::Moved => continue,
                };
            }
            let before = quota.clone();
            let mut counting = pin!(self.listing.count(&before, namespace, self.clock.now()));
            let counted = match timeout(PATIENCE, counting.as_mut()).await {
                Ok(counted) => counted,
                Err(_) => {
                    // No charge came between: the write requires the quota that the count has begun with.
                    quota = match write_limits(&api, &key, quota).await? {
                        Written::Done(limited) => *limited,
                        Written::Gone => return Ok(()),
                        Written::Moved => {
                            is_contended = true;
                            continue;
                        }
                    };
                    counting.await
                }
            };
            if let Some(status) = count::next_status(&quota, &counted.used) {
                match write(&api, &key, quota, status).await? {
                    Written::Done(_) => {}
                    Written::Gone => return Ok(()),
                    Written::Moved => {
                        is_contended = true;
                        continue;
                    }
                }
            }
            if counted.failures.is_empty() {
                return Ok(());
            }
            return Err(QuotaError::Count { key: key.clone(), causes: counted.failures.join("; ") });
        }
        Err(QuotaError::Moving(key))
    }
}

/// Writes the limits of a quota whose status has others, with the usage that is known.
async fn write_limits(
    api: &Api<ResourceQuota>,
    key: &str,
    quota: ResourceQuota,
) -> Result<Written, QuotaError> {
    match count::next_status(&quota, &Amounts::new()).filter(|_| count::is_stale(&quota)) {
        Some(status) => write(api, key, quota, status).await,
        None => Ok(Written::Done(Box::new(quota))),
    }
}

async fn write(
    api: &Api<ResourceQuota>,
    key: &str,
    quota: ResourceQuota,
    status: ResourceQuotaStatus,
) -> Result<Written, QuotaError> {
    let (_, name) = split_key(key);
    let quota = ResourceQuota { status: Some(status), ..quota };
    match api.replace_status(name, &PostParams::default(), &quota).await {
        Ok(written) => Ok(Written::Done(Box::new(written))),
        Err(error) if is_not_found(&error) => Ok(Written::Gone),
        Err(error) if is_conflict(&error) => Ok(Written::Moved),
        Err(cause) => Err(QuotaError::Api { what: "write the status of", key: key.to_owned(), cause }),
    }
}

#[cfg(test)]
mod tests;
