//! Expands volumes whose claims request more (upstream: external-resizer). One queue per driver ([`crate::csi::driver_queue`]).
//!
//! * [`target`]: the next size. * [`conditions`]: the conditions of the claim. * `expand`: the steps, each with the state that
//!   is saved before it.
//!
//! A claim is queued when its size, status or resizer changes, when its volume appears, and when a pod stops using a volume
//! that its driver expands only while unused.

mod expand;

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join3};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Client;
use orlop_csi::capabilities::Rpc;
use orlop_csi::driver::Driver;
use orlop_csi::v1::NodeGetCapabilitiesRequest;
use orlop_csi::v1::node_service_capability::Type as NodeCapability;
use orlop_csi::v1::node_service_capability::rpc::Type as NodeRpc;

use crate::context::{Context, ControllerError};
use crate::csi::retry_state::RetryState;
use crate::csi::{driver_queue, live, requeue};
use orlop_apimachinery::clock::{Backoff, Clock};
use orlop_client::informer::{Change, Informer};
use orlop_client::meta::annotation;
use orlop_client::names::{ANN_PRE_RESIZE_CAPACITY, ANN_STORAGE_RESIZER, controller};
use orlop_client::pods;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::Recorder;
use orlop_client::worker;
use orlop_csi::drivers::Drivers;
use orlop_volume::csi::handle;
use orlop_volume::translate;

use expand::ResizeError;
use orlop_volume::resize::conditions;
use orlop_volume::resize::target::{self, Facts, Stage, Target};

/// First and longest delay for a driver that does not report its node capabilities.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The component that expands the volumes of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// The driver, followed by nodes if it reports so.
    Controller,
    /// Nodes only.
    Node,
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let (claims, volumes, pods) =
            (context.informers.claims(), context.informers.volumes(), context.informers.pods());
        pods::index_by_claim(&pods);
        if !context.ready(join3(claims.synced(), volumes.synced(), pods.synced())).await {
            return Ok(());
        }
        driver_queue::run(&context, |context, driver| {
            serve(context, driver, claims.clone(), volumes.clone(), pods.clone())
        })
        .await;
        Ok(())
    })
}

/// One resizer.
async fn serve(
    context: Context,
    driver: Driver,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    pods: Informer<Pod>,
) {
    let Some(means) = means(&context, &driver).await else { return };
    let name = driver.name().to_owned();
    let queue = WorkQueue::new(driver_queue::RETRY);
    let resizer = Resizer {
        client: context.client.clone(),
        drivers: context.drivers.clone(),
        clock: context.clock,
        recorder: context.recorder(format!("external-resizer {name}")),
        memory: Arc::new(RetryState::default()),
        queue: queue.clone(),
        name,
        means,
        claims,
        volumes,
        pods,
    };
    let _claims = requeue::claims(&resizer.claims, &queue, &resizer.memory, matters);
    let _volumes = requeue::volumes(&resizer.volumes, &queue);
    let _pods = resizer.pods.add_handler({
        let (queue, memory) = (queue.clone(), Arc::clone(&resizer.memory));
        move |change: &Change<Pod>| {
            let over = change.is_gone() || change.new.as_deref().is_some_and(pods::is_finished);
            let Some(pod) = change.new.as_ref().or_else(|| change.old()).filter(|_| over) else { return };
            pods::claim_keys(pod)
                .into_iter()
                .filter(|key| memory.is_in_use(key))
                .for_each(|key| queue.add(key));
        }
    });
    worker::run_until(
        &context.shutdown,
        &queue,
        driver_queue::WORKERS,
        context.syncs::<PersistentVolumeClaim, _>(controller::CSI_RESIZER),
        |key| resizer.sync(key),
    )
    .await;
}

/// The component that expands the volumes. `None` if there is none, or if the shutdown started before it was known.
async fn means(context: &Context, driver: &Driver) -> Option<Means> {
    if driver.can().can(Rpc::ExpandVolume) {
        return Some(Means::Controller);
    }
    let mut waits = Backoff::new(WAITS.0, WAITS.1);
    loop {
        let wait = match driver.node_get_capabilities(NodeGetCapabilitiesRequest {}).await {
            Ok(answer) => {
                let expands = answer.capabilities.iter().any(|capability| match &capability.r#type {
                    Some(NodeCapability::Rpc(rpc)) => rpc.r#type == NodeRpc::ExpandVolume as i32,
                    None => false,
                });
                return expands.then_some(Means::Node);
            }
            Err(error) if error.is_uncertain() => waits.advance(),
            // It has no node service.
            Err(_) => return None,
        };
        tokio::select! {
            () = context.shutdown.cancelled() => return None,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Whether a change needs a sync. The resizer's own writes do not.
fn matters(change: &Change<PersistentVolumeClaim>) -> bool {
    let Some(new) = change.new.as_deref().filter(|claim| target::is_bound(claim)) else { return false };
    if change.is_new() || change.replaced() {
        return true;
    }
    let Some(old) = change.old() else { return true };
    let stage = target::stage(new);
    let own = matches!(stage, Stage::ControllerInProgress | Stage::ControllerInfeasible);
    !target::is_bound(old)
        || target::requested(new) != target::requested(old)
        || target::capacity(new) > target::capacity(old)
        || annotation(new, ANN_STORAGE_RESIZER) != annotation(old.as_ref(), ANN_STORAGE_RESIZER)
        || stage != target::stage(old) && !own
}

/// One driver's resizer.
struct Resizer {
    client: Client,
    drivers: Drivers,
    clock: Clock,
    recorder: Recorder,
    memory: Arc<RetryState>,
    queue: WorkQueue<String>,
    /// The driver's name.
    name: String,
    means: Means,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    pods: Informer<Pod>,
}

impl Resizer {
    async fn sync(&self, key: String) -> Result<(), ResizeError> {
        let Some(claim) = self.claims.get(&key).filter(|claim| target::is_bound(claim)) else {
            return Ok(());
        };
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
        // A missing volume queues its claim when it appears.
        let Some(volume) = volume.and_then(|name| self.volumes.get(name)) else { return Ok(()) };
        if !self.serves(&volume, &claim) || !handle::is_bound_to(&volume, &claim) {
            return Ok(());
        }
        let is_marked = annotation(volume.as_ref(), ANN_PRE_RESIZE_CAPACITY).is_some();
        if is_marked && target::capacity(&claim) >= target::volume_capacity(&volume) {
            self.unmark(&volume).await?;
        }
        if !target::is_needed(&claim) {
            return Ok(());
        }
        // Decided and written on the server's state of both.
        let Some((claim, volume)) = live::claim_and_volume(&self.client, &key).await? else { return Ok(()) };
        if !target::is_needed(&claim)
            || !handle::is_bound_to(&volume, &claim)
            || !self.serves(&volume, &claim)
        {
            return Ok(());
        }
        match target::decide(&self.facts(&key, &claim, &volume)) {
            Target::Wait => Ok(()),
            Target::Later(rests) => {
                self.queue.add_after(key, rests);
                Ok(())
            }
            Target::Expand { size, again } => self.expand(&key, claim, volume, size, again).await,
        }
    }

    fn facts(&self, key: &str, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Facts {
        let conditions = live::conditions(claim);
        let pending = |c: &k8s_openapi::api::core::v1::PersistentVolumeClaimCondition| {
            c.type_ == conditions::FILE_SYSTEM_PENDING && c.status == "True"
        };
        Facts {
            request: target::requested(claim),
            allocated: target::allocated(claim),
            volume: target::volume_capacity(volume),
            stage: target::stage(claim),
            waits_for_node: conditions.iter().any(pending),
            settled: self.memory.is_settled(key),
            controller_expands: self.means == Means::Controller,
            rests: self.memory.rests(key),
        }
    }

    /// Whether this driver serves a volume: its own, or one whose in-tree plugin was migrated to it and whose claim names it as the
    /// resizer.
    fn serves(&self, volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
        match handle::source(volume) {
            Some(source) => source.driver == self.name,
            None => {
                let handed_over = annotation(claim, ANN_STORAGE_RESIZER) == Some(&self.name);
                handed_over && translate::driver_of(volume) == Some(&self.name)
            }
        }
    }
}

#[cfg(test)]
mod tests;
