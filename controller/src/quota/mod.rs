//! `resourcequota-controller`: counts what is used of every quota, and writes it into the quota's status.
//!
//! The API server charges a quota in the commit that stores an object, so what is used never falls behind. Here it is
//! counted for the first time and when a quota changes, and what was deleted or has ended is given back (upstream:
//! pkg/controller/resourcequota).
//!
//! A count cannot lose what is written meanwhile: the quota is read first, then the objects, and the status is written on
//! the condition that the quota is still the one that was read. Whatever was charged since has changed it.
//!
//! [`count`] decides, [`listing`] reads the objects, [`watches`] follows the kinds that some quota counts, and only those.

pub mod count;
pub mod listing;
pub mod watches;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Client;
use kube::api::PostParams;
use orlop_client::api::Api;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::context::{Context, ControllerError};
use listing::Listing;
use orlop_apimachinery::clock::Clock;
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::worker;
use watches::Watches;

/// Counts that are tried at once when the quota is charged meanwhile; then the queue slows them down.
const ATTEMPTS: usize = 16;
/// Objects that go together are counted together: how long the first of them waits.
const GATHER: Duration = Duration::from_millis(50);

/// Why a quota was not counted.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// It could not be read or written.
    #[error("cannot {what} quota {key}: {cause}")]
    Api {
        /// What was tried.
        what: &'static str,
        /// The quota.
        key: String,
        /// Why.
        cause: kube::Error,
    },
    /// Some objects could not be counted; what could be is written.
    #[error("cannot count for quota {key}: {causes}")]
    Count {
        /// The quota.
        key: String,
        /// Why, for each resource.
        causes: String,
    },
    /// It changed all the time.
    #[error("quota {0} changes faster than it can be counted")]
    Moving(String),
}

/// The controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let quotas: Informer<ResourceQuota> = context.informers.of();
        watches::index_by_namespace(&quotas);
        let changed = Arc::new(Notify::new());
        let _quotas = quotas.add_handler({
            let (queue, changed) = (queue.clone(), Arc::clone(&changed));
            move |change: &Change<ResourceQuota>| {
                let Some(new) = change.new.as_deref() else { return changed.notify_one() };
                let old = change.old().filter(|_| !change.replaced());
                if old.is_none_or(|old| old.spec != new.spec) {
                    changed.notify_one();
                }
                // A quota that was written and says what it said was touched: what counts in it came meanwhile.
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
        let this = Counting { client: context.client.clone(), listing, clock: context.clock };
        let workers = context.options.concurrent_resource_quota_syncs;
        worker::run_until(&context.shutdown, &queue, workers, controller::RESOURCE_QUOTA, |key| {
            this.sync(key)
        })
        .await;
        Ok(())
    })
}

/// Counts all again from time to time: a pod that is stuck in its end stops counting without an event.
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
}

impl Counting {
    /// One write. If it fails nothing is lost: what is used stays as it was charged, and the queue asks again.
    async fn sync(&self, key: String) -> Result<(), QuotaError> {
        let (namespace, name) = split_key(&key);
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), namespace);
        for _ in 0..ATTEMPTS {
            let found = api.get_opt(name).await;
            let found = found.map_err(|cause| QuotaError::Api { what: "read", key: key.clone(), cause })?;
            let Some(mut quota) = found else { return Ok(()) };
            let counted = self.listing.count(&quota, namespace, self.clock.now()).await;
            if let Some(status) = count::next_status(&quota, &counted.used) {
                quota.status = Some(status);
                match api.replace_status(name, &PostParams::default(), &quota).await {
                    Ok(_) => {}
                    Err(error) if is_not_found(&error) => return Ok(()),
                    Err(error) if is_conflict(&error) => continue,
                    Err(cause) => return Err(QuotaError::Api { what: "write the status of", key, cause }),
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

#[cfg(test)]
mod tests;
