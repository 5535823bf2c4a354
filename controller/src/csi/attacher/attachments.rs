//! Reconciles one attachment: reads the objects, asks [`decide`](super::decide) for the next step, performs it, and repeats
//! until no step is left or one fails. A failure is recorded in the attachment's status.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use orlop_csi::driver::Driver;
use orlop_csi::error::Code;

use super::decide::{Publish, Step, Unpublish, View, decide, is_ours, volume_name};
use super::error::{Failure, RecordedError};
use super::local_state::{Doubts, Latest, ReleasedVolumes};
use super::writes::{self, Writer, Written};
use orlop_apimachinery::clock::Clock;
use orlop_client::informer::Informer;
use orlop_client::meta::is_terminating;
use orlop_csi::drivers::Drivers;
use orlop_volume::csi::handle::attacher_finalizer;
use orlop_volume::csi::secrets;

/// Most steps of one sync. Volume, preparation and call, plus the same number again for concurrent writes.
const STEPS: usize = 8;

/// State shared by all syncs.
pub(super) struct Attacher {
    pub(super) writer: Writer,
    pub(super) attachments: Informer<VolumeAttachment>,
    pub(super) volumes: Informer<PersistentVolume>,
    pub(super) nodes: Informer<CSINode>,
    pub(super) drivers: Drivers,
    pub(super) clock: Clock,
    pub(super) latest: Latest,
    pub(super) released: ReleasedVolumes,
    pub(super) doubts: Doubts,
}

/// The objects that one sync works on.
struct SyncInput {
    attachment: Arc<VolumeAttachment>,
    volume: Option<Arc<PersistentVolume>>,
    node: Option<Arc<CSINode>>,
    /// Volume and node were read from the server because the caches were not sufficient.
    live: bool,
}

/// The next action after a step.
enum AfterStep {
    /// Decide again.
    Again,
    /// The sync is finished.
    End,
}

impl Attacher {
    /// Advances one attachment as far as possible.
    pub(super) async fn sync(&self, name: &str) -> Result<(), Failure> {
        let Some(attachment) = self.latest.get(&self.attachments, name) else { return Ok(()) };
        // Another process serves this driver.
        let Some(driver) = self.drivers.get(&attachment.spec.attacher) else { return Ok(()) };
        let mut seen = self.seen(attachment);
        let outcome = self.steps(name, &driver, &mut seen).await;
        if let Err(failure) = &outcome
            && let Some(error) = failure.recorded_error()
        {
            self.tell(&seen.attachment, &error).await;
        }
        outcome
    }

    /// Calls a function with the view that the caches give of an attachment.
    pub(super) fn with_view<T>(
        &self,
        attachment: Arc<VolumeAttachment>,
        driver: &Driver,
        look: impl FnOnce(&View<'_>) -> T,
    ) -> T {
        look(&self.seen(attachment).view(self, driver, false))
    }

    fn seen(&self, attachment: Arc<VolumeAttachment>) -> SyncInput {
        let volume = volume_name(&attachment).and_then(|name| self.volumes.get(name));
        let node = self.nodes.get(&attachment.spec.node_name);
        SyncInput { attachment, volume, node, live: false }
    }

    async fn steps(&self, name: &str, driver: &Driver, seen: &mut SyncInput) -> Result<(), Failure> {
        let doubt = self.doubts.take(name);
        for _ in 0..STEPS {
            let step = match decide(&seen.view(self, driver, doubt.is_some())) {
                Ok(step) => step,
                Err(refusal) if refusal.may_be_late() && !seen.live => {
                    self.look_closely(seen).await?;
                    continue;
                }
                Err(refusal) => return Err(refusal.into()),
            };
            let next = match step {
                Step::Rest => return Ok(()),
                Step::SayAttached => self.say_attached(seen).await?,
                Step::HoldVolume => self.hold_volume(seen).await?,
                Step::Publish(call) => {
                    let words = doubt.as_ref().and_then(|doubt| doubt.words.clone());
                    self.publish(driver, *call, words, seen).await?
                }
                Step::Unpublish(call) => self.unpublish(driver, *call, seen).await?,
                Step::RemoveFinalizer => self.release(seen).await?,
            };
            match next {
                AfterStep::Again => {}
                AfterStep::End => return Ok(()),
            }
        }
        Err(Failure::Busy)
    }

    /// Reads volume and node from the server: their events may arrive after the attachment's.
    async fn look_closely(&self, seen: &mut SyncInput) -> Result<(), Failure> {
        if let Some(name) = volume_name(&seen.attachment) {
            seen.volume = self.writer.volume(name).await?.map(Arc::new);
        }
        seen.node = self.writer.node(&seen.attachment.spec.node_name).await?.map(Arc::new);
        seen.live = true;
        Ok(())
    }

    async fn say_attached(&self, seen: &mut SyncInput) -> Result<AfterStep, Failure> {
        let status = |now: &VolumeAttachment| writes::attached(now, &Default::default(), None);
        let written = self.writer.status(&seen.attachment, status).await?;
        Ok(self.take(seen, written, AfterStep::End))
    }

    async fn hold_volume(&self, seen: &mut SyncInput) -> Result<AfterStep, Failure> {
        // The decision was about a volume, so one is expected here.
        let Some(volume) = &seen.volume else { return Ok(AfterStep::Again) };
        seen.volume = match self.writer.hold(volume, &seen.attachment.spec.attacher).await? {
            Written::Done(now) | Written::Changed(now) => Some(Arc::from(now)),
            Written::Gone => None,
        };
        Ok(AfterStep::Again)
    }

    async fn publish(
        &self,
        driver: &Driver,
        call: Publish,
        doubt: Option<String>,
        seen: &mut SyncInput,
    ) -> Result<AfterStep, Failure> {
        // Read before the attachment is marked: without a call there is nothing to undo.
        let secrets = secrets::read(self.writer.client(), call.secret.as_ref()).await?;
        if !call.written {
            match self.writer.prepare(&seen.attachment, &call.node_id).await? {
                // Recorded before the call: the call below may be lost or interrupted, and the next sync repeats it (I9).
                Written::Done(now) => self.remember(seen, *now),
                other => return Ok(self.take(seen, other, AfterStep::Again)),
            }
        }
        let answer = driver.controller_publish_volume(call.request(secrets)).await?;
        let context = answer.publish_context.into_iter().collect();
        let at = self.clock.now();
        let doubt = doubt.map(|message| writes::error(&RecordedError { message, code: None }, at));
        let status = |now: &VolumeAttachment| writes::attached(now, &context, doubt.clone());
        let written = self.writer.status(&seen.attachment, status).await?;
        Ok(self.take(seen, written, AfterStep::End))
    }

    async fn unpublish(
        &self,
        driver: &Driver,
        call: Unpublish,
        seen: &mut SyncInput,
    ) -> Result<AfterStep, Failure> {
        let secrets = secrets::read(self.writer.client(), call.secret.as_ref()).await?;
        let unlisted = call.unlisted;
        match driver.controller_unpublish_volume(call.request(secrets)).await {
            Ok(_) => {}
            // The driver no longer attaches volumes, according to its capabilities.
            Err(error) if unlisted && error.code == Code::Unimplemented => {}
            Err(error) => return Err(error.into()),
        }
        self.release(seen).await
    }

    /// The driver has detached the volume. The finalizer is removed before the status is written: in the other order, a crash
    /// in between would repeat the call.
    async fn release(&self, seen: &mut SyncInput) -> Result<AfterStep, Failure> {
        if is_ours(&seen.attachment) {
            match self.writer.remove_finalizer(&seen.attachment).await? {
                Written::Done(now) => self.remember(seen, *now),
                Written::Changed(now) => {
                    self.remember(seen, *now);
                    return Ok(AfterStep::Again);
                }
                Written::Gone => return Ok(AfterStep::End),
            }
        }
        // The response to the write that removes the last finalizer may still show that finalizer.
        let own = attacher_finalizer(&seen.attachment.spec.attacher);
        if !seen.attachment.metadata.finalizers.iter().flatten().any(|finalizer| *finalizer != own) {
            return Ok(AfterStep::End);
        }
        let written = self.writer.status(&seen.attachment, |_| writes::detached()).await?;
        Ok(self.take(seen, written, AfterStep::End))
    }

    /// Continues with the result of a write.
    fn take(
        &self,
        seen: &mut SyncInput,
        written: Written<VolumeAttachment>,
        when_done: AfterStep,
    ) -> AfterStep {
        match written {
            Written::Done(now) => {
                self.remember(seen, *now);
                when_done
            }
            Written::Changed(now) => {
                self.remember(seen, *now);
                AfterStep::Again
            }
            Written::Gone => AfterStep::End,
        }
    }

    fn remember(&self, seen: &mut SyncInput, now: VolumeAttachment) {
        self.latest.put(&self.attachments, now.clone());
        seen.attachment = Arc::new(now);
    }

    /// Records a failure on the attachment. If that write fails too, the original failure still requeues the key.
    async fn tell(&self, attachment: &VolumeAttachment, failure: &RecordedError) {
        let at = self.clock.now();
        let written = self.writer.status(attachment, |now| writes::failed(now, failure, at)).await;
        let key = attachment.metadata.name.as_deref().unwrap_or_default();
        match written {
            Ok(Written::Done(now)) => self.latest.put(&self.attachments, *now),
            Ok(Written::Changed(_) | Written::Gone) => {}
            Err(error) => tracing::debug!(attachment = key, %error, "cannot record a failure"),
        }
        let going = is_terminating(attachment);
        tracing::info!(
            attachment = key,
            going,
            why = failure.message,
            "attachment: failed, will be tried again"
        );
    }
}

impl SyncInput {
    fn view<'a>(&'a self, attacher: &Attacher, driver: &'a Driver, doubted: bool) -> View<'a> {
        let volume = self.volume.as_deref();
        View {
            attachment: &self.attachment,
            volume,
            volume_released: attacher.released.has(volume.and_then(|volume| volume.metadata.uid.as_deref())),
            node: self.node.as_deref(),
            can: driver.can(),
            doubted,
        }
    }
}

/// One volume: its finalizer is removed when nothing is attached and nothing will be.
impl Attacher {
    /// Name of the index of attachments by volume.
    pub(super) const BY_VOLUME: &'static str = "csi-attacher/volume";
    /// Name of the index of attachments by driver.
    pub(super) const BY_DRIVER: &'static str = "csi-attacher/driver";

    /// Removes the finalizers that are no longer needed.
    pub(super) async fn sync_volume(&self, name: &str) -> Result<(), Failure> {
        for driver in self.drivers.all() {
            let Some(volume) = self.volumes.get(name) else { return Ok(()) };
            let uid = volume.metadata.uid.as_deref();
            let may = |attached| super::decide::may_release_volume(&volume, driver.name(), attached);
            if !may(false) {
                continue;
            }
            // The mark precedes the check: an attachment that the check misses finds the mark.
            if is_terminating(volume.as_ref()) {
                self.released.put(uid);
            }
            if !may(self.attachments.has_indexed(Self::BY_VOLUME, name)) {
                self.released.forget(&uid.unwrap_or_default().into());
                continue;
            }
            match self.writer.remove_volume_finalizer(&volume, driver.name()).await? {
                Written::Done(_) | Written::Gone => {}
                Written::Changed(_) => return Err(Failure::Busy),
            }
        }
        Ok(())
    }
}
