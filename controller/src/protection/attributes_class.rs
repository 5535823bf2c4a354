//! VolumeAttributesClass protection: a class that a volume or claim references is not removed. No admission
//! plugin adds the finalizer here; this controller is its only source. It decides from the caches alone, as
//! upstream does.

use std::collections::BTreeSet;

use futures::future::{BoxFuture, join3};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use orlop_client::api::Api;

use super::{Need, ProtectionError, add, need, remove};
use crate::context::{Context, ControllerError};
use orlop_client::informer::{Change, Informer, key_of};
use orlop_client::names::{FINALIZER_VAC_PROTECTION, controller};
use orlop_client::queue::WorkQueue;
use orlop_client::worker;

const INDEX: &str = "attributes-class";

/// The names of the classes that a volume uses.
pub fn of_volume(volume: &PersistentVolume) -> Vec<String> {
    let name = volume.spec.as_ref().and_then(|s| s.volume_attributes_class_name.clone());
    name.into_iter().filter(|n| !n.is_empty()).collect()
}

/// The names of the classes that a claim uses: requested, current, and the target of a modification in progress.
pub fn of_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = claim.status.as_ref();
    let names = [
        claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_ref()),
        status.and_then(|s| s.current_volume_attributes_class_name.as_ref()),
        status.and_then(|s| s.modify_volume_status.as_ref()?.target_volume_attributes_class_name.as_ref()),
    ];
    let distinct: BTreeSet<&String> = names.into_iter().flatten().filter(|n| !n.is_empty()).collect();
    distinct.into_iter().cloned().collect()
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let classes = context.informers.attributes_classes();
        let (volumes, claims) = (context.informers.volumes(), context.informers.claims());
        volumes.add_index(INDEX, of_volume);
        claims.add_index(INDEX, of_claim);
        let adding = || {
            let queue = queue.clone();
            move |name: String| queue.add(name)
        };
        let add_name = adding();
        let _classes = classes.add_handler(move |change: &Change<VolumeAttributesClass>| {
            if let Some(class) = change.new.as_deref()
                && need(class, FINALIZER_VAC_PROTECTION) != Need::Nothing
            {
                add_name(key_of(class));
            }
        });
        let add_name = adding();
        let _volumes =
            volumes.add_handler(move |change| change.left(INDEX).map(str::to_owned).for_each(&add_name));
        let add_name = adding();
        let _claims =
            claims.add_handler(move |change| change.left(INDEX).map(str::to_owned).for_each(&add_name));
        if !context.ready(join3(classes.synced(), volumes.synced(), claims.synced())).await {
            return Ok(());
        }
        let api = Api::all(context.client.clone());
        let sync = |name: String| sync(&classes, &volumes, &claims, &api, name);
        worker::run_until(
            &context.shutdown,
            &queue,
            1,
            context.syncs::<VolumeAttributesClass, _>(controller::VAC_PROTECTION),
            sync,
        )
        .await;
        Ok(())
    })
}

async fn sync(
    classes: &Informer<VolumeAttributesClass>,
    volumes: &Informer<PersistentVolume>,
    claims: &Informer<PersistentVolumeClaim>,
    api: &Api<VolumeAttributesClass>,
    name: String,
) -> Result<(), ProtectionError> {
    let Some(class) = classes.get(&name) else { return Ok(()) };
    let is_used = || volumes.has_indexed(INDEX, &name) || claims.has_indexed(INDEX, &name);
    match need(class.as_ref(), FINALIZER_VAC_PROTECTION) {
        Need::Nothing => Ok(()),
        // Tests: PROT-VAC-1
        Need::Add => add(api, class.as_ref(), FINALIZER_VAC_PROTECTION).await,
        // Tests: PROT-VAC-2, PROT-VAC-4, PROT-VAC-7
        Need::Check => {
            let decoded = volumes.all_decoded().and_then(|()| claims.all_decoded());
            if is_used() {
                return Ok(());
            }
            decoded.map_err(|cause| ProtectionError::Users { key: name.clone(), cause })?;
            remove(api, class.as_ref(), FINALIZER_VAC_PROTECTION).await
        }
    }
}
