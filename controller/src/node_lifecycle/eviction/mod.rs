//! Deletes pods that do not tolerate a NoExecute taint of their node: immediately, or when their toleration time
//! is over. [`fate`] decides, this module acts. Only pods of nodes with changed taints are examined.
//!
//! A pod's toleration time counts from when this controller first saw the pod on the tainted node, as in
//! upstream: after a restart, no pod is evicted for time in which no node could be observed.

pub mod fate;

use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::future::{BoxFuture, join};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use orlop_client::api::Api;
use serde_json::json;
use tokio::time::Instant;

use self::fate::EvictionDecision;
use crate::context::{Context, ControllerError};
use orlop_apimachinery::clock::Clock;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::meta::whole_seconds;
use orlop_client::names::{condition, controller, reason};
use orlop_client::pods::{INDEX_NODE, index_by_node, node_name};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::uid::Uid;
use orlop_client::worker;

/// Upstream: UpdateWorkerSize.
const WORKERS: usize = 8;

/// Why a pod could not be evicted; the queue retries.
#[derive(Debug, thiserror::Error)]
pub enum EvictionError {
    /// The pod's condition could not be written.
    #[error("cannot write on pod {key} that it is driven off: {cause}")]
    Mark {
        /// The pod.
        key: String,
        /// The API error.
        cause: kube::Error,
    },
    /// The server rejected the deletion.
    #[error("cannot delete pod {key}: {cause}")]
    Delete {
        /// The pod.
        key: String,
        /// The API error.
        cause: kube::Error,
    },
}

/// Runs the taint eviction controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let this = Arc::new(Evictor {
            client: context.client.clone(),
            clock: context.clock,
            events: context.recorder(controller::TAINT_EVICTION),
            nodes: context.informers.nodes(),
            pods: context.informers.pods(),
            tainted: RwLock::default(),
            counting: Mutex::default(),
            queue: WorkQueue::new(context.options.rate_limit),
        });
        index_by_node(&this.pods);
        let (of_nodes, of_pods) = (Arc::clone(&this), Arc::clone(&this));
        let _nodes = this.nodes.add_handler(move |change| of_nodes.node_changed(change));
        let _pods = this.pods.add_handler(move |change| of_pods.pod_changed(change));
        if !context.ready(join(this.nodes.synced(), this.pods.synced())).await {
            return Ok(());
        }
        worker::run_until(
            &context.shutdown,
            &this.queue,
            WORKERS,
            context.syncs::<Pod, _>(controller::TAINT_EVICTION),
            |key: String| {
                let this = &this;
                async move { this.sync(&key).await }
            },
        )
        .await;
        Ok(())
    })
}

struct Evictor {
    client: Client,
    clock: Clock,
    events: Recorder,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    /// Nodes with taints that evict pods.
    tainted: RwLock<HashSet<String>>,
    /// Pods with a running toleration time.
    counting: Mutex<HashMap<String, Count>>,
    queue: WorkQueue<String>,
}

struct Count {
    uid: Uid,
    since: Instant,
    /// Whether the event for the deletion was recorded.
    announced: bool,
    /// Whether the pod was deleted, but the watch has not delivered the deletion yet.
    deleted: bool,
}

impl Evictor {
    fn node_changed(&self, change: &Change<Node>) {
        let name = &**change.key();
        let taints = change.new.as_deref().map(fate::driving_off).unwrap_or_default();
        let same = change.old().is_some_and(|old| fate::driving_off(old) == taints);
        if same && !change.is_gone() && !change.replaced() {
            return;
        }
        {
            let mut tainted = self.tainted.write();
            if taints.is_empty() {
                if !tainted.remove(name) {
                    return;
                }
            } else {
                tainted.insert(name.to_owned());
            }
        }
        // After the update of the set: a pod that arrives now is queued by its own event or by this loop.
        self.pods.indexed_keys(INDEX_NODE, name, "").iter().for_each(|key| self.queue.add(key.to_string()));
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        let key = &**change.key();
        let node = change.new.as_deref().and_then(node_name);
        let tainted = || self.tainted.read();
        if node.is_some_and(|node| tainted().contains(node)) || self.counting().contains_key(key) {
            self.queue.add(key.to_owned());
        }
    }

    async fn sync(&self, key: &str) -> Result<(), EvictionError> {
        let Some(pod) = self.pods.get(key).filter(|pod| !is_terminating(pod.as_ref())) else {
            self.cancel(key, None);
            return Ok(());
        };
        // The pod garbage collector deletes the pods of a missing node.
        let node = node_name(&pod).and_then(|name| self.nodes.get(name));
        let taints = node.as_deref().map(fate::driving_off).unwrap_or_default();
        let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
        let EvictionDecision::Goes(after) = fate::of(&taints, tolerations) else {
            self.cancel(key, Some(&pod));
            return Ok(());
        };
        let left = after.saturating_sub(self.since(key, &pod).elapsed());
        if !left.is_zero() {
            self.queue.add_after(key.to_owned(), left);
            return Ok(());
        }
        if self.counting().get(key).is_some_and(|count| count.deleted) {
            return Ok(());
        }
        if self.is_first(key) {
            tracing::info!(
                pod = key,
                "the pod does not tolerate a taint of its node any longer, it is deleted"
            );
            let message = format!("Marking for deletion Pod {key}");
            self.events.event(pod.as_ref(), EventType::Normal, reason::TAINT_MANAGER_EVICTION, message);
        }
        self.mark_and_delete(key, &pod).await
    }

    /// The start of the pod's toleration time.
    fn since(&self, key: &str, pod: &Pod) -> Instant {
        let uid = Uid::from(pod.metadata.uid.as_deref().unwrap_or_default());
        let mut counting = self.counting();
        let fresh = |uid| Count { uid, since: Instant::now(), announced: false, deleted: false };
        let count = counting.entry(key.to_owned()).or_insert_with(|| fresh(uid.clone()));
        if count.uid != uid {
            *count = fresh(uid);
        }
        count.since
    }

    /// Whether this is the first announcement of the pod's deletion.
    fn is_first(&self, key: &str) -> bool {
        self.counting().get_mut(key).is_some_and(|count| !std::mem::replace(&mut count.announced, true))
    }

    /// Cancels the eviction of a pod. `pod` is `None` if the pod is missing or already terminating.
    fn cancel(&self, key: &str, pod: Option<&Pod>) {
        let Some(count) = self.counting().remove(key) else { return };
        if let Some(pod) = pod.filter(|_| !count.announced) {
            let message = format!("Cancelling deletion of Pod {key}");
            self.events.event(pod, EventType::Normal, reason::TAINT_MANAGER_EVICTION, message);
        }
    }

    /// Records the reason in the pod's condition, then deletes the pod. If the second write fails, the next sync
    /// repeats it.
    async fn mark_and_delete(&self, key: &str, pod: &Pod) -> Result<(), EvictionError> {
        let (namespace, name) = split_key(key);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        if let Some(conditions) = doomed(pod, self.clock.now()) {
            let patch = json!({
                "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
                "status": {"conditions": conditions},
            });
            match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => {}
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(cause) => return Err(EvictionError::Mark { key: key.to_owned(), cause }),
            }
        }
        let this_one = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        match api.delete(name, &DeleteParams::default().preconditions(this_one)).await {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => return Ok(()),
            // Includes conflicts: if another pod has this name by now, the next sync examines that pod.
            Err(cause) => return Err(EvictionError::Delete { key: key.to_owned(), cause }),
        }
        if let Some(count) = self.counting().get_mut(key) {
            count.deleted = true;
        }
        Ok(())
    }

    fn counting(&self) -> MutexGuard<'_, HashMap<String, Count>> {
        self.counting.lock()
    }
}

/// The pod's conditions with the one that records the reason for the deletion; `None` if it is already present.
fn doomed(pod: &Pod, now: jiff::Timestamp) -> Option<Vec<PodCondition>> {
    let mut conditions = pod.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let reason = Some(condition::DELETION_BY_TAINT_MANAGER);
    let says = |c: &PodCondition| c.type_ == condition::DISRUPTION_TARGET;
    if conditions.iter().any(|c| says(c) && c.status == "True" && c.reason.as_deref() == reason) {
        return None;
    }
    conditions.retain(|c| !says(c));
    conditions.push(PodCondition {
        type_: condition::DISRUPTION_TARGET.to_owned(),
        status: "True".to_owned(),
        reason: reason.map(str::to_owned),
        message: Some("Taint manager: deleting due to NoExecute taint".to_owned()),
        last_transition_time: Some(whole_seconds(now)),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    });
    Some(conditions)
}
