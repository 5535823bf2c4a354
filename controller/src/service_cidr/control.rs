//! Runs the controller: queues ServiceCIDRs on changes of ServiceCIDRs and IPAddresses, and performs the writes.

use std::sync::Arc;

use futures::future::{BoxFuture, join};
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Patch, PatchParams};
use orlop_apimachinery::clock::Clock;
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer};
use orlop_client::meta::{adding_finalizers, removing_finalizers};
use orlop_client::names::{COMPONENT_SERVICE_CIDR, FINALIZER_SERVICE_CIDR, condition, controller, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::watcher::Undecodable;
use orlop_client::worker;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::decide::{Action, Ready, decide, service_address};
use super::table::RangeTable;
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
        let (ranges, addresses) =
            (context.informers.of::<ServiceCIDR>(), context.informers.of::<IPAddress>());
        let this = Controller {
            client: context.client.clone(),
            ranges: ranges.clone(),
            addresses: addresses.clone(),
            table: Arc::default(),
            queue: WorkQueue::new(context.options.rate_limit),
            recorder: context.recorder(COMPONENT_SERVICE_CIDR),
            clock: context.clock,
        };
        let _ranges = ranges.add_handler({
            let (queue, table) = (this.queue.clone(), Arc::clone(&this.table));
            move |change: &Change<ServiceCIDR>| {
                queue.add(change.key().to_string());
                let mut table = table.lock();
                // A new or deleted range may permit or prevent the deletion of a range that it overlaps.
                for prefix in table.put(change.key(), change.new.as_deref()) {
                    table.waiting_near(&prefix).for_each(|name| queue.add(name.to_string()));
                }
            }
        });
        let _addresses = addresses.add_handler({
            let (queue, table) = (this.queue.clone(), Arc::clone(&this.table));
            move |change: &Change<IPAddress>| {
                // The name of an IPAddress is its address.
                let Ok(ip) = change.key().parse() else { return };
                let is_used = change.new.as_deref().and_then(service_address).is_some();
                let mut table = table.lock();
                // The address may permit or prevent the deletion of its ranges.
                if table.put_address(ip, is_used) {
                    table.waiting_for(ip).for_each(|name| queue.add(name.to_string()));
                }
            }
        });
        if !context.ready(join(ranges.synced(), addresses.synced())).await {
            return Ok(());
        }
        let syncs = context.syncs::<ServiceCIDR, _>(controller::SERVICE_CIDR);
        worker::run_until(&context.shutdown, &this.queue, WORKERS, syncs, |name| this.sync(name)).await;
        Ok(())
    })
}

struct Controller {
    client: Client,
    ranges: Informer<ServiceCIDR>,
    addresses: Informer<IPAddress>,
    table: Arc<Mutex<RangeTable>>,
    queue: WorkQueue<String>,
    recorder: Recorder,
    clock: Clock,
}

impl Controller {
    async fn sync(&self, name: String) -> Result<(), ServiceCidrError> {
        let Some(range) = self.ranges.get(&name) else { return Ok(()) };
        // Before the table is read: an address that is decoded in between is then in it.
        let decoded = self.ranges.all_decoded().and_then(|()| self.addresses.all_decoded());
        let action = decide(&range, &self.table.lock(), self.clock.now());
        match action {
            Action::Nothing => Ok(()),
            Action::Wait(left) => {
                self.queue.add_after(name, left);
                Ok(())
            }
            Action::Release => {
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
