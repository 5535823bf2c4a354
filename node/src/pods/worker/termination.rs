//! Ends a pod: stops its containers, releases its volumes, and writes the last status. Deletes the object when it has a deletion time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Preconditions};
use orlop_apimachinery::clock::Backoff;
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::recorder::EventType;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::active_deadline;
use super::super::context::ObservedPod;
use super::super::facts::PodStage;
use super::{COMPLAIN_AFTER, EndReason, WAITS, Worker, changed};
use crate::volumes::{PodVolumes, left_words};
use orlop_volume::crash_points;

/// How long the volumes of an ended pod may take to unmount before the first event.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);
/// The grace period of evicted pods (upstream: immediateEvictionGracePeriodSeconds).
const EVICTION_GRACE: Duration = Duration::from_secs(1);
/// Reason of the event for volumes of an ended pod that are still mounted (upstream: events.FailedUnMountVolume).
const FAILED_UNMOUNT: &str = "FailedUnMount";
/// The grace period of pods without one.
const GRACE: i64 = 30;

/// The grace period of a pod.
fn grace_of(pod: Option<&Pod>) -> Duration {
    let seconds = pod.and_then(|pod| {
        let asked = pod.metadata.deletion_grace_period_seconds;
        asked.or_else(|| pod.spec.as_ref()?.termination_grace_period_seconds)
    });
    // Upstream uses at least one second.
    Duration::from_secs(u64::try_from(seconds.unwrap_or(GRACE)).unwrap_or(0).max(1))
}

/// Waits until the grace period of a pod gets shorter.
async fn shorter(seen: &mut watch::Receiver<ObservedPod>, grace: Duration) -> Duration {
    loop {
        let now = grace_of(seen.borrow_and_update().pod.as_deref());
        if now < grace {
            return now;
        }
        if seen.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

impl Worker {
    /// Stops the containers, releases the volumes, and reports the end.
    pub(super) async fn end(&mut self, end: EndReason) {
        let mut grace = grace_of(self.pod().as_deref());
        match end {
            EndReason::Asked | EndReason::Reported | EndReason::Finished => {}
            EndReason::Refused(verdict) => {
                self.event(
                    EventType::Warning,
                    &verdict.reason,
                    verdict.message.trim_start_matches("Pod was rejected: "),
                );
                self.verdict = Some(verdict);
                self.tell(PodStage::Making);
                grace = EVICTION_GRACE;
            }
            EndReason::Evicted(verdict) => {
                self.event(EventType::Warning, &verdict.reason, verdict.message.as_str());
                self.verdict = Some(verdict);
                grace = EVICTION_GRACE;
            }
            EndReason::Late => {
                let verdict = active_deadline::verdict();
                self.event(EventType::Normal, &verdict.reason, verdict.message.as_str());
                self.verdict = Some(verdict);
            }
        }
        self.stop(grace).await;
        self.shared.admitted.remove(&self.uid);
        self.tell(PodStage::Stopping);
        self.release().await;
        self.tell(PodStage::Over);
    }

    /// Stops the containers, with retries, until none runs or uses a volume.
    async fn stop(&mut self, mut grace: Duration) {
        let (runtime, uid) = (Arc::clone(&self.shared.runtime), self.uid.clone());
        let mut waits = Backoff::new(WAITS.0, WAITS.1);
        let mut state = runtime.state(&uid);
        'again: loop {
            let stopping = runtime.stop(&uid, grace);
            tokio::pin!(stopping);
            let error = loop {
                tokio::select! {
                    stopped = &mut stopping => match stopped {
                        Ok(()) => return,
                        Err(error) => break error,
                    },
                    () = changed(state.as_mut()) => self.tell(PodStage::Stopping),
                    less = shorter(&mut self.seen, grace) => {
                        grace = less;
                        continue 'again;
                    }
                }
            };
            tracing::warn!(%error, "a pod is not stopped, will be tried until it is");
            tokio::time::sleep(waits.advance()).await;
        }
    }

    /// Releases the volumes and waits until all are unmounted.
    async fn release(&mut self) {
        self.shared.volumes.release(&self.uid);
        let mut complain_at = Instant::now() + RELEASE_PATIENCE;
        let mut reported = BTreeMap::new();
        loop {
            let mut volumes = self.shared.volumes.state(&self.uid);
            let now = volumes.borrow_and_update().clone();
            let left = match now {
                PodVolumes::Released => return,
                PodVolumes::Releasing(left) => left,
                PodVolumes::Waiting(_) | PodVolumes::Ready(_) => Vec::new(),
            };
            // An operation in progress is reported only if it takes long, below.
            for one in left.iter().filter(|one| !one.is_running) {
                let Some(why) = one.cause.as_ref().filter(|why| reported.get(&one.volume) != Some(*why))
                else {
                    continue;
                };
                reported.insert(one.volume.clone(), why.clone());
                let text = format!("UnmountVolume.TearDown failed for volume {:?} : {why}", one.volume);
                self.event(EventType::Warning, FAILED_UNMOUNT, text);
            }
            tokio::select! {
                // The sender is dropped when everything is released.
                _ = volumes.changed() => {}
                () = tokio::time::sleep_until(complain_at) => {
                    complain_at = Instant::now() + COMPLAIN_AFTER;
                    let left = left_words(&left);
                    tracing::warn!(uid = self.uid, left, "volumes of a pod that has ended are still here");
                    let text = format!("Unable to unmount volumes of the pod, which has ended: {left}");
                    self.event(EventType::Warning, FAILED_UNMOUNT, text);
                }
            }
        }
    }

    /// Deletes the object when it has a deletion time, and waits until the API server has removed it. The node has released
    /// everything before.
    pub(super) async fn depart(&mut self) {
        let mut waits = Backoff::new(WAITS.0, WAITS.1);
        let mut asked = false;
        loop {
            let seen = self.seen.borrow_and_update().clone();
            let Some(pod) = seen.pod.filter(|_| !seen.is_gone) else { return };
            if pod.metadata.deletion_timestamp.is_some() && !asked {
                tokio::select! {
                    () = self.reporter.written() => {}
                    () = gone(&mut self.seen) => return,
                }
                match self.delete(&pod).await {
                    Ok(()) => asked = true,
                    Err(error) => {
                        tracing::warn!(uid = self.uid, %error, "a pod that has ended is not deleted, will be tried until it is");
                        tokio::select! {
                            () = tokio::time::sleep(waits.advance()) => {}
                            () = gone(&mut self.seen) => return,
                        }
                        continue;
                    }
                }
            }
            if self.seen.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn delete(&self, pod: &Pod) -> Result<(), kube::Error> {
        let api: Api<Pod> = Api::namespaced(
            self.shared.host.client.clone(),
            pod.metadata.namespace.as_deref().unwrap_or_default(),
        );
        let preconditions = Preconditions { uid: Some(self.uid.clone()), resource_version: None };
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        crash_points::reached("before deletion of pod", name);
        let deleted = api.delete(name, &parameters).await;
        crash_points::reached("after deletion of pod", name);
        match deleted {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            // Another pod has the name, and the watch will report that this one is deleted; or another client wrote at the
            // same time.
            Err(error) => Err(error),
        }
    }
}

/// Waits until the API server has removed the pod.
async fn gone(seen: &mut watch::Receiver<ObservedPod>) {
    if seen.wait_for(|seen| seen.is_gone).await.is_err() {
        std::future::pending().await
    }
}
