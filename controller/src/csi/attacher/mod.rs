//! The attacher: calls ControllerPublishVolume and ControllerUnpublishVolume for VolumeAttachments of the drivers that are reachable
//! from this process (upstream: external-attacher, one per driver).
//!
//! * [`decide`] determines the next step for an attachment, and is pure; [`wake`] determines which changes queue an attachment.
//! * [`attachments`] performs the steps; [`writes`] writes, conditional on versions.
//! * [`listing`] compares the driver's own list with the attachments; [`memory`] is the state beyond the caches.
//! * [`driver_queue`] gives every driver its own workers, so that a slow driver does not delay the others (I12).

mod attachments;
mod decide;
mod driver_queue;
mod error;
mod listing;
mod local_state;
mod requeue;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};

use self::attachments::Attacher;
use self::driver_queue::DriverQueues;
use self::local_state::{Doubts, Latest, ReleasedVolumes};
use self::writes::Writer;
use crate::context::{Context, ControllerError};
use orlop_client::informer::{Change, Registration};
use orlop_client::names::controller;
use orlop_client::queue::{RateLimit, WorkQueue};
use orlop_client::worker;

/// Upstream: retry-interval-start and retry-interval-max.
const LIMIT: RateLimit =
    RateLimit { first: Duration::from_secs(1), max: Duration::from_secs(300), bucket: None };
/// Workers that remove finalizers from volumes. Upstream: 10.
const VOLUME_WORKERS: usize = 10;

const OPEN_BY_DRIVER: &str = "csi-attacher/open-by-driver";
const OPEN_BY_VOLUME: &str = "csi-attacher/open-by-volume";
const OPEN_BY_NODE: &str = "csi-attacher/open-by-node";
const HELD: &str = "csi-attacher/held";

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let attacher = Arc::new(Attacher {
            writer: Writer::new(context.client.clone()),
            attachments: context.informers.of::<VolumeAttachment>(),
            volumes: context.informers.volumes(),
            nodes: context.informers.of::<CSINode>(),
            drivers: context.drivers.clone(),
            clock: context.clock,
            latest: Latest::default(),
            released: ReleasedVolumes::default(),
            doubts: Doubts::default(),
        });
        let volumes = WorkQueue::new(LIMIT);
        let (queues, opened) = DriverQueues::new(LIMIT);
        // Subscribed before the first pass over the drivers, so that none is missed.
        let mut changes = context.drivers.changes();
        let waking =
            Waking { attacher: Arc::clone(&attacher), queues: queues.clone(), volumes: volumes.clone() };
        let waking = Arc::new(waking);
        let _registrations = waking.register();
        let synced = async {
            tokio::join!(attacher.attachments.synced(), attacher.volumes.synced(), attacher.nodes.synced());
        };
        if !context.ready(synced).await {
            return Ok(());
        }
        let drivers = async {
            loop {
                tokio::select! {
                    () = context.shutdown.cancelled() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                }
                waking.drivers_changed();
            }
        };
        let letting_go = worker::run_until(
            &context.shutdown,
            &volumes,
            VOLUME_WORKERS,
            context.syncs::<PersistentVolume, _>(controller::CSI_ATTACHER),
            |name: String| {
                let attacher = &attacher;
                async move { attacher.sync_volume(&name).await }
            },
        );
        tokio::join!(driver_queue::serve(&context, &attacher, opened), drivers, letting_go);
        Ok(())
    })
}

/// Maps changes to keys.
struct Waking {
    attacher: Arc<Attacher>,
    queues: DriverQueues,
    volumes: WorkQueue<String>,
}

impl Waking {
    fn register(self: &Arc<Self>) -> (Registration, Registration, Registration) {
        let Attacher { attachments, volumes, nodes, .. } = &*self.attacher;
        attachments.add_index(OPEN_BY_DRIVER, requeue::open_by_driver);
        attachments.add_index(OPEN_BY_VOLUME, requeue::open_by_volume);
        attachments.add_index(OPEN_BY_NODE, requeue::open_by_node);
        attachments.add_index(Attacher::BY_VOLUME, requeue::by_volume);
        attachments.add_index(Attacher::BY_DRIVER, requeue::by_driver);
        volumes.add_index(HELD, requeue::held);
        let (of_attachments, of_volumes, of_nodes) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        (
            attachments.add_handler(move |change| of_attachments.attachment(change)),
            volumes.add_handler(move |change| of_volumes.volume(change)),
            nodes.add_handler(move |change| of_nodes.node(change)),
        )
    }

    fn attachment(&self, change: &Change<VolumeAttachment>) {
        let name = change.key();
        self.attacher.latest.cached(name, change.new.as_deref());
        if change.is_gone() || change.replaced() {
            self.attacher.doubts.forget(name);
            // When the last attachment is gone, its volume's finalizer may be removed.
            let volume = change.old().and_then(|old| decide::volume_name(old));
            if let Some(volume) = volume
                && self.attacher.volumes.get(volume).is_some_and(|volume| requeue::volume_is_held(&volume))
            {
                self.volumes.add(volume.to_owned());
            }
        }
        if let Some(new) = &change.new
            && requeue::attachment_matters(change)
        {
            self.add(&new.spec.attacher, name);
        }
    }

    fn volume(&self, change: &Change<PersistentVolume>) {
        if let Some(gone) = change.gone_uid() {
            self.attacher.released.forget(gone);
        }
        if change.new.as_deref().is_some_and(requeue::volume_is_held) {
            self.volumes.add(change.key().to_string());
        }
        let waited_for = self.attacher.attachments.has_indexed(OPEN_BY_VOLUME, change.key());
        if waited_for && requeue::volume_helps(change) {
            self.add_indexed(OPEN_BY_VOLUME, change.key());
        }
    }

    fn node(&self, change: &Change<CSINode>) {
        let waited_for = self.attacher.attachments.has_indexed(OPEN_BY_NODE, change.key());
        if waited_for && requeue::node_helps(change) {
            self.add_indexed(OPEN_BY_NODE, change.key());
        }
    }

    /// A driver appeared, or answers again: all of its unfinished objects are queued.
    fn drivers_changed(&self) {
        for driver in self.attacher.drivers.all() {
            self.queues.of(driver.name());
            self.add_indexed(OPEN_BY_DRIVER, driver.name());
        }
        for volume in self.attacher.volumes.each_by_index(HELD, "") {
            self.volumes.add(volume.metadata.name.clone().unwrap_or_default());
        }
    }

    fn add_indexed(&self, index: &str, value: &str) {
        for attachment in self.attacher.attachments.each_by_index(index, value) {
            self.add(&attachment.spec.attacher, attachment.metadata.name.as_deref().unwrap_or_default());
        }
    }

    fn add(&self, driver: &str, name: &str) {
        if self.attacher.drivers.get(driver).is_some() {
            self.queues.of(driver).add(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
