//! PersistentVolume protection: a volume that is Bound is not removed.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::PersistentVolume;
use orlop_client::api::Api;

use super::{Need, ProtectionError, add, need, remove};
use crate::context::{Context, ControllerError};
use orlop_client::informer::{Change, Informer, key_of};
use orlop_client::names::{FINALIZER_PV_PROTECTION, controller};
use orlop_client::queue::WorkQueue;
use orlop_client::worker;

/// The action for the finalizer of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Tests: PROT-PV-1
    Add,
    /// The volume is being deleted and is not Bound. Tests: PROT-PV-5, PROT-PV-6, PROT-PV-7
    Remove,
    /// Nothing to do, or the volume is Bound; a change of its phase queues it again. Tests: PROT-PV-3, PROT-PV-4
    Keep,
}

/// Decides the action for a volume.
pub fn decide(volume: &PersistentVolume) -> Action {
    let phase = volume.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
    match need(volume, FINALIZER_PV_PROTECTION) {
        Need::Add => Action::Add,
        Need::Check if phase != "Bound" => Action::Remove,
        Need::Check | Need::Nothing => Action::Keep,
    }
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let volumes = context.informers.volumes();
        let _handler = volumes.add_handler({
            let queue = queue.clone();
            move |change: &Change<PersistentVolume>| {
                if let Some(volume) = change.new.as_deref()
                    && decide(volume) != Action::Keep
                {
                    queue.add(key_of(volume));
                }
            }
        });
        if !context.ready(volumes.synced()).await {
            return Ok(());
        }
        let api = Api::all(context.client.clone());
        let sync = |key: String| sync(&volumes, &api, key);
        worker::run_until(
            &context.shutdown,
            &queue,
            1,
            context.syncs::<PersistentVolume, _>(controller::PV_PROTECTION),
            sync,
        )
        .await;
        Ok(())
    })
}

async fn sync(
    volumes: &Informer<PersistentVolume>,
    api: &Api<PersistentVolume>,
    key: String,
) -> Result<(), ProtectionError> {
    let Some(volume) = volumes.get(&key) else { return Ok(()) };
    match decide(&volume) {
        Action::Add => add(api, volume.as_ref(), FINALIZER_PV_PROTECTION).await,
        Action::Remove => remove(api, volume.as_ref(), FINALIZER_PV_PROTECTION).await,
        Action::Keep => Ok(()),
    }
}
