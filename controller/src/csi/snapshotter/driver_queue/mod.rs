//! The controller that requests snapshots from drivers: one queue per driver that supports snapshots. Decisions are in
//! [`super::content`], calls in `calls`. Contents that wait for a class are queued when the class appears; contents that a driver
//! refused, or has not finished, are retried with a delay.

use std::sync::Arc;

use futures::future::{BoxFuture, join};
use kube::Client;
use orlop_csi::capabilities::Rpc;
use orlop_csi::driver::Driver;

use super::content::{self, Step};
use super::error::CallFailure;
use super::steps::read_content;
use crate::context::{Context, ControllerError};
use crate::csi::driver_queue;
use crate::snapshot::{VolumeSnapshotClass, VolumeSnapshotContent};
use orlop_apimachinery::clock::Clock;
use orlop_client::informer::{Change, Informer};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::Recorder;
use orlop_client::worker;
use orlop_csi::drivers::Drivers;

/// More steps per sync than any content needs.
const STEPS: usize = 8;
/// Index of contents that are not ready by their class.
const INDEX_CLASS: &str = "snapshot-content-class";
/// Index of contents by the handle of their snapshot.
const INDEX_HANDLE: &str = "snapshot-content-handle";

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let (contents, classes) =
            (context.informers.of::<VolumeSnapshotContent>(), context.informers.of::<VolumeSnapshotClass>());
        contents.add_index(INDEX_CLASS, |content| {
            let class = content.spec.volume_snapshot_class_name.clone();
            class.filter(|_| !content::is_ready(content)).into_iter().collect()
        });
        contents.add_index(INDEX_HANDLE, |content| content::handle(content).into_iter().collect());
        if !context.ready(join(contents.synced(), classes.synced())).await {
            return Ok(());
        }
        driver_queue::run(&context, |context, driver| {
            serve(context, driver, contents.clone(), classes.clone())
        })
        .await;
        Ok(())
    })
}

/// One snapshotter.
async fn serve(
    context: Context,
    driver: Driver,
    contents: Informer<VolumeSnapshotContent>,
    classes: Informer<VolumeSnapshotClass>,
) {
    if !driver.can().can(Rpc::CreateDeleteSnapshot) {
        return;
    }
    let name = driver.name().to_owned();
    let queue = WorkQueue::new(driver_queue::RETRY);
    let snapshotter = Snapshotter {
        client: context.client.clone(),
        drivers: context.drivers.clone(),
        clock: context.clock,
        recorder: context.recorder(format!("csi-snapshotter {name}")),
        name: name.clone(),
        contents,
        classes,
    };
    let _contents = snapshotter.contents.add_handler({
        let (queue, name) = (queue.clone(), name.clone());
        move |change: &Change<VolumeSnapshotContent>| {
            let Some(new) = change.new.as_deref().filter(|content| content.spec.driver == name) else {
                return;
            };
            let matters = change.replaced() || change.old().is_none_or(|old| content::matters(old, new));
            if matters {
                queue.add(change.key().to_string());
            }
        }
    });
    let _classes = snapshotter.classes.add_handler({
        let (queue, contents) = (queue.clone(), snapshotter.contents.clone());
        move |change: &Change<VolumeSnapshotClass>| {
            for content in contents.each_by_index(INDEX_CLASS, change.key()) {
                if content.spec.driver == name {
                    queue.add(content.metadata.name.clone().unwrap_or_default());
                }
            }
        }
    });
    worker::run_until(
        &context.shutdown,
        &queue,
        driver_queue::WORKERS,
        context.syncs::<VolumeSnapshotContent, _>(controller::CSI_SNAPSHOTTER),
        |key| snapshotter.sync(key),
    )
    .await;
}

/// One driver's snapshotter.
pub(super) struct Snapshotter {
    pub(super) client: Client,
    pub(super) drivers: Drivers,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    /// The driver's name.
    pub(super) name: String,
    contents: Informer<VolumeSnapshotContent>,
    pub(super) classes: Informer<VolumeSnapshotClass>,
}

impl Snapshotter {
    /// Another content of this driver with the same snapshot, which is not being deleted with it. Otherwise two contents
    /// that are both deleted would protect each other for ever.
    pub(super) fn other_content(&self, name: &str, snapshot: &str) -> Option<Arc<VolumeSnapshotContent>> {
        let mut with = self.contents.each_by_index(INDEX_HANDLE, snapshot);
        with.find(|content| {
            let is_other = content.metadata.name.as_deref().is_some_and(|other| other != name);
            content.spec.driver == self.name && is_other && !content::deletes_snapshot(content)
        })
    }

    async fn sync(&self, key: String) -> Result<(), CallFailure> {
        let Some(cached) = self.contents.get(&key) else { return Ok(()) };
        if cached.spec.driver != self.name || content::next(&cached) == Step::Nothing {
            return Ok(());
        }
        // Read again before a driver is called: the cache may be stale, and a snapshot for a deleted content would never be
        // deleted.
        let Some(mut content) = read_content(&self.client, &key).await? else { return Ok(()) };
        for _ in 0..STEPS {
            content = match content::next(&content) {
                Step::Nothing => return Ok(()),
                Step::Create { name, volume } => self.create(content, name, volume).await?,
                Step::Check { snapshot } => self.check(content, &snapshot).await?,
                Step::Unmark => self.unmark(&content).await?,
                Step::Delete { snapshot } => {
                    self.delete(&content, snapshot).await?;
                    return self.release(&content).await;
                }
                Step::Release => return self.release(&content).await,
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
