//! Applies the attributes class that a claim requests to its volume (upstream: external-resizer, pkg/modifycontroller). One queue
//! per driver that can modify volumes ([`crate::csi::driver_queue`]).
//!
//! * [`table`]: the next action. * [`conditions`]: the conditions of the claim. * `modify`: the steps, each with the state that
//!   is saved before it.
//!
//! A claim is queued when it requests another class, when its modification ends, and when its volume or class appears.

pub mod conditions;
mod modify;
pub mod table;

use std::sync::Arc;

use futures::future::{BoxFuture, join3};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kube::Client;
use orlop_csi::capabilities::Rpc;
use orlop_csi::driver::Driver;

use crate::context::{Context, ControllerError};
use crate::csi::retry_state::RetryState;
use crate::csi::{driver_queue, live, requeue};
use orlop_apimachinery::clock::Clock;
use orlop_client::informer::{Change, Informer};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::Recorder;
use orlop_client::worker;
use orlop_csi::drivers::Drivers;
use orlop_volume::csi::handle;
use orlop_volume::resize::target::is_bound;

use modify::ModifyError;
use table::{Action, Facts};

/// Index of claims by the attributes classes that they request or are being modified to.
const INDEX_CLASS: &str = "csi-modifier-class";

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let (claims, volumes, classes) =
            (context.informers.claims(), context.informers.volumes(), context.informers.attributes_classes());
        claims.add_index(INDEX_CLASS, |claim| {
            let target = table::record(claim).map(|record| record.target);
            let mut names = vec![table::wanted(claim).to_owned()];
            names.extend(target);
            names.retain(|name| !name.is_empty());
            names.dedup();
            names
        });
        if !context.ready(join3(claims.synced(), volumes.synced(), classes.synced())).await {
            return Ok(());
        }
        driver_queue::run(&context, |context, driver| {
            serve(context, driver, claims.clone(), volumes.clone(), classes.clone())
        })
        .await;
        Ok(())
    })
}

/// One modifier.
async fn serve(
    context: Context,
    driver: Driver,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<VolumeAttributesClass>,
) {
    if !driver.can().can(Rpc::ModifyVolume) {
        return;
    }
    let name = driver.name().to_owned();
    let queue = WorkQueue::new(driver_queue::RETRY);
    let modifier = Modifier {
        client: context.client.clone(),
        drivers: context.drivers.clone(),
        clock: context.clock,
        // Upstream, resizer and modifier are the same process.
        recorder: context.recorder(format!("external-resizer {name}")),
        memory: Arc::new(RetryState::default()),
        queue: queue.clone(),
        name,
        claims,
        volumes,
        classes,
    };
    let _claims = requeue::claims(&modifier.claims, &queue, &modifier.memory, matters);
    let _volumes = requeue::volumes(&modifier.volumes, &queue);
    let _classes = modifier.classes.add_handler({
        let (queue, claims) = (queue.clone(), modifier.claims.clone());
        move |change: &Change<VolumeAttributesClass>| {
            if change.is_new() || change.replaced() {
                for claim in claims.each_by_index(INDEX_CLASS, change.key()) {
                    queue.add(orlop_client::informer::key_of(claim.as_ref()));
                }
            }
        }
    });
    worker::run_until(
        &context.shutdown,
        &queue,
        driver_queue::WORKERS,
        context.syncs::<PersistentVolumeClaim, _>(controller::CSI_MODIFIER),
        |key| modifier.sync(key),
    )
    .await;
}

/// Whether a change needs a sync: another class is requested, or a modification ended.
fn matters(change: &Change<PersistentVolumeClaim>) -> bool {
    let Some(new) = change.new.as_deref().filter(|claim| is_bound(claim)) else { return false };
    if change.is_new() || change.replaced() {
        return true;
    }
    let Some(old) = change.old() else { return true };
    !is_bound(old)
        || table::wanted(new) != table::wanted(old)
        || table::record(new).is_none() && table::record(old).is_some()
}

/// One driver's modifier.
struct Modifier {
    client: Client,
    drivers: Drivers,
    clock: Clock,
    recorder: Recorder,
    memory: Arc<RetryState>,
    queue: WorkQueue<String>,
    /// The driver's name.
    name: String,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<VolumeAttributesClass>,
}

impl Modifier {
    async fn sync(&self, key: String) -> Result<(), ModifyError> {
        let Some(claim) = self.claims.get(&key).filter(|claim| is_bound(claim)) else { return Ok(()) };
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
        // A missing volume queues its claim when it appears.
        let Some(volume) = volume.and_then(|name| self.volumes.get(name)) else { return Ok(()) };
        if !self.serves(&volume) || table::decide(&self.facts(&key, &claim)) == Action::Nothing {
            return Ok(());
        }
        // Decided and written on the server's state of both.
        let Some((claim, volume)) = live::claim_and_volume(&self.client, &key).await? else { return Ok(()) };
        if !is_bound(&claim) || !self.serves(&volume) || !handle::is_bound_to(&volume, &claim) {
            return Ok(());
        }
        match table::decide(&self.facts(&key, &claim)) {
            Action::Nothing => Ok(()),
            Action::Later(rests) => {
                self.queue.add_after(key, rests);
                Ok(())
            }
            Action::RollBack => self.roll_back(&key, &claim).await,
            Action::Continue(target) => match self.class(&key, &claim, &target) {
                Some(class) => self.modify(&key, claim, volume, &class).await,
                // The class queues the claim when it appears.
                None => Ok(()),
            },
            Action::Begin(target) => {
                self.memory.speed_up(&key);
                match self.class(&key, &claim, &target) {
                    Some(class) => {
                        let claim = self.begin(&key, claim, &target).await?;
                        self.modify(&key, claim, volume, &class).await
                    }
                    None => self.wait_for_class(&key, &claim).await,
                }
            }
        }
    }

    fn facts<'a>(&self, key: &str, claim: &'a PersistentVolumeClaim) -> Facts<'a> {
        let conditions = live::conditions(claim);
        Facts {
            wanted: table::wanted(claim),
            current: table::current(claim),
            record: table::record(claim),
            settled: self.memory.is_settled(key),
            rests: self.memory.rests(key),
            says_modifying: conditions.iter().any(|condition| condition.type_ == conditions::MODIFYING),
        }
    }

    fn serves(&self, volume: &PersistentVolume) -> bool {
        handle::source(volume).is_some_and(|source| source.driver == self.name)
    }
}

#[cfg(test)]
mod tests;
