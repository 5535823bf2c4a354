//! Runs the controller: queues ServiceCIDRs on changes of ServiceCIDRs and IPAddresses, and performs the writes.

use std::iter;
use std::net::IpAddr;

use futures::future::{BoxFuture, join};
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Patch, PatchParams};
use orlop_apimachinery::clock::Clock;
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer, key_of};
use orlop_client::meta::{adding_finalizers, removing_finalizers};
use orlop_client::names::{COMPONENT_SERVICE_CIDR, FINALIZER_SERVICE_CIDR, condition, controller, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::watcher::Undecodable;
use orlop_client::worker;
use serde_json::{Value, json};

use super::decide::{Action, Ready, decide, is_waiting, prefixes, service_address};
use crate::context::{Context, ControllerError};

/// Upstream: `ServiceCIDRController.ConcurrentServiceCIDRSyncs`.
const WORKERS: usize = 5;

/// Why a sync failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceCidrError {
    /// A write failed.
    #[error("cannot {what} ServiceCIDR {name}: {cause}")]
    Write { what: &'static str, name: String, cause: kube::Error },
    /// A range or an address that may prevent the release cannot be decoded.
    #[error("cannot release ServiceCIDR {name}: {cause}")]
    Undecodable { name: String, cause: Undecodable },
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let this = Controller {
            client: context.client.clone(),
            ranges: context.informers.of(),
            addresses: context.informers.of(),
            queue: WorkQueue::new(context.options.rate_limit),
            recorder: context.recorder(COMPONENT_SERVICE_CIDR),
            clock: context.clock,
        };
        let _ranges = this.ranges.add_handler({
            let (queue, ranges) = (this.queue.clone(), this.ranges.clone());
            move |change: &Change<ServiceCIDR>| {
                queue.add(change.key().to_string());
                // A new or deleted range may permit or prevent the deletion of a range that it overlaps.
                if let Some(range) = change.new.as_deref().or(change.old().map(AsRef::as_ref)) {
                    queue_overlapping(range, &ranges, &queue);
                }
            }
        });
        let _addresses = this.addresses.add_handler({
            let (queue, ranges) = (this.queue.clone(), this.ranges.clone());
            move |change: &Change<IPAddress>| {
                let address = change.new.as_deref().or(change.old().map(AsRef::as_ref));
                if let Some(ip) = address.and_then(service_address) {
                    queue_allocating(ip, &ranges, &queue);
                }
            }
        });
        if !context.ready(join(this.ranges.synced(), this.addresses.synced())).await {
            return Ok(());
        }
        let syncs = context.syncs::<ServiceCIDR, _>(controller::SERVICE_CIDR);
        worker::run_until(&context.shutdown, &this.queue, WORKERS, syncs, |name| this.sync(name)).await;
        Ok(())
    })
}

fn queue_overlapping(range: &ServiceCIDR, ranges: &Informer<ServiceCIDR>, queue: &WorkQueue<String>) {
    let own = prefixes(range);
    let overlaps = |other: &ServiceCIDR| {
        is_waiting(other) && prefixes(other).iter().any(|other| own.iter().any(|own| own.overlaps(other)))
    };
    ranges.list().iter().filter(|other| overlaps(other)).for_each(|other| queue.add(key_of(other.as_ref())));
}

/// Queues the ranges whose deletion the address may prevent.
fn queue_allocating(ip: IpAddr, ranges: &Informer<ServiceCIDR>, queue: &WorkQueue<String>) {
    let allocates =
        |range: &ServiceCIDR| is_waiting(range) && prefixes(range).iter().any(|prefix| prefix.allocates(ip));
    ranges.list().iter().filter(|range| allocates(range)).for_each(|range| queue.add(key_of(range.as_ref())));
}

struct Controller {
    client: Client,
    ranges: Informer<ServiceCIDR>,
    addresses: Informer<IPAddress>,
    queue: WorkQueue<String>,
    recorder: Recorder,
    clock: Clock,
}

impl Controller {
    async fn sync(&self, name: String) -> Result<(), ServiceCidrError> {
        let Some(range) = self.ranges.get(&name) else { return Ok(()) };
        // Only a deletion reads the addresses.
        let addresses = iter::once_with(|| self.addresses.kept()).flatten();
        let addresses = addresses.filter_map(|kept| service_address(&kept.get()));
        match decide(&range, &self.ranges.list(), addresses, self.clock.now()) {
            Action::Nothing => Ok(()),
            Action::Wait(left) => {
                self.queue.add_after(name, left);
                Ok(())
            }
            Action::Release => {
                let decoded = self.ranges.all_decoded().and_then(|()| self.addresses.all_decoded());
                decoded.map_err(|cause| ServiceCidrError::Undecodable { name: name.clone(), cause })?;
                let patch = removing_finalizers(range.as_ref(), &[FINALIZER_SERVICE_CIDR]);
                self.patch("release", &name, patch).await
            }
            Action::Block(condition) => self.write_condition(&name, condition).await,
            Action::Protect { add_finalizer, condition } => {
                if add_finalizer {
                    let patch = adding_finalizers(range.as_ref(), &[FINALIZER_SERVICE_CIDR]);
                    self.patch("protect", &name, patch).await?;
                    // If the next write fails, the next sync finds the finalizer, and writes only the condition.
                }
                let written = self.write_condition(&name, condition).await;
                if written.is_err() {
                    let message = "The ServiceCIDR Status can not be set to Ready=True";
                    self.recorder.event(
                        range.as_ref(),
                        EventType::Warning,
                        reason::SERVICE_CIDR_ERROR,
                        message,
                    );
                }
                written
            }
        }
    }

    async fn patch(&self, what: &'static str, name: &str, patch: Value) -> Result<(), ServiceCidrError> {
        let api: Api<ServiceCIDR> = Api::all(self.client.clone());
        done(what, name, api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)
    }

    async fn write_condition(&self, name: &str, condition: Option<Ready>) -> Result<(), ServiceCidrError> {
        let Some(Ready { status, reason, message }) = condition else { return Ok(()) };
        let applied = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name},
            "status": {"conditions": [{
                "type": condition::READY, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": Time(self.clock.now()),
            }]},
        });
        let api: Api<ServiceCIDR> = Api::all(self.client.clone());
        let parameters = PatchParams::apply(controller::SERVICE_CIDR).force();
        let written = api.patch_status(name, &parameters, &Patch::Apply(applied)).await;
        done("write the status of", name, written)
    }
}

/// A deleted object needs no write.
fn done(what: &'static str, name: &str, written: kube::Result<ServiceCIDR>) -> Result<(), ServiceCidrError> {
    match written {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(cause) => Err(ServiceCidrError::Write { what, name: name.to_owned(), cause }),
    }
}
