//! Runs the controller: queues Services on changes and writes their Endpoints. Updates and deletes are conditional on the
//! version that was read, and [`LastReplaced`] prevents a decision on a version that the controller itself has replaced.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::{BoxFuture, join3};
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::Client;
use kube::api::{DeleteParams, PostParams, Preconditions};
use orlop_apimachinery::steps::OutOfSteps;
use orlop_client::api::Api;
use orlop_client::client::{is_namespace_ending, is_not_found, message_of};
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::annotation;
use orlop_client::names::{ANN_LEADER, COMPONENT_ENDPOINTS, controller, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;
use parking_lot::Mutex;

use super::decide::{MOST_PORTS, wanted};
use crate::context::{Context, ControllerError};
use crate::endpoints::error::EndpointsError;
use crate::endpoints::pods::selecting_spec;
use crate::endpoints::selected::{index_services, selected_parts, services_to_sync};
use crate::endpoints::trigger_time::TriggerTimes;

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let this = Control {
            client: context.client.clone(),
            services: context.informers.of(),
            pods: context.informers.pods(),
            endpoints: context.informers.of(),
            replaced: LastReplaced::default(),
            times: TriggerTimes::default(),
            recorder: context.recorder(COMPONENT_ENDPOINTS),
        };
        index_services(&this.services);
        let _services = this.services.add_handler({
            let queue = queue.clone();
            move |change: &Change<Service>| queue.add(change.key().to_string())
        });
        let _pods = this.pods.add_handler({
            let (queue, services) = (queue.clone(), this.services.clone());
            let delay = context.options.endpoint_updates_batch_period;
            move |change: &Change<Pod>| {
                services_to_sync(change, &services).into_iter().for_each(|key| queue.add_after(key, delay));
            }
        });
        let _endpoints = this.endpoints.add_handler({
            let (queue, services) = (queue.clone(), this.services.clone());
            move |change: &Change<Endpoints>| {
                // Without a Service there is nothing to restore, and a user may have created new Endpoints since.
                if (change.is_gone() || change.replaced()) && services.get_kept(change.key()).is_some() {
                    queue.add(change.key().to_string());
                }
            }
        });
        let synced = join3(this.services.synced(), this.pods.synced(), this.endpoints.synced());
        if !context.ready(synced).await {
            return Ok(());
        }
        this.queue_leftovers(&queue);
        let workers = context.options.concurrent_endpoint_syncs;
        let syncs = context.syncs::<Service, _>(controller::ENDPOINTS);
        worker::run_until(&context.shutdown, &queue, workers, syncs, |key| this.sync(key)).await;
        Ok(())
    })
}

/// The versions of Endpoints that this controller has replaced. A cache that contains one is out of date.
#[derive(Default)]
struct LastReplaced(Mutex<HashMap<String, String>>);

impl LastReplaced {
    fn set(&self, key: &str, version: &str) {
        self.0.lock().insert(key.to_owned(), version.to_owned());
    }

    fn contains(&self, key: &str, version: &str) -> bool {
        self.0.lock().get(key).is_some_and(|replaced| replaced == version)
    }

    fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }
}

struct Control {
    client: Client,
    services: Informer<Service>,
    pods: Informer<Pod>,
    endpoints: Informer<Endpoints>,
    replaced: LastReplaced,
    times: TriggerTimes,
    recorder: Recorder,
}

impl Control {
    /// Queues all Endpoints after the start: their Services may have been deleted meanwhile. Locks of leader elections have
    /// no Service.
    fn queue_leftovers(&self, queue: &WorkQueue<String>) {
        for kept in self.endpoints.kept() {
            if annotation(kept.get().as_ref(), ANN_LEADER).is_none() {
                queue.add(kept.key().to_string());
            }
        }
    }

    async fn sync(&self, key: String) -> Result<(), EndpointsError> {
        let (namespace, _) = split_key(&key);
        let Some(service) = self.services.find(&key)? else {
            self.delete(&key).await?;
            self.times.forget(&key);
            self.replaced.forget(&key);
            return Ok(());
        };
        let Some((spec, selector)) = selecting_spec(&service) else { return Ok(()) };
        let pods = selected_parts(&self.pods, namespace, selector).await;
        let current = self.endpoints.get(&key);
        let version = current.as_ref().and_then(|current| current.metadata.resource_version.clone());
        if let Some(version) = version.filter(|version| self.replaced.contains(&key, version)) {
            return Err(EndpointsError::StaleEndpoints { version, key });
        }
        // Only now, because the next call would not return this time again.
        let trigger = self.times.next(&key, &service, &pods);
        match wanted(&service, spec, &pods, current.as_deref(), trigger) {
            Ok(None) => Ok(()),
            Ok(Some(endpoints)) => self.write(&key, endpoints, current).await,
            Err(OutOfSteps) => {
                self.report_too_many_ports(&key, current.is_some());
                // A retry has the same result; a change of the Service or its pods queues the key again.
                Ok(())
            }
        }
    }

    fn report_too_many_ports(&self, key: &str, is_update: bool) {
        let (reason, action) = match is_update {
            true => (reason::FAILED_TO_UPDATE_ENDPOINT, "update endpoint"),
            false => (reason::FAILED_TO_CREATE_ENDPOINT, "create endpoint for service"),
        };
        let message = format!(
            "Failed to {action} {key}: the Endpoints would have more than {MOST_PORTS} ports; use fewer ports, or \
             numbers as target ports"
        );
        let (namespace, name) = split_key(key);
        let mut endpoints = Endpoints::default();
        endpoints.metadata.namespace = Some(namespace.to_owned());
        endpoints.metadata.name = Some(name.to_owned());
        self.report(&endpoints, reason, message);
    }

    /// One write; if it fails, the next sync decides again.
    async fn write(
        &self,
        key: &str,
        endpoints: Endpoints,
        current: Option<Arc<Endpoints>>,
    ) -> Result<(), EndpointsError> {
        let (namespace, name) = split_key(key);
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), namespace);
        let parameters = PostParams::default();
        let Some(current) = current else {
            return match api.create(&parameters, &endpoints).await {
                Ok(_) => Ok(()),
                // The whole namespace is being deleted; there is no failure to report.
                Err(cause) if is_namespace_ending(&cause) => Ok(()),
                Err(cause) => {
                    let message =
                        format!("Failed to create endpoint for service {key}: {}", message_of(&cause));
                    self.report(&endpoints, reason::FAILED_TO_CREATE_ENDPOINT, message);
                    Err(EndpointsError::Endpoints {
                        action: "create",
                        key: key.to_owned(),
                        cause: cause.into(),
                    })
                }
            };
        };
        match api.replace(name, &parameters, &endpoints).await {
            Ok(written) => {
                let version = current.metadata.resource_version.as_deref().unwrap_or_default();
                // A write without a change has no new version, and the watch reports none.
                if written.metadata.resource_version.as_deref() != Some(version) {
                    self.replaced.set(key, version);
                }
                Ok(())
            }
            Err(cause) => {
                let message = format!("Failed to update endpoint {key}: {}", message_of(&cause));
                self.report(&endpoints, reason::FAILED_TO_UPDATE_ENDPOINT, message);
                Err(EndpointsError::Endpoints { action: "update", key: key.to_owned(), cause: cause.into() })
            }
        }
    }

    fn report(&self, endpoints: &Endpoints, reason: &str, message: String) {
        self.recorder.event(endpoints, EventType::Warning, reason, message);
    }

    /// Deletes the Endpoints of a deleted Service, also if they are not in the cache yet. Reads the Endpoints and then the
    /// Service from the server, because the caches may be of different times, and deletes exactly these Endpoints. If they
    /// have changed since, the next sync decides again.
    async fn delete(&self, key: &str) -> Result<(), EndpointsError> {
        let (namespace, name) = split_key(key);
        let failed = |action| {
            move |cause| EndpointsError::Endpoints { action, key: key.to_owned(), cause: Box::new(cause) }
        };
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), namespace);
        let Some(endpoints) = api.get_opt(name).await.map_err(failed("read"))? else { return Ok(()) };
        // The lock of a leader election has no Service.
        if annotation(&endpoints, ANN_LEADER).is_some() {
            return Ok(());
        }
        let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        // The addition of a Service to the cache queues the key again.
        if services.get_opt(name).await.map_err(failed("read the Service of"))?.is_some() {
            return Ok(());
        }
        let exactly = Preconditions {
            uid: endpoints.metadata.uid,
            resource_version: endpoints.metadata.resource_version,
        };
        match api.delete(name, &DeleteParams::default().preconditions(exactly)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(failed("delete")(cause)),
        }
    }
}
