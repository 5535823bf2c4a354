//! Runs the controllers of ReplicaSets and ReplicationControllers: queues sets on changes and performs the
//! syncs. Updates and deletions are conditional on the observed object; [`Expectations`] track pods in flight,
//! so that no pod is created twice.

use std::sync::Arc;

use futures::future::{BoxFuture, join};
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::Client;

use super::decide::{Act, decide, is_same_status, status, wanted};
use super::kind::Replicated;
use crate::context::{Context, ControllerError};
use crate::workload::adopt::claim;
use crate::workload::error::WorkloadError;
use crate::workload::expectations::Expectations;
use crate::workload::owned::{
    Adopter, INDEX_CONTROLLER, candidate_pods, controller_of, controller_reference, former_owners,
    index_by_controller, index_owners, is_controlled, owner_key, owner_value, selector_of, wooers,
};
use crate::workload::pod_control::PodControl;
use crate::workload::ready::{is_active, is_leaving, next_available};
use crate::workload::replica::replica;
use crate::workload::template::pod_from;
use crate::workload::writes::write_status;
use orlop_apimachinery::clock::Clock;
use orlop_client::informer::{Change, Informer, key_of, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::Recorder;
use orlop_client::time_slice::TimeSlice;
use orlop_client::worker;

/// Runs the ReplicaSet controller.
pub fn replica_sets(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(run::<ReplicaSet>(context))
}

/// Runs the ReplicationController controller.
pub fn replication_controllers(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(run::<ReplicationController>(context))
}

async fn run<K: Replicated>(context: Context) -> Result<(), ControllerError> {
    let queue = WorkQueue::new(context.options.rate_limit);
    let this = Manager::<K> {
        client: context.client.clone(),
        sets: context.informers.of(),
        pods: context.informers.pods(),
        expectations: Arc::default(),
        queue: queue.clone(),
        recorder: context.recorder(K::COMPONENT),
        clock: context.clock,
    };
    index_owners(&this.sets);
    index_by_controller(&this.sets);
    let _sets = this.sets.add_handler({
        let queue = queue.clone();
        move |change: &Change<K>| queue.add(change.key().to_string())
    });
    let _pods = this.pods.add_handler({
        let (queue, expectations, sets) = (queue.clone(), Arc::clone(&this.expectations), this.sets.clone());
        move |change: &Change<Pod>| pod_changed(change, &sets, &expectations, &queue)
    });
    if !context.ready(join(this.sets.synced(), this.pods.synced())).await {
        return Ok(());
    }
    let workers = K::workers(&context.options);
    worker::run_until(&context.shutdown, &queue, workers, context.syncs::<K, _>(K::CONTROLLER), |key| {
        this.sync(key)
    })
    .await;
    Ok(())
}

/// Removes the change from the expectations, and queues the sets that control the pod, controlled it, or may
/// adopt it.
pub(crate) fn pod_changed<K: Adopter>(
    change: &Change<Pod>,
    sets: &Informer<K>,
    expectations: &Expectations,
    queue: &WorkQueue<String>,
) {
    if sets.is_empty() {
        return;
    }
    for key in former_owners(change, sets) {
        expectations.deleted(&key, change.key());
        queue.add(key);
    }
    let Some(pod) = change.new.as_deref() else { return };
    if let Some(key) = owner_key(sets, &pod.metadata) {
        if is_terminating(pod) {
            expectations.deleted(&key, change.key());
        } else if change.is_new() || change.replaced() {
            expectations.created(&key);
        }
        return queue.add(key.to_string());
    }
    let may_matter = change.is_new()
        || change.replaced()
        || change.old().is_some_and(|old| {
            old.metadata.labels != pod.metadata.labels || controller_of(&old.metadata).is_some()
        });
    if may_matter && !is_terminating(pod) {
        wooers(pod, sets).into_iter().for_each(|key| queue.add(key));
    }
}

struct Manager<K> {
    client: Client,
    sets: Informer<K>,
    pods: Informer<Pod>,
    expectations: Arc<Expectations>,
    queue: WorkQueue<String>,
    recorder: Recorder,
    clock: Clock,
}

impl<K: Replicated> Manager<K> {
    async fn sync(&self, key: String) -> Result<(), WorkloadError> {
        let Some(object) = self.sets.get(&key) else {
            self.expectations.forget(&key);
            return Ok(());
        };
        index_by_controller(&self.pods);
        // Check this before reading the pods: a change in between is then counted twice at worst, never missed.
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let is_current = self.expectations.are_met(&key, uid);
        let set = object.to_set();
        let Some(spec) = &set.spec else { return Ok(()) };
        let Some(selector) = selector_of(&spec.selector) else { return Ok(()) };
        let namespace = split_key(&key).0;
        let found = candidate_pods(&self.pods, namespace, uid, &spec.selector).await;
        let controls = |pod: &&Arc<Pod>| is_controlled::<K>(&pod.metadata, namespace, uid);
        let leaving = found.iter().filter(controls).filter(|pod| is_leaving(pod)).count();
        let alive = found.into_iter().filter(|pod| is_active(pod)).collect();
        let active: Vec<Arc<Pod>> = claim(&self.client, object.as_ref(), &selector, alive, |_| true).await?;
        let failure = match is_current && !is_terminating(object.as_ref()) {
            true => self.manage(&key, &object, &set, &active).await.err(),
            false => None,
        };
        let now = self.clock.now();
        let leaving = K::TELLS_TERMINATING.then(|| i32::try_from(leaving).unwrap_or(i32::MAX));
        let message = failure.as_ref().map(WorkloadError::message);
        self.write_status(&object, &set, status(&set, &active, leaving, message.as_deref(), now)).await?;
        if let Some(delay) =
            next_available(active.iter().map(Arc::as_ref), spec.min_ready_seconds.unwrap_or(0), now)
        {
            self.queue.add_after(key.clone(), delay);
        }
        if let Some(patience) = self.expectations.patience(&key) {
            self.queue.add_after(key, patience);
        }
        failure.map_or(Ok(()), Err)
    }

    async fn manage(
        &self,
        key: &str,
        object: &K,
        set: &ReplicaSet,
        active: &[Arc<Pod>],
    ) -> Result<(), WorkloadError> {
        let related = if active.len() > usize::try_from(wanted(set)).unwrap_or(0) {
            self.related(set).await
        } else {
            Vec::new()
        };
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let (client, recorder, expectations) = (&self.client, &self.recorder, self.expectations.as_ref());
        let control = PodControl { client, recorder, owner: object, key, expectations };
        match decide(set, active, &related, self.clock.now()) {
            Act::Nothing => Ok(()),
            Act::Create(count) => {
                let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
                let pod = pod_from(&template, split_key(key).0, controller_reference(object));
                self.expectations.creations(key, uid, count);
                let outcome = control.create_expected(&template, count, |_| pod.clone()).await;
                outcome.failure.map_or(Ok(()), Err)
            }
            Act::Delete(pods) => {
                self.expectations.deletions(key, uid, pods.iter().map(|pod| key_of(pod.as_ref())));
                control.delete_expected(&pods).await
            }
        }
    }

    /// The pods of all sets with the same controller as this one.
    async fn related(&self, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let Some(owner) = controller_of(&set.metadata) else { return Vec::new() };
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let siblings = self.sets.each_by_index(INDEX_CONTROLLER, &owner_value(namespace, &owner.uid));
        let (mut related, mut slice) = (Vec::new(), TimeSlice::start());
        for uid in siblings.filter_map(|set| set.meta().uid.clone()) {
            for pod in self.pods.each_by_index(INDEX_CONTROLLER, &owner_value(namespace, &uid)) {
                if is_controlled::<K>(&pod.metadata, namespace, &uid) {
                    related.push(Arc::new(replica(&pod)));
                }
                slice.yield_if_over().await;
            }
            slice.yield_if_over().await;
        }
        related
    }

    async fn write_status(
        &self,
        object: &K,
        set: &ReplicaSet,
        status: ReplicaSetStatus,
    ) -> Result<(), WorkloadError> {
        if set.status.as_ref().is_some_and(|old| is_same_status(old, &status)) {
            return Ok(());
        }
        write_status(&self.client, &object.with_status(status)).await
    }
}
