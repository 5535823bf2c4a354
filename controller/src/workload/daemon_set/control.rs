//! Runs the DaemonSet controller: queues DaemonSets on changes and performs the decisions. [`Expectations`] track pods in
//! flight, so that no pod is created twice.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use futures::future::{BoxFuture, join, join4};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::backoff::FailedPods;
use super::history::{self, RevisionReader};
use super::manage::{BURST, DaemonInput, PodChanges, by_node, manage};
use super::node_table::NodeTable;
use super::node_updates::{INDEX_ON_NODE, index_by_set_and_node, must_sync, on_node};
use super::placement::{Fit, Placement, daemon_part, new_pod, placement_pod, require_node};
use super::requirements::RequirementTable;
use super::rollout::rolling_update;
use super::status::status;
use super::strategy::{is_rolling, min_ready_seconds};
use super::writes::Writer;
use crate::context::{Context, ControllerError};
use crate::workload::adopt::{claim, claim_parts};
use crate::workload::error::WorkloadError;
use crate::workload::expectations::Expectations;
use crate::workload::owned::{
    candidate_parts, candidates, index_by_controller, index_owners, member_changed, selector_of,
};
use crate::workload::pod_control::PodControl;
use crate::workload::ready::next_available;
use crate::workload::replicas::control::pod_changed;
use crate::workload::stateful_set::identity::revision_of;
use crate::workload::writes::delete_revision;
use orlop_apimachinery::clock::Clock;
use orlop_client::informer::{Change, Informer, key_of, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::{COMPONENT_DAEMON_SET, controller, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::time_slice::TimeSlice;
use orlop_client::worker;

/// Runs the DaemonSet controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let changed_nodes = WorkQueue::new(context.options.rate_limit);
        let this = Manager {
            writer: Writer(context.client.clone()),
            sets: context.informers.of(),
            revisions: context.informers.of(),
            pods: context.informers.pods(),
            nodes: Arc::default(),
            requirements: Arc::default(),
            expectations: Arc::default(),
            failed: Mutex::default(),
            queue: queue.clone(),
            recorder: context.recorder(COMPONENT_DAEMON_SET),
            clock: context.clock,
        };
        let nodes = context.informers.nodes();
        index_owners(&this.sets);
        index_by_controller(&this.revisions);
        let _sets = this.sets.add_handler({
            let (queue, requirements) = (queue.clone(), Arc::clone(&this.requirements));
            move |change: &Change<DaemonSet>| {
                requirements.apply(change);
                queue.add(change.key().to_string());
            }
        });
        let _pods = this.pods.add_handler({
            let (queue, sets) = (queue.clone(), this.sets.clone());
            let expectations = Arc::clone(&this.expectations);
            move |change: &Change<Pod>| pod_changed(change, &sets, &expectations, &queue)
        });
        let _revisions = this.revisions.add_handler({
            let (queue, sets) = (queue.clone(), this.sets.clone());
            move |change: &Change<ControllerRevision>| member_changed(change, &sets, &queue)
        });
        let _nodes = nodes.add_handler({
            let (changed_nodes, table) = (changed_nodes.clone(), Arc::clone(&this.nodes));
            move |change: &Change<Node>| {
                if table.apply(change) {
                    changed_nodes.add(change.key().to_string());
                }
            }
        });
        let synced = join4(this.sets.synced(), this.revisions.synced(), this.pods.synced(), nodes.synced());
        if !context.ready(synced).await {
            return Ok(());
        }
        let (name, workers) = (controller::DAEMON_SET, context.options.concurrent_daemon_set_syncs);
        let (of_sets, of_nodes) = (context.syncs::<DaemonSet, _>(name), context.syncs::<Node, _>(name));
        join(
            worker::run_until(&context.shutdown, &queue, workers, of_sets, |key| this.sync(key)),
            worker::run_until(&context.shutdown, &changed_nodes, workers, of_nodes, |key| {
                this.sync_node(key)
            }),
        )
        .await;
        Ok(())
    })
}

struct Manager {
    writer: Writer,
    sets: Informer<DaemonSet>,
    revisions: Informer<ControllerRevision>,
    pods: Informer<Pod>,
    nodes: Arc<NodeTable>,
    requirements: Arc<RequirementTable>,
    expectations: Arc<Expectations>,
    failed: Mutex<FailedPods>,
    queue: WorkQueue<String>,
    recorder: Recorder,
    clock: Clock,
}

impl Manager {
    async fn sync_node(&self, key: String) -> Result<(), Infallible> {
        if self.sets.is_empty() {
            return Ok(());
        }
        index_by_set_and_node(&self.pods);
        let Some(node) = self.nodes.get(&key) else { return Ok(()) };
        let mut slice = TimeSlice::start();
        for (set, wanted) in self.requirements.all(&self.sets) {
            let has_pod = self.pods.has_indexed(INDEX_ON_NODE, &on_node(&node.name, &set));
            if must_sync(wanted.on(&node), has_pod, wanted.misscheduled) {
                self.queue.add(set.to_string());
            }
            slice.yield_if_over().await;
        }
        Ok(())
    }

    async fn sync(&self, key: String) -> Result<(), WorkloadError> {
        let Some(set) = self.sets.get(&key) else {
            self.expectations.forget(&key);
            return Ok(());
        };
        let Some(spec) = &set.spec else { return Ok(()) };
        if spec.selector == LabelSelector::default() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.recorder.event(set.as_ref(), EventType::Warning, reason::SELECTING_ALL, message);
            return Ok(());
        }
        // The garbage collector may already have deleted the revisions, so that the status cannot be computed.
        if is_terminating(set.as_ref()) {
            return Ok(());
        }
        let Some(selector) = selector_of(&spec.selector) else { return Ok(()) };
        index_by_controller(&self.pods);
        // Check this before reading the pods: a change in between is then counted twice at worst, never missed.
        let (namespace, uid) = (split_key(&key).0, set.metadata.uid.as_deref().unwrap_or_default());
        let is_current = self.expectations.are_met(&key, uid);
        let Some(reader) = RevisionReader::of(&set) else { return Ok(()) };
        let found = candidates(&self.revisions, namespace, uid, &spec.selector);
        let part = |revision: Arc<ControllerRevision>| reader.part(&revision);
        let revisions = claim_parts(&self.writer.0, set.as_ref(), &selector, found, part).await?;
        let revisions: Vec<_> = revisions.into_iter().flatten().collect();
        let found = candidate_parts(&self.pods, namespace, uid, &spec.selector, daemon_part).await;
        let pods = claim(&self.writer.0, set.as_ref(), &selector, found, |_| true).await?;
        let (hash, old) = self.writer.history(&set, revisions, &pods).await?;

        let (nodes, on_nodes, now) = (self.fits(&set).await, by_node(&pods), self.clock.now());
        let input = DaemonInput { set: &set, hash: &hash, nodes: &nodes, pods: &on_nodes, now };
        let failure = match is_current {
            true => self.update(&key, &input, &pods, &old).await.err(),
            false => None,
        };
        let written = self.writer.write_status(&set, status(&input, is_current)).await;
        if let Some(delay) = next_available(pods.iter().map(Arc::as_ref), min_ready_seconds(&set), now) {
            self.queue.add_after(key.clone(), delay);
        }
        if let Some(patience) = self.expectations.patience(&key) {
            self.queue.add_after(key, patience);
        }
        failure.map_or(written, Err)
    }

    /// Whether the DaemonSet runs on each node.
    async fn fits(&self, set: &DaemonSet) -> BTreeMap<String, Fit> {
        let pod = placement_pod(set);
        let (placement, mut slice) = (Placement::of(&pod), TimeSlice::start());
        let mut fits = BTreeMap::new();
        for node in self.nodes.all() {
            fits.insert(node.name.clone(), placement.on(&node));
            slice.yield_if_over().await;
        }
        fits
    }

    /// Creates and deletes pods, continues the update, and deletes old revisions.
    async fn update(
        &self,
        key: &str,
        input: &DaemonInput<'_>,
        pods: &[Arc<Pod>],
        old: &[ControllerRevision],
    ) -> Result<(), WorkloadError> {
        let plan = manage(input, &mut self.failed.lock(), Instant::now());
        for event in plan.events {
            self.recorder.event(input.set, event.type_, event.reason, event.message);
        }
        if let Some(wait) = plan.wait {
            self.queue.add_after(key.to_owned(), wait);
        }
        // An update continues only when the cache shows all earlier changes.
        let changes = match plan.changes.is_empty() && is_rolling(input.set) {
            true => rolling_update(input),
            false => plan.changes,
        };
        self.apply(key, input, changes).await?;
        let live: BTreeSet<&str> = pods.iter().map(|pod| revision_of(pod)).collect();
        for revision in history::surplus(input.set, old, &live) {
            delete_revision(&self.writer.0, revision).await?;
        }
        Ok(())
    }

    /// If the process stops halfway, the cache shows the completed changes after a restart, and the next sync performs
    /// the others.
    async fn apply(
        &self,
        key: &str,
        input: &DaemonInput<'_>,
        mut changes: PodChanges,
    ) -> Result<(), WorkloadError> {
        if changes.is_empty() {
            return Ok(());
        }
        changes.create.truncate(BURST);
        changes.delete.truncate(BURST);
        let (PodChanges { create, delete }, set) = (&changes, input.set);
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let expectations = self.expectations.as_ref();
        expectations.changes(key, uid, create.len(), delete.iter().map(|pod| key_of(pod.as_ref())));
        let (client, recorder) = (&self.writer.0, &self.recorder);
        let control = PodControl { client, recorder, owner: set, key, expectations };
        let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
        let base = new_pod(set, input.hash);
        let created = control.create_expected(&template, create.len(), |nth| {
            let mut pod = base.clone();
            require_node(&mut pod, &create[nth]);
            pod
        });
        let created = created.await.failure.map_or(Ok(()), Err);
        created.and(control.delete_expected(delete).await)
    }
}
