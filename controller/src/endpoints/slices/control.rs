//! Runs the controller: queues Services on changes and writes their EndpointSlices. [`SliceTracker`] prevents a decision
//! on a cache without the controller's latest writes.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join, join4};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::{COMPONENT_ENDPOINT_SLICES, controller, reason};
use orlop_client::packed_object::PackedObject;
use orlop_client::queue::{RateLimit, WorkQueue};
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;
use parking_lot::Mutex;

use super::allocation::{is_node_ready, shares, zone};
use super::decide::{Situation, decide};
use super::endpoint::{MANAGER, address_types};
use super::topology::{HintEvent, Topology};
use crate::context::{Context, ControllerError};
use crate::endpoints::error::EndpointsError;
use crate::endpoints::pods::selecting_spec;
use crate::endpoints::selected::{index_services, selected_parts, services_to_sync};
use crate::endpoints::slice::{index_by_service, slices_of};
use crate::endpoints::slice_tracker::SliceTracker;
use crate::endpoints::trigger_time::TriggerTimes;
use crate::endpoints::write::{SliceChanges, SliceOwner, SliceWriter};

/// The least delay between the change of a slice by another client and the sync, so that one sync repairs several slices.
const SLICE_DELAY: Duration = Duration::from_secs(1);
/// The key in the queue of node changes.
const NODES: &str = "nodes";

/// The retries of failed syncs: they start later than those of other controllers, because a sync may write many slices.
pub fn retries(limit: RateLimit, max: Duration) -> RateLimit {
    RateLimit { first: Duration::from_secs(1), max, ..limit }
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let options = &context.options;
        let queue = WorkQueue::new(retries(options.rate_limit, Duration::from_secs(1000)));
        let node_queue = WorkQueue::new(options.rate_limit);
        let tracker = Arc::new(SliceTracker::default());
        let this = Control {
            services: context.informers.of(),
            pods: context.informers.pods(),
            nodes: context.informers.nodes(),
            slices: context.informers.of(),
            writer: SliceWriter::new(context.client.clone(), Arc::clone(&tracker)),
            tracker: Arc::clone(&tracker),
            topology: Mutex::default(),
            times: TriggerTimes::default(),
            recorder: context.recorder(COMPONENT_ENDPOINT_SLICES),
            most: options.max_endpoints_per_slice,
        };
        index_services(&this.services);
        index_by_service(&this.slices);
        let _services = this.services.add_handler({
            let queue = queue.clone();
            move |change: &Change<Service>| queue.add(change.key().to_string())
        });
        let delay = options.endpointslice_updates_batch_period;
        let _pods = this.pods.add_handler({
            let (queue, services) = (queue.clone(), this.services.clone());
            move |change: &Change<Pod>| {
                services_to_sync(change, &services).into_iter().for_each(|key| queue.add_after(key, delay));
            }
        });
        let _slices = this.slices.add_handler({
            let queue = queue.clone();
            move |change: &Change<EndpointSlice>| {
                let keys = tracker.services_to_sync(change, MANAGER);
                keys.into_iter().for_each(|key| queue.add_after(key, delay.max(SLICE_DELAY)));
            }
        });
        let _nodes = this.nodes.add_handler({
            let node_queue = node_queue.clone();
            move |change: &Change<Node>| {
                if changes_shares(change) {
                    node_queue.add(NODES);
                }
            }
        });
        let Control { services, pods, nodes, slices, .. } = &this;
        let synced = join4(services.synced(), pods.synced(), nodes.synced(), slices.synced());
        if !context.ready(synced).await {
            return Ok(());
        }
        // The first syncs need the shares of the zones.
        this.set_nodes();
        let workers = options.concurrent_service_endpoint_syncs;
        let syncs = context.syncs::<Service, _>(controller::ENDPOINT_SLICES);
        let node_syncs = context.other_syncs(controller::ENDPOINT_SLICES);
        join(
            worker::run_until(&context.shutdown, &queue, workers, syncs, |key| this.sync(key)),
            worker::run_until(&context.shutdown, &node_queue, 1, node_syncs, |_| {
                let (this, queue) = (&this, &queue);
                async move {
                    this.set_nodes().into_iter().for_each(|key| queue.add(key));
                    Ok::<_, EndpointsError>(())
                }
            }),
        )
        .await;
        Ok(())
    })
}

/// Whether the change of a node may change the shares of the zones.
fn changes_shares(change: &Change<Node>) -> bool {
    match (change.old(), change.new.as_deref()) {
        (Some(old), Some(new)) => is_node_ready(old) != is_node_ready(new) || zone(old) != zone(new),
        (Some(_) | None, _) => true,
    }
}

struct Control {
    services: Informer<Service>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    slices: Informer<EndpointSlice>,
    writer: SliceWriter,
    tracker: Arc<SliceTracker>,
    topology: Mutex<Topology>,
    times: TriggerTimes,
    recorder: Recorder,
    most: usize,
}

impl Control {
    /// Computes the shares of the zones. Returns the Services to sync.
    fn set_nodes(&self) -> Vec<String> {
        let nodes = self.nodes.kept();
        // Decoded before the lock, for which the syncs wait.
        let shares = shares(nodes.iter().map(PackedObject::get));
        let mut topology = self.topology.lock();
        topology.set_shares(shares);
        topology.overloaded()
    }

    async fn sync(&self, key: String) -> Result<(), EndpointsError> {
        let Some(service) = self.services.get(&key) else {
            // The garbage collector deletes the slices.
            self.times.forget(&key);
            self.tracker.forget(&key);
            self.topology.lock().forget(&key);
            return Ok(());
        };
        let Some((spec, selector)) = selecting_spec(&service) else { return Ok(()) };
        let pods = selected_parts(&self.pods, split_key(&key).0, selector).await;
        let mut slices = slices_of(&self.slices, &key, MANAGER);
        if self.tracker.is_stale(&key, &slices) {
            return Err(EndpointsError::StaleSlices);
        }
        slices.retain(|slice| !is_terminating(slice.as_ref()));
        let trigger = self.times.next(&key, &service, &pods).map(|time| time.to_string());
        let node = |name: &str| self.nodes.get(name);
        let situation = Situation { service: &service, spec, pods: &pods, node: &node, most: self.most };
        let written = self.reconcile(&key, &situation, slices, trigger.as_deref()).await;
        if let Err(error) = &written {
            let message = format!("Error updating Endpoint Slices for Service {key}: {error}");
            let reason = reason::FAILED_TO_UPDATE_ENDPOINT_SLICES;
            self.recorder.event(service.as_ref(), EventType::Warning, reason, message);
        }
        match written {
            // A change of the Service or its pods queues the key again.
            Err(EndpointsError::TooManyPorts { .. }) => Ok(()),
            other => other,
        }
    }

    /// Writes the slices of each address type. If a write fails, the other types are written anyway.
    async fn reconcile(
        &self,
        key: &str,
        situation: &Situation<'_>,
        slices: Vec<Arc<EndpointSlice>>,
        trigger: Option<&str>,
    ) -> Result<(), EndpointsError> {
        let (namespace, service) = (split_key(key).0, situation.service);
        let types = address_types(situation.spec);
        let owner =
            SliceOwner { namespace, text: format!("Service {key}"), is_terminating: is_terminating(service) };
        let mut errors = Vec::new();
        let (slices, unsupported): (Vec<_>, Vec<_>) =
            slices.into_iter().partition(|slice| types.contains(slice.address_type.as_str()));
        for slice in &unsupported {
            self.topology.lock().remove(key, &slice.address_type);
        }
        for address_type in types {
            let of_type = slices.iter().filter(|slice| slice.address_type == address_type);
            let existing: Vec<_> = of_type.cloned().collect();
            let mut decision = decide(situation, &existing, address_type, &self.topology)?;
            stamp(&mut decision.changes, trigger);
            errors.append(&mut decision.missing);
            errors.extend(self.writer.write(&owner, decision.changes).await.err());
            if let Some(event) = decision.event {
                self.report(service, event);
            }
        }
        for slice in &unsupported {
            if let Err(cause) = self.writer.delete(namespace, slice).await {
                let name = slice.metadata.name.clone().unwrap_or_default();
                errors.push(EndpointsError::DeleteFamily {
                    name,
                    owner: owner.text.clone(),
                    cause: cause.into(),
                });
            }
        }
        EndpointsError::all(errors)
    }

    fn report(&self, service: &Service, event: HintEvent) {
        let (type_, reason, message) = match event {
            HintEvent::Enabled(message) => (EventType::Normal, reason::TOPOLOGY_AWARE_HINTS_ENABLED, message),
            HintEvent::Disabled(message) => {
                (EventType::Warning, reason::TOPOLOGY_AWARE_HINTS_DISABLED, message)
            }
        };
        self.recorder.event(service, type_, reason, message);
    }
}

/// Sets the annotation with the time of the change that caused the writes.
fn stamp(changes: &mut SliceChanges, trigger: Option<&str>) {
    for slice in changes.create.iter_mut().chain(&mut changes.update) {
        let annotations = slice.metadata.annotations.get_or_insert_default();
        let key = orlop_client::names::ANN_LAST_CHANGE_TRIGGER_TIME;
        match trigger {
            Some(time) => annotations.insert(key.to_owned(), time.to_owned()),
            None => annotations.remove(key),
        };
        if annotations.is_empty() {
            slice.metadata.annotations = None;
        }
    }
}
