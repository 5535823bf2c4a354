//! Runs the Deployment controller: queues Deployments on changes and writes the plan. Every write is
//! conditional on the version that the plan was computed from. After a failed write, the next sync computes a
//! new plan and finds the writes that succeeded.

use futures::future::{BoxFuture, join3};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};
use orlop_client::api::Api;

use super::amounts::{Strategy, strategy};
use super::plan::{DeploymentInput, Plan, plan};
use super::rollback::{self, Rollback};
use super::sets::{ANN_REVISION, OwnSets, replicas, set_patch};
use super::status;
use crate::context::{Context, ControllerError};
use crate::workload::adopt::{claim_parts, named};
use crate::workload::error::WorkloadError;
use crate::workload::owned::{
    INDEX_CONTROLLER, INDEX_UID, candidates, former_owners, former_values, index_by_controller, index_owners,
    is_controlled, owner_key, owner_value, selector_of, wooers,
};
use crate::workload::parts::whole;
use crate::workload::template::is_same;
use crate::workload::writes::{api_of, write_status};
use orlop_apimachinery::clock::Clock;
use orlop_client::client::{is_already_exists, is_namespace_ending, is_not_found};
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::{COMPONENT_DEPLOYMENT, controller, reason};
use orlop_client::pods::is_finished;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;

/// Runs the Deployment controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let this = Deployer {
            client: context.client.clone(),
            deployments: context.informers.of(),
            sets: context.informers.of(),
            pods: context.informers.pods(),
            queue: queue.clone(),
            recorder: context.recorder(COMPONENT_DEPLOYMENT),
            clock: context.clock,
        };
        index_owners(&this.deployments);
        index_owners(&this.sets);
        index_by_controller(&this.sets);
        let _deployments = this.deployments.add_handler({
            let queue = queue.clone();
            move |change: &Change<Deployment>| queue.add(change.key().to_string())
        });
        let _sets = this.sets.add_handler({
            let (queue, deployments) = (queue.clone(), this.deployments.clone());
            move |change: &Change<ReplicaSet>| set_changed(change, &deployments, &queue)
        });
        let _pods = this.pods.add_handler({
            let (queue, deployments, sets) = (queue.clone(), this.deployments.clone(), this.sets.clone());
            move |change: &Change<Pod>| pod_left(change, &deployments, &sets, &queue)
        });
        let synced = join3(this.deployments.synced(), this.sets.synced(), this.pods.synced());
        if !context.ready(synced).await {
            return Ok(());
        }
        let (name, workers) = (controller::DEPLOYMENT, context.options.concurrent_deployment_syncs);
        worker::run_until(&context.shutdown, &queue, workers, context.syncs::<Deployment, _>(name), |key| {
            this.sync(key)
        })
        .await;
        Ok(())
    })
}

fn set_changed(change: &Change<ReplicaSet>, deployments: &Informer<Deployment>, queue: &WorkQueue<String>) {
    former_owners(change, deployments).into_iter().for_each(|key| queue.add(key));
    let Some(set) = change.new.as_deref() else { return };
    match owner_key(deployments, &set.metadata) {
        Some(key) => queue.add(key.to_string()),
        None => wooers(set, deployments).into_iter().for_each(|key| queue.add(key)),
    }
}

/// Queues the Deployment of a deleted pod. A Deployment with the Recreate strategy waits for its last old pod.
fn pod_left(
    change: &Change<Pod>,
    deployments: &Informer<Deployment>,
    sets: &Informer<ReplicaSet>,
    queue: &WorkQueue<String>,
) {
    for value in former_values(change) {
        for set in sets.each_by_index(INDEX_UID, value) {
            let Some(key) = owner_key(deployments, &set.metadata) else { continue };
            if deployments.get(&key).is_some_and(|deployment| strategy(&deployment) == Strategy::Recreate) {
                queue.add(key.to_string());
            }
        }
    }
}

struct Deployer {
    client: Client,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    queue: WorkQueue<String>,
    recorder: Recorder,
    clock: Clock,
}

impl Deployer {
    async fn sync(&self, key: String) -> Result<(), WorkloadError> {
        let Some(deployment) = self.deployments.get(&key) else { return Ok(()) };
        let Some(spec) = &deployment.spec else { return Ok(()) };
        let Some(selector) = selector_of(&spec.selector) else { return Ok(()) };
        index_by_controller(&self.pods);
        let (namespace, uid) = (split_key(&key).0, deployment.metadata.uid.as_deref().unwrap_or_default());
        let Some(mut own) = OwnSets::of(&deployment) else { return Ok(()) };
        let found = candidates(&self.sets, namespace, uid, &spec.selector);
        claim_parts(&self.client, deployment.as_ref(), &selector, found, |set| own.add(set)).await?;
        let (sets, new) = own.into_parts();
        let is_paused = spec.paused == Some(true) || is_terminating(deployment.as_ref());
        let whole = |part: &ReplicaSet| whole(&self.sets, part);
        if let Some(rollback) = rollback::requested(&deployment, &sets, whole).filter(|_| !is_paused) {
            return self.roll_back(rollback).await;
        }
        let now = self.clock.now();
        let plan = {
            let has_pods = |uid: &str| {
                let mut pods = self.pods.each_by_index(INDEX_CONTROLLER, &owner_value(namespace, uid));
                pods.any(|pod| {
                    is_controlled::<ReplicaSet>(&pod.metadata, namespace, uid) && !is_finished(&pod)
                })
            };
            plan(&DeploymentInput { deployment: &deployment, sets: &sets, new, has_pods: &has_pods, now })
        };
        self.act(&deployment, &sets, &plan).await?;
        if let Some(delay) = plan.look_again {
            self.queue.add_after(key, delay);
        }
        Ok(())
    }

    /// One conditional write. The change queues the Deployment again.
    async fn roll_back(&self, rollback: Rollback) -> Result<(), WorkloadError> {
        let Rollback { deployment, event: (type_, reason, message) } = rollback;
        let api = self.api::<Deployment>(&deployment);
        let written = api.replace(&deployment.name_any(), &PostParams::default(), &deployment).await;
        written.map_err(WorkloadError::api("roll back", named(&deployment)))?;
        self.recorder.event(&deployment, type_, reason, message);
        Ok(())
    }

    /// Creates the new ReplicaSet, then writes the sizes, deletes unneeded ReplicaSets and writes the status. The
    /// next sync plans any unfinished work again, and none of it depends on the status write.
    async fn act(
        &self,
        deployment: &Deployment,
        sets: &[ReplicaSet],
        plan: &Plan,
    ) -> Result<(), WorkloadError> {
        if let Some(new) = &plan.create {
            self.create(deployment, new).await?;
        }
        for (old, new) in sets.iter().zip(&plan.sets).filter(|(old, new)| old != new) {
            self.update(deployment, old, new).await?;
        }
        for set in plan.delete.iter().map(|at| &sets[*at]) {
            self.delete(set).await?;
        }
        let known = deployment.status.clone().unwrap_or_default();
        if plan.revision.is_none() && status::is_same(&known, &plan.status) {
            return Ok(());
        }
        let mut changed = deployment.clone();
        changed.status = Some(plan.status.clone());
        if let Some(revision) = &plan.revision {
            let annotations = changed.metadata.annotations.get_or_insert_default();
            annotations.insert(ANN_REVISION.to_owned(), revision.clone());
        }
        self.write_status(changed).await
    }

    async fn create(&self, deployment: &Deployment, new: &ReplicaSet) -> Result<(), WorkloadError> {
        let (name, api) = (new.name_any(), self.api::<ReplicaSet>(deployment));
        let cause = match api.create(&PostParams::default(), &new.clone()).await {
            Ok(_) => {
                self.tell_scaled(deployment, &name, 0, replicas(new));
                return Ok(());
            }
            Err(error) if is_already_exists(&error) => return self.met(deployment, new, &name).await,
            Err(error) if is_namespace_ending(&error) => {
                return Err(WorkloadError::Api { what: "create", object: named(new), cause: error });
            }
            Err(error) => error,
        };
        let failure = WorkloadError::Api { what: "create", object: named(new), cause };
        let message = format!("Failed to create new replica set {name:?}: {}", failure.message());
        self.recorder.event(
            deployment,
            EventType::Warning,
            reason::REPLICA_SET_CREATE_ERROR,
            message.clone(),
        );
        if status::deadline(deployment).is_some() {
            let mut changed = deployment.clone();
            let condition = status::new_condition(
                status::PROGRESSING,
                "False",
                reason::REPLICA_SET_CREATE_ERROR,
                message,
                self.clock.now(),
            );
            status::set_condition(changed.status.get_or_insert_default(), condition);
            // Ignore this error: the caller reports the failed creation.
            let _ = self.write_status(changed).await;
        }
        Err(failure)
    }

    /// Handles a taken name of the new ReplicaSet. The existing object may be this ReplicaSet, not yet in the
    /// cache; otherwise, the collision count is increased so that the next sync generates another name.
    async fn met(&self, deployment: &Deployment, new: &ReplicaSet, name: &str) -> Result<(), WorkloadError> {
        let live = self.api::<ReplicaSet>(deployment).get_opt(name).await;
        let live = live.map_err(WorkloadError::api("read", named(new)))?;
        let template =
            |set: &ReplicaSet| set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
        let is_it = live.is_some_and(|live| {
            let meta = &deployment.metadata;
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let uid = meta.uid.as_deref().unwrap_or_default();
            is_controlled::<Deployment>(&live.metadata, namespace, uid)
                && is_same(&template(&live), &template(new))
        });
        if !is_it {
            let mut changed = deployment.clone();
            let status = changed.status.get_or_insert_default();
            status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
            self.write_status(changed).await?;
        }
        Err(WorkloadError::NameTaken { name: name.to_owned() })
    }

    async fn update(
        &self,
        deployment: &Deployment,
        old: &ReplicaSet,
        new: &ReplicaSet,
    ) -> Result<(), WorkloadError> {
        let (name, api) = (new.name_any(), self.api::<ReplicaSet>(deployment));
        let patch = Patch::Merge(set_patch(old, new));
        let written = api.patch(&name, &PatchParams::default(), &patch).await;
        written.map_err(WorkloadError::api("update", named(new)))?;
        self.tell_scaled(deployment, &name, replicas(old), replicas(new));
        Ok(())
    }

    async fn delete(&self, set: &ReplicaSet) -> Result<(), WorkloadError> {
        let exactly = Preconditions {
            uid: set.metadata.uid.clone(),
            resource_version: set.metadata.resource_version.clone(),
        };
        let parameters = DeleteParams::background().preconditions(exactly);
        match self.api::<ReplicaSet>(set).delete(&set.name_any(), &parameters).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(WorkloadError::Api { what: "delete", object: named(set), cause }),
        }
    }

    fn tell_scaled(&self, deployment: &Deployment, set: &str, from: i32, to: i32) {
        if from == to {
            return;
        }
        let way = if from < to { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {set} from {from} to {to}");
        self.recorder.event(deployment, EventType::Normal, reason::SCALING_REPLICA_SET, message);
    }

    async fn write_status(&self, changed: Deployment) -> Result<(), WorkloadError> {
        write_status(&self.client, &changed).await
    }

    fn api<K>(&self, neighbour: &impl Resource) -> Api<K>
    where
        K: crate::workload::owned::Namespaced,
    {
        api_of(&self.client, neighbour)
    }
}
