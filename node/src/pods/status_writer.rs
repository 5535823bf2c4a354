//! Writes the status of one pod, only when it changes, and retries until it is written. The worker of the pod
//! waits only for the last write.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Patch, PatchParams};
use orlop_apimachinery::clock::Backoff;
use orlop_client::api::Api;
use orlop_client::client::{is_conflict, is_not_found};
use tokio::sync::watch;

use super::context::ObservedPod;
use super::facts::PodFacts;
use super::status;
use orlop_volume::crash_points;

/// First and longest delay after a failure.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Immediate retries after a conflict with another writer.
const AT_ONCE: u32 = 5;

/// Reports the status of one pod.
pub(super) struct StatusWriter {
    wish: watch::Sender<Option<(u64, Arc<PodFacts>)>>,
    written: watch::Receiver<u64>,
}

impl StatusWriter {
    /// Returns the writer and the future that writes, which must run beside the worker of the pod.
    pub(super) fn new(
        client: Client,
        seen: watch::Receiver<ObservedPod>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let wish = watch::Sender::new(None);
        let (done, written) = watch::channel(0);
        let writer = WriteTask { client, seen, base: None };
        let writing = writer.run(wish.subscribe(), done);
        (Self { wish, written }, writing)
    }

    /// Reports the current facts. They replace a report that is not written yet.
    pub(super) fn tell(&self, facts: PodFacts) {
        let facts = Arc::new(facts);
        self.wish.send_modify(|wish| {
            let number = wish.as_ref().map_or(1, |(number, _)| number + 1);
            *wish = Some((number, facts));
        });
    }

    /// Waits until the last report is written, or the pod is deleted.
    pub(super) async fn written(&mut self) {
        let number = self.wish.borrow().as_ref().map_or(0, |(number, _)| *number);
        // The write task lives as long as the worker of the pod.
        let _ = self.written.wait_for(|written| *written >= number).await;
    }
}

struct WriteTask {
    client: Client,
    seen: watch::Receiver<ObservedPod>,
    /// The latest version that a response returned.
    base: Option<Arc<Pod>>,
}

/// How an attempt ended.
enum WriteOutcome {
    Written,
    Gone,
}

impl WriteTask {
    async fn run(
        mut self,
        mut wish: watch::Receiver<Option<(u64, Arc<PodFacts>)>>,
        written: watch::Sender<u64>,
    ) {
        let mut waits = Backoff::new(WAITS.0, WAITS.1);
        let mut failing = false;
        loop {
            let now = wish.borrow_and_update().clone();
            if let Some((number, facts)) = now {
                // Boxed because the future of a request is large and requests are rare.
                match Box::pin(self.write(&facts)).await {
                    Ok(WriteOutcome::Written) => {
                        waits.reset();
                        failing = false;
                        written.send_replace(number);
                    }
                    Ok(WriteOutcome::Gone) => {
                        // The pod is deleted: no later report is written either.
                        written.send_replace(u64::MAX);
                        return;
                    }
                    Err(error) => {
                        let pod = self.newest().map(|pod| crate::volume::PodKey::of(&pod).to_string());
                        if failing {
                            tracing::debug!(pod, %error, "the status of a pod is not written");
                        } else {
                            tracing::warn!(pod, %error, "the status of a pod is not written, will be tried until it is");
                        }
                        failing = true;
                        tokio::select! {
                            () = tokio::time::sleep(waits.advance()) => {}
                            changed = wish.changed() => if changed.is_err() { return },
                        }
                        continue;
                    }
                }
            }
            tokio::select! {
                changed = wish.changed() => if changed.is_err() { return },
                () = self.rest() => {}
            }
        }
    }

    /// Drops `base` as soon as the watch has delivered that version, so that no pod is cached twice. Never returns.
    async fn rest(&mut self) {
        let Some(base) = self.base.as_deref().and_then(version) else { return std::future::pending().await };
        let has_come =
            |seen: &ObservedPod| seen.pod.as_deref().and_then(version).is_some_and(|seen| seen >= base);
        if self.seen.wait_for(has_come).await.is_ok() {
            self.base = None;
        }
        std::future::pending().await
    }

    /// The latest known version of the pod.
    fn newest(&self) -> Option<Arc<Pod>> {
        let seen = self.seen.borrow().pod.clone();
        match (seen, &self.base) {
            (Some(seen), Some(base)) if version(base) > version(&seen) => Some(Arc::clone(base)),
            (Some(seen), _) => Some(seen),
            (None, base) => base.clone(),
        }
    }

    async fn write(&mut self, facts: &PodFacts) -> Result<WriteOutcome, kube::Error> {
        let mut attempt = 0;
        loop {
            if self.seen.borrow().is_gone {
                return Ok(WriteOutcome::Gone);
            }
            let Some(pod) = self.newest() else { return Ok(WriteOutcome::Gone) };
            let new = status::status(&pod, facts);
            let Some(patch) = status::patch(&pod, &new) else { return Ok(WriteOutcome::Written) };
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let stage = format!("status of pod, {:?}", facts.stage);
            crash_points::reached(&format!("before {stage}"), name);
            let written = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            crash_points::reached(&format!("after {stage}"), name);
            match written {
                Ok(written) => {
                    self.base = Some(Arc::new(written));
                    return Ok(WriteOutcome::Written);
                }
                Err(error) if is_not_found(&error) => return Ok(WriteOutcome::Gone),
                Err(error) if is_conflict(&error) && attempt < AT_ONCE => attempt += 1,
                Err(error) => return Err(error),
            }
            match api.get_opt(name).await? {
                Some(fresh) if fresh.metadata.uid == pod.metadata.uid => {
                    self.base = Some(Arc::new(fresh));
                }
                Some(_) | None => return Ok(WriteOutcome::Gone),
            }
        }
    }
}

fn version(pod: &Pod) -> Option<u64> {
    pod.metadata.resource_version.as_deref()?.parse().ok()
}
