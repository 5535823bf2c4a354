//! Runs the StatefulSet controller: queues sets on changes and performs the steps. Pods and claims have fixed
//! names, so nothing is created twice: the server rejects the second creation.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join4};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use orlop_client::api::Api;
use serde_json::json;

use super::claims::{
    claim_name, claim_names, has_owners, index_by_claims, new_claim, owners, possible_sets, templates,
};
use super::decide::{Plan, SetInput, Step, decide, is_same_status, versioned};
use super::identity::{LABEL_POD_INDEX, LABEL_POD_NAME, is_member, revision_of};
use super::revisions::{Revision, Today, new_revision, sort, surplus, today};
use super::spec::{name, ordinals};
use crate::context::{Context, ControllerError};
use crate::workload::adopt::{claim as claim_objects, claim_parts, named};
use crate::workload::batch::{at_once, slow_start};
use crate::workload::error::WorkloadError;
use crate::workload::owned::{
    Namespaced, candidate_pods, candidates, index_by_controller, index_owners, is_neighbour, member_changed,
    selector_of,
};
use crate::workload::parts::{revision_part, whole};
use crate::workload::ready::next_available;
use crate::workload::writes::{api_of, delete_revision, renumber_revision, write_status};
use orlop_apimachinery::clock::Clock;
use orlop_client::client::{is_already_exists, is_not_found};
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::{COMPONENT_STATEFUL_SET, controller, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;

/// The number of taken names of a new revision that one sync tries.
const COLLISIONS: i32 = 10;
/// How long a set waits that has more steps than one turn performs, so that the cache shows the previous ones.
const NEXT_TURN: Duration = Duration::from_secs(1);

/// Runs the StatefulSet controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let this = RevisionKeeper {
            client: context.client.clone(),
            sets: context.informers.of(),
            revisions: context.informers.of(),
            pods: context.informers.pods(),
            claims: context.informers.claims(),
            queue: queue.clone(),
            recorder: context.recorder(COMPONENT_STATEFUL_SET),
            clock: context.clock,
        };
        index_owners(&this.sets);
        index_by_claims(&this.sets);
        index_by_controller(&this.revisions);
        let _sets = this.sets.add_handler({
            let queue = queue.clone();
            move |change: &Change<StatefulSet>| queue.add(change.key().to_string())
        });
        let _pods = this.pods.add_handler({
            let (queue, sets) = (queue.clone(), this.sets.clone());
            move |change: &Change<Pod>| member_changed(change, &sets, &queue)
        });
        let _revisions = this.revisions.add_handler({
            let (queue, sets) = (queue.clone(), this.sets.clone());
            move |change: &Change<ControllerRevision>| member_changed(change, &sets, &queue)
        });
        let _claims = this.claims.add_handler({
            let (queue, sets) = (queue.clone(), this.sets.clone());
            move |change: &Change<PersistentVolumeClaim>| claim_left(change, &sets, &queue)
        });
        let synced =
            join4(this.sets.synced(), this.revisions.synced(), this.pods.synced(), this.claims.synced());
        if !context.ready(synced).await {
            return Ok(());
        }
        let (name, workers) = (controller::STATEFUL_SET, context.options.concurrent_stateful_set_syncs);
        worker::run_until(&context.shutdown, &queue, workers, context.syncs::<StatefulSet, _>(name), |key| {
            this.sync(key)
        })
        .await;
        Ok(())
    })
}

/// Queues the sets that a deleted claim may belong to: a pod may wait for its deletion, or for its replacement.
fn claim_left(
    change: &Change<PersistentVolumeClaim>,
    sets: &Informer<StatefulSet>,
    queue: &WorkQueue<String>,
) {
    if change.gone_uid().is_none() {
        return;
    }
    possible_sets(sets, change.key()).iter().for_each(|key| queue.add(key.to_string()));
}

struct RevisionKeeper {
    client: Client,
    sets: Informer<StatefulSet>,
    revisions: Informer<ControllerRevision>,
    pods: Informer<Pod>,
    claims: Informer<PersistentVolumeClaim>,
    queue: WorkQueue<String>,
    recorder: Recorder,
    clock: Clock,
}

impl RevisionKeeper {
    async fn sync(&self, key: String) -> Result<(), WorkloadError> {
        let Some(set) = self.sets.get(&key) else { return Ok(()) };
        let Some(spec) = &set.spec else { return Ok(()) };
        let Some(selector) = selector_of(&spec.selector) else { return Ok(()) };
        index_by_controller(&self.pods);
        let (namespace, uid) = (split_key(&key).0, set.metadata.uid.as_deref().unwrap_or_default());
        let found = candidates(&self.revisions, namespace, uid, &spec.selector);
        let part = |revision: Arc<ControllerRevision>| revision_part(&revision);
        let mut history = claim_parts(&self.client, set.as_ref(), &selector, found, part).await?;
        sort(&mut history);
        let found = candidate_pods(&self.pods, namespace, uid, &spec.selector).await;
        let pods =
            claim_objects(&self.client, set.as_ref(), &selector, found, |pod| is_member(&set, pod)).await?;

        let collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        let (update, collisions) = self.today(&set, &history, collisions).await?;
        let named_current = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
        let mut own = history.iter().filter(|revision| is_neighbour(&revision.metadata, &set.metadata));
        let current = own.find(|revision| revision.metadata.name.as_deref() == named_current);
        let current = current.filter(|part| part.metadata.name.as_ref() != Some(&update.name));
        let current = match current.and_then(|part| whole(&self.revisions, part)) {
            Some(current) => Revision::of(&current)?,
            None => update.clone(),
        };

        let claim = |name: &str| self.claims.get(&format!("{namespace}/{name}"));
        let now = self.clock.now();
        let seen =
            SetInput { set: &set, current: &current, update: &update, pods: &pods, claim: &claim, now };
        let plan = decide(&seen);
        let failure = self.act(&seen, &plan).await.err();
        let mut status = plan.status;
        status.collision_count = Some(collisions);
        self.write_status(&set, status).await?;
        if let Some(delay) =
            next_available(pods.iter().map(Arc::as_ref), spec.min_ready_seconds.unwrap_or(0), now)
        {
            self.queue.add_after(key.clone(), delay);
        }
        if plan.is_partial {
            self.queue.add_after(key, NEXT_TURN);
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut used: BTreeSet<&str> = pods.iter().map(|pod| revision_of(pod)).collect();
        used.extend([update.name.as_str(), current.name.as_str()]);
        for at in surplus(&set, &history, &used) {
            delete_revision(&self.client, &history[at]).await?;
        }
        Ok(())
    }

    /// Returns the revision of the set's template and the collision count; creates the revision if it is missing.
    /// If the status is not written afterwards, the next sync finds the revision in the history.
    async fn today(
        &self,
        set: &StatefulSet,
        history: &[ControllerRevision],
        mut collisions: i32,
    ) -> Result<(Revision, i32), WorkloadError> {
        let api: Api<ControllerRevision> = self.api(set);
        let decode = |part: &ControllerRevision| Revision::of(whole(&self.revisions, part)?.as_ref()).ok();
        let number = match today(set, history, decode).await {
            Today::Last(revision) => return Ok((revision, collisions)),
            Today::Again(at, number, revision) => {
                renumber_revision(&self.client, &history[at], number).await?;
                return Ok((revision, collisions));
            }
            Today::New(number) => number,
        };
        let first = collisions;
        loop {
            let revision = new_revision(set, number, collisions);
            let (name, object) = (revision.name_any(), named(&revision));
            match api.create(&PostParams::default(), &revision.clone()).await {
                Ok(made) => return Ok((Revision::of(&made)?, collisions)),
                Err(error) if is_already_exists(&error) => {
                    let live = api.get(&name).await.map_err(WorkloadError::api("read", object.clone()))?;
                    // The same revision, not yet in the cache.
                    if live.data == revision.data {
                        return Ok((Revision::of(&live)?, collisions));
                    }
                    collisions = collisions.saturating_add(1);
                    // Any client can take the names. The next sync continues where this one stops.
                    if collisions.saturating_sub(first) >= COLLISIONS {
                        let mut status = set.status.clone().unwrap_or_default();
                        status.collision_count = Some(collisions);
                        self.write_status(set, status).await?;
                        return Err(WorkloadError::Api { what: "create", object, cause: error });
                    }
                }
                Err(cause) => return Err(WorkloadError::Api { what: "create", object, cause }),
            }
        }
    }

    async fn act(&self, seen: &SetInput<'_>, plan: &Plan) -> Result<(), WorkloadError> {
        for group in &plan.groups {
            if plan.is_parallel {
                let at_once = at_once(&seen.update.template).min(at_once(&seen.current.template));
                let outcome = slow_start(group.len(), at_once, |at| self.step(seen, &group[at])).await;
                outcome.failure.map_or(Ok(()), Err)?;
                continue;
            }
            for step in group {
                self.step(seen, step).await?;
            }
        }
        Ok(())
    }

    async fn step(&self, seen: &SetInput<'_>, step: &Step) -> Result<(), WorkloadError> {
        let set = seen.set;
        match step {
            Step::Create(ordinal) => self.create(set, &versioned(seen, *ordinal), *ordinal).await,
            Step::MakeClaims(pod, ordinal) => self.make_claims(set, &pod.name_any(), *ordinal).await,
            Step::Fix(pod, ordinal) => {
                self.fix_labels(pod, *ordinal).await?;
                self.fix_claims(set, pod, *ordinal).await
            }
            Step::FixClaims(pod, ordinal) => self.fix_claims(set, pod, *ordinal).await,
            Step::Delete(pod) => self.delete(set, pod).await,
        }
    }

    /// Creates the claims before the pod, because a pod cannot start without its claim. If the pod is not created
    /// afterwards, the next sync finds the claims.
    async fn create(&self, set: &StatefulSet, pod: &Pod, ordinal: i32) -> Result<(), WorkloadError> {
        let pod_name = pod.name_any();
        if let Err(failure) = self.make_claims(set, &pod_name, ordinal).await {
            self.tell_pod(set, "create", &pod_name, Err(&failure));
            return Err(failure);
        }
        let api: Api<Pod> = self.api(set);
        match api.create(&PostParams::default(), &pod.clone()).await {
            Ok(made) => {
                self.tell_pod(set, "create", &pod_name, Ok(()));
                self.fix_claims(set, &made, ordinal).await
            }
            Err(cause) => {
                // Either this pod, not yet in the cache, or another one that the next sync will find.
                let is_taken = is_already_exists(&cause);
                let failure = WorkloadError::Api { what: "create", object: named(pod), cause };
                if !is_taken {
                    self.tell_pod(set, "create", &pod_name, Err(&failure));
                }
                Err(failure)
            }
        }
    }

    async fn make_claims(&self, set: &StatefulSet, pod: &str, ordinal: i32) -> Result<(), WorkloadError> {
        let api: Api<PersistentVolumeClaim> = self.api(set);
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        for template in templates(set) {
            let claim_name = claim_name(set, template, ordinal);
            match self.claims.get(&format!("{namespace}/{claim_name}")) {
                Some(there) if is_terminating(there.as_ref()) => {
                    return Err(WorkloadError::ClaimTerminating { claim: claim_name });
                }
                Some(_) => continue,
                None => {}
            }
            let claim = new_claim(set, template, ordinal);
            let object = named(&claim);
            let set_name = name(set);
            match api.create(&PostParams::default(), &claim).await {
                Ok(_) => {
                    let message =
                        format!("create Claim {claim_name} Pod {pod} in StatefulSet {set_name} success");
                    self.recorder.event(set, EventType::Normal, reason::SUCCESSFUL_CREATE, message);
                }
                Err(error) if is_already_exists(&error) => {}
                Err(cause) => {
                    let failure = WorkloadError::Api { what: "create", object, cause };
                    let message = format!(
                        "create Claim {claim_name} for Pod {pod} in StatefulSet {set_name} failed error: {}",
                        failure.message()
                    );
                    self.recorder.event(set, EventType::Warning, reason::FAILED_CREATE, message);
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// Corrects the owners of the pod's claims.
    async fn fix_claims(&self, set: &StatefulSet, pod: &Pod, ordinal: i32) -> Result<(), WorkloadError> {
        let is_wanted = ordinals(set).contains(&ordinal);
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let names = claim_names(set, ordinal).into_iter();
        for claim in names.filter_map(|name| self.claims.get(&format!("{namespace}/{name}"))) {
            let owners = owners(&claim, set, pod, is_wanted);
            if has_owners(&claim, &owners) {
                continue;
            }
            // A replacement, conditional on the cached version: the role has no patch on claims.
            let mut changed = PersistentVolumeClaim::clone(&claim);
            changed.metadata.owner_references = Some(owners);
            let api: Api<PersistentVolumeClaim> = self.api(set);
            match api.replace(&claim.name_any(), &PostParams::default(), &changed).await {
                Ok(_) => {}
                Err(error) if is_not_found(&error) => {}
                Err(cause) => {
                    let object = named(claim.as_ref());
                    return Err(WorkloadError::Api { what: "change the owners of", object, cause });
                }
            }
        }
        Ok(())
    }

    async fn fix_labels(&self, pod: &Pod, ordinal: i32) -> Result<(), WorkloadError> {
        if super::identity::has_identity(pod) {
            return Ok(());
        }
        let labels = json!({LABEL_POD_NAME: pod.name_any(), LABEL_POD_INDEX: ordinal.to_string()});
        let patch = json!({"metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version,
            "labels": labels}});
        self.patch(pod, &patch, "label").await
    }

    async fn delete(&self, set: &StatefulSet, pod: &Pod) -> Result<(), WorkloadError> {
        let (pod_name, api) = (pod.name_any(), self.api::<Pod>(set));
        let exactly = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        match api.delete(&pod_name, &DeleteParams::default().preconditions(exactly)).await {
            Ok(_) => {
                self.tell_pod(set, "delete", &pod_name, Ok(()));
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => {
                let failure = WorkloadError::Api { what: "delete", object: named(pod), cause };
                self.tell_pod(set, "delete", &pod_name, Err(&failure));
                Err(failure)
            }
        }
    }

    fn tell_pod(&self, set: &StatefulSet, verb: &str, pod: &str, outcome: Result<(), &WorkloadError>) {
        let set_name = name(set);
        let (well, badly) = match verb {
            "create" => (reason::SUCCESSFUL_CREATE, reason::FAILED_CREATE),
            _ => (reason::SUCCESSFUL_DELETE, reason::FAILED_DELETE),
        };
        match outcome {
            Ok(()) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set_name} successful");
                self.recorder.event(set, EventType::Normal, well, message);
            }
            Err(failure) => {
                let message =
                    format!("{verb} Pod {pod} in StatefulSet {set_name} failed error: {}", failure.message());
                self.recorder.event(set, EventType::Warning, badly, message);
            }
        }
    }

    async fn patch<K: Namespaced>(
        &self,
        object: &K,
        patch: &serde_json::Value,
        what: &'static str,
    ) -> Result<(), WorkloadError> {
        let api: Api<K> = self.api(object);
        match api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(WorkloadError::Api { what, object: named(object), cause }),
        }
    }

    async fn write_status(&self, set: &StatefulSet, status: StatefulSetStatus) -> Result<(), WorkloadError> {
        if set.status.as_ref().is_some_and(|old| is_same_status(old, &status)) {
            return Ok(());
        }
        write_status(&self.client, &StatefulSet { status: Some(status), ..set.clone() }).await
    }

    /// The API for a kind in the namespace of `neighbour`.
    fn api<K: Namespaced>(&self, neighbour: &impl kube::Resource) -> Api<K> {
        api_of(&self.client, neighbour)
    }
}
