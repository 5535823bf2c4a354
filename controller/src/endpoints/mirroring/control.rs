//! Runs the controller: queues Endpoints on changes, and writes or deletes their mirrored EndpointSlices.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join3};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::{COMPONENT_SLICE_MIRRORING, controller, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;

use super::decide::{Decision, MANAGER, MOST_ADDRESSES, decide, is_mirrored};
use crate::context::{Context, ControllerError};
use crate::endpoints::error::EndpointsError;
use crate::endpoints::pods::selector;
use crate::endpoints::slice::{index_by_service, slices_of};
use crate::endpoints::slice_tracker::SliceTracker;
use crate::endpoints::slices::control::retries;
use crate::endpoints::write::{SliceOwner, SliceWriter};

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let options = &context.options;
        let queue = WorkQueue::new(retries(options.rate_limit, Duration::from_secs(100)));
        let tracker = Arc::new(SliceTracker::default());
        let this = Control {
            endpoints: context.informers.of(),
            services: context.informers.of(),
            slices: context.informers.of(),
            writer: SliceWriter::new(context.client.clone(), Arc::clone(&tracker)),
            tracker: Arc::clone(&tracker),
            recorder: context.recorder(COMPONENT_SLICE_MIRRORING),
            most: options.mirroring_max_endpoints_per_subset,
        };
        index_by_service(&this.slices);
        let _endpoints = this.endpoints.add_handler({
            let queue = queue.clone();
            move |change: &Change<Endpoints>| {
                let is_mirrored = |endpoints: &Arc<Endpoints>| is_mirrored(endpoints);
                if change.new.as_ref().is_some_and(is_mirrored) || change.old().is_some_and(is_mirrored) {
                    queue.add(change.key().to_string());
                }
            }
        });
        let _services = this.services.add_handler({
            let queue = queue.clone();
            move |change: &Change<Service>| {
                if changes_mirroring(change) {
                    queue.add(change.key().to_string());
                }
            }
        });
        let delay = options.mirroring_endpointslice_updates_batch_period;
        let _slices = this.slices.add_handler({
            let queue = queue.clone();
            move |change: &Change<EndpointSlice>| {
                let keys = tracker.services_to_sync(change, MANAGER);
                keys.into_iter().for_each(|key| queue.add_after(key, delay));
            }
        });
        let synced = join3(this.endpoints.synced(), this.services.synced(), this.slices.synced());
        if !context.ready(synced).await {
            return Ok(());
        }
        let workers = options.mirroring_concurrent_service_endpoint_syncs;
        let syncs = context.syncs::<Endpoints, _>(controller::SLICE_MIRRORING);
        worker::run_until(&context.shutdown, &queue, workers, syncs, |key| this.sync(key)).await;
        Ok(())
    })
}

/// Whether the change of a Service changes whether its Endpoints are mirrored.
fn changes_mirroring(change: &Change<Service>) -> bool {
    let lacks_selector = |service: &Arc<Service>| selector(service).is_none();
    let (old, new) = (change.old().map(lacks_selector), change.new.as_ref().map(lacks_selector));
    match (old, new) {
        (Some(old), Some(new)) if !change.replaced() => old != new,
        (old, new) => old == Some(true) || new == Some(true),
    }
}

struct Control {
    endpoints: Informer<Endpoints>,
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    writer: SliceWriter,
    tracker: Arc<SliceTracker>,
    recorder: Recorder,
    most: usize,
}

impl Control {
    async fn sync(&self, key: String) -> Result<(), EndpointsError> {
        let endpoints = self.endpoints.find(&key)?.filter(|endpoints| is_mirrored(endpoints));
        let lacks_selector = self.services.find(&key)?.is_some_and(|service| selector(&service).is_none());
        let slices = slices_of(&self.slices, &key, MANAGER);
        let Some(endpoints) = endpoints.filter(|_| lacks_selector) else {
            self.tracker.forget(&key);
            return self.delete_all(&key, slices).await;
        };
        if self.tracker.is_stale(&key, &slices) {
            return Err(EndpointsError::StaleSlices);
        }
        let Ok(decision) = decide(&endpoints, &slices, self.most) else {
            let message = format!(
                "The subsets are not mirrored: with each address in the subset of all its ports, they have more than \
                 {MOST_ADDRESSES} addresses"
            );
            let reason = reason::TOO_MANY_ADDRESSES_TO_MIRROR;
            self.recorder.event(endpoints.as_ref(), EventType::Warning, reason, message);
            // A retry has the same result; a change of the Endpoints queues the key again.
            return Ok(());
        };
        self.report(&endpoints, &decision);
        let owner = SliceOwner {
            namespace: split_key(&key).0,
            text: format!("Endpoints {key}"),
            is_terminating: is_terminating(endpoints.as_ref()),
        };
        self.writer.write(&owner, decision.changes).await
    }

    /// Deletes the slices of Endpoints that are no longer mirrored.
    async fn delete_all(&self, key: &str, slices: Vec<Arc<EndpointSlice>>) -> Result<(), EndpointsError> {
        let mut failed = Vec::new();
        for slice in &slices {
            failed.extend(self.writer.delete(split_key(key).0, slice).await.err());
        }
        self.tracker.forget(key);
        let (count, all) = (failed.len(), slices.len());
        match failed.into_iter().next() {
            None => Ok(()),
            Some(cause) => Err(EndpointsError::DeleteMirrored {
                failed: count,
                all,
                key: key.to_owned(),
                cause: cause.into(),
            }),
        }
    }

    fn report(&self, endpoints: &Endpoints, decision: &Decision) {
        let (invalid, skipped) = (decision.invalid, decision.skipped);
        if invalid > 0 {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            self.recorder.event(endpoints, EventType::Warning, reason::INVALID_IP_ADDRESS, message);
        }
        if skipped > invalid {
            let message = format!(
                "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped",
                self.most
            );
            let reason = reason::TOO_MANY_ADDRESSES_TO_MIRROR;
            self.recorder.event(endpoints, EventType::Warning, reason, message);
        }
    }
}
