//! Queues Jobs and orphans when pods change.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use orlop_client::informer::{Change, Informer, key_of};
use orlop_client::meta::is_terminating;
use orlop_client::queue::WorkQueue;

use super::conditions::is_finished;
use super::finalizers::RemovedFinalizers;
use super::pod_facts::{is_tracked, uid};
use crate::workload::expectations::Expectations;
use crate::workload::owned::{controller_of, former_owners, owner_key, wooers};

/// How long changes of pods and of the status are collected before a sync. Upstream: syncJobBatchPeriod.
pub const BATCH: Duration = Duration::from_secs(1);

/// The queues of the controller, and the changes that it expects.
#[derive(Clone)]
pub struct Wakeups {
    /// The Jobs to sync.
    pub queue: WorkQueue<String>,
    /// The pods whose finalizer to remove, because no Job counts them.
    pub orphans: WorkQueue<String>,
    /// The creations and deletions that the cache does not show yet.
    pub expectations: Arc<Expectations>,
    /// The finalizers that the cache still shows.
    pub removed: Arc<RemovedFinalizers>,
}

impl Wakeups {
    /// Records the observed change, and queues the Jobs that control the pod, controlled it, or may adopt it.
    pub fn pod_changed(&self, change: &Change<Pod>, jobs: &Informer<Job>) {
        let gone = change.gone_uid().map(ToString::to_string);
        for key in former_owners(change, jobs) {
            self.expectations.deleted(&key, change.key());
            if let Some(gone) = &gone {
                self.removed.observed(&key, gone);
            }
            if let Some(pod) = change.new.as_deref().filter(|pod| !is_tracked(pod)) {
                self.removed.observed(&key, uid(pod));
            }
            self.queue.add_after(key, BATCH);
        }
        let Some(pod) = change.new.as_deref() else { return };
        let owner = owner_key(jobs, &pod.metadata);
        if is_terminating(pod) {
            let owner = owner.filter(|key| jobs.get(key).is_some_and(|job| !is_finished(&job)));
            // The pods of other controllers have no such finalizer.
            return match owner {
                Some(key) => {
                    self.expectations.deleted(&key, change.key());
                    self.observe(&key, pod);
                }
                None => self.queue_orphan(pod),
            };
        }
        if let Some(key) = owner {
            if change.is_new() || change.replaced() {
                self.expectations.created(&key);
            }
            return self.observe(&key, pod);
        }
        if controller_of(&pod.metadata).is_some() {
            return;
        }
        self.queue_orphan(pod);
        let may_matter = change.is_new()
            || change.replaced()
            || change.old().is_some_and(|old| {
                old.metadata.labels != pod.metadata.labels || controller_of(&old.metadata).is_some()
            });
        if may_matter {
            wooers(pod, jobs).into_iter().for_each(|key| self.queue.add_after(key, BATCH));
        }
    }

    fn observe(&self, key: &str, pod: &Pod) {
        if !is_tracked(pod) {
            self.removed.observed(key, uid(pod));
        }
        self.queue.add_after(key.to_owned(), BATCH);
    }

    /// Queues a pod if it has the finalizer.
    pub fn queue_orphan(&self, pod: &Pod) {
        if is_tracked(pod) {
            self.orphans.add(key_of(pod));
        }
    }
}
