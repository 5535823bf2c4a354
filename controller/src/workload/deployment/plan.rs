//! Plans one sync of a Deployment: the desired ReplicaSets and the status. Pure functions; the controller
//! writes the differences. Upstream: deployment_controller.go (syncDeployment), sync.go, rolling.go,
//! recreate.go.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};

use super::amounts::{Strategy, strategy};
use super::rollout::{end_old, grow_new, shrink_old, size_of_new};
use super::sets::{ANN_REVISION, actual, annotate, new_set, replicas, resize, revision};
use super::{scale, status};
use orlop_client::meta::{annotation, is_terminating};

/// The input of a sync.
pub struct DeploymentInput<'a> {
    /// The Deployment.
    pub deployment: &'a Deployment,
    /// Its ReplicaSets.
    pub sets: &'a [ReplicaSet],
    /// Index of the ReplicaSet with the Deployment's template.
    pub new: Option<usize>,
    /// Whether the ReplicaSet with this UID has pods that are not finished, regardless of its status. Called only
    /// for Recreate.
    pub has_pods: &'a dyn Fn(&str) -> bool,
    /// The current time.
    pub now: Timestamp,
}

/// The desired state.
#[derive(Debug, Default)]
pub struct Plan {
    /// The existing ReplicaSets, changed or not, in the order of the input.
    pub sets: Vec<ReplicaSet>,
    /// The ReplicaSet to create.
    pub create: Option<ReplicaSet>,
    /// Indexes of ReplicaSets with revisions beyond the history limit.
    pub delete: Vec<usize>,
    /// The revision for the Deployment's annotation, if it differs from the present one.
    pub revision: Option<String>,
    /// The status.
    pub status: DeploymentStatus,
    /// When to sync again if nothing changes.
    pub look_again: Option<Duration>,
}

/// Plans one sync.
pub fn plan(seen: &DeploymentInput<'_>) -> Plan {
    let DeploymentInput { deployment, now, .. } = *seen;
    let spec = deployment.spec.as_ref();
    let known = deployment.status.clone().unwrap_or_default();
    let mut work = Work { seen, sets: seen.sets.to_vec(), new: seen.new, plan: Plan::default(), known };
    if is_terminating(deployment) {
        work.revise(false);
        return work.end(StatusDetail::Counts);
    }
    if let Some(condition) = status::pause(deployment, &work.known, now) {
        status::set_condition(&mut work.known, condition);
    }
    if spec.is_some_and(|spec| spec.paused == Some(true)) || scale::is_due(deployment, seen.sets) {
        work.revise(false);
        scale::scale(deployment, &mut work.sets, work.new);
        if spec.is_some_and(|spec| spec.paused == Some(true)) {
            work.clean_up();
        }
        return work.end(StatusDetail::Counts);
    }
    match strategy(deployment) {
        Strategy::RollingUpdate { .. } => work.roll(),
        Strategy::Recreate => work.recreate(),
    }
    work.end(StatusDetail::Progress)
}

/// How much of the status to compute.
enum StatusDetail {
    Counts,
    Progress,
}

struct Work<'a> {
    seen: &'a DeploymentInput<'a>,
    sets: Vec<ReplicaSet>,
    /// Index of the ReplicaSet with the Deployment's template; the last index if it is to be created.
    new: Option<usize>,
    plan: Plan,
    /// The previous status, with the conditions that the plan has added so far.
    known: DeploymentStatus,
}

impl Work<'_> {
    /// Assigns the highest revision to the ReplicaSet with the Deployment's template. Creates it if it is missing
    /// and `may_create` is set.
    fn revise(&mut self, may_create: bool) {
        let (deployment, now) = (self.seen.deployment, self.seen.now);
        let old = self
            .sets
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != self.new)
            .map(|(_, set)| revision(set));
        let next = old.max().unwrap_or(0).saturating_add(1);
        let has_deadline = status::deadline(deployment).is_some();
        if let Some(at) = self.new {
            let set = &mut self.sets[at];
            annotate(set, deployment, next);
            let min_ready = deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
            let spec = set.spec.get_or_insert_default();
            if spec.min_ready_seconds.unwrap_or(0) != min_ready.unwrap_or(0) {
                spec.min_ready_seconds = min_ready;
            }
            self.plan.revision = annotation(set, ANN_REVISION).map(str::to_owned);
            let name = set.metadata.name.clone().unwrap_or_default();
            if has_deadline && status::condition(&self.known, status::PROGRESSING).is_none() {
                let message = format!("Found new replica set {name:?}");
                self.progressing("FoundNewReplicaSet", message, now);
            }
        } else if may_create {
            let mut set = new_set(deployment, next);
            let size = size_of_new(deployment, &self.sets, &set);
            resize(&mut set, deployment, size);
            self.plan.revision = Some(next.to_string());
            if has_deadline {
                let message =
                    format!("Created new replica set {:?}", set.metadata.name.as_deref().unwrap_or_default());
                self.progressing("NewReplicaSetCreated", message, now);
            }
            self.new = Some(self.sets.len());
            self.sets.push(set);
        }
    }

    fn progressing(&mut self, reason: &str, message: String, now: Timestamp) {
        let condition = status::new_condition(status::PROGRESSING, "True", reason, message, now);
        status::set_condition(&mut self.known, condition);
    }

    fn roll(&mut self) {
        self.revise(true);
        let Some(new) = self.new else { return };
        let deployment = self.seen.deployment;
        if grow_new(deployment, &mut self.sets, new) || shrink_old(deployment, &mut self.sets, new) {
            return;
        }
        self.clean_up_if_complete();
    }

    fn recreate(&mut self) {
        self.revise(false);
        let deployment = self.seen.deployment;
        if end_old(deployment, &mut self.sets, self.new) || self.old_pods_are_left() {
            return;
        }
        if self.new.is_none() {
            self.revise(true);
        }
        if let Some(new) = self.new
            && replicas(&self.sets[new]) != super::amounts::wanted(deployment)
        {
            resize(&mut self.sets[new], deployment, super::amounts::wanted(deployment));
        }
        self.clean_up_if_complete();
    }

    fn old_pods_are_left(&self) -> bool {
        let old = self.sets.iter().enumerate().filter(|(at, _)| Some(*at) != self.new).map(|(_, set)| set);
        let mut old = old.map(|set| (actual(set), set.metadata.uid.as_deref().unwrap_or_default()));
        old.any(|(actual, uid)| actual > 0 || (self.seen.has_pods)(uid))
    }

    fn clean_up_if_complete(&mut self) {
        if status::is_complete(self.seen.deployment, &self.known) {
            self.clean_up();
        }
    }

    /// Selects ReplicaSets without pods for deletion, oldest revisions first, until the history is within its
    /// limit.
    fn clean_up(&mut self) {
        let limit = self.seen.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit);
        let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else { return };
        let is_alive = |at: &usize| Some(*at) != self.new && !is_terminating(&self.sets[*at]);
        let mut old: Vec<usize> = (0..self.sets.len()).filter(is_alive).collect();
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by_key(|at| (revision(&self.sets[*at]), super::sets::age(&self.sets[*at])));
        old.truncate(surplus);
        let is_idle = |set: &ReplicaSet| {
            let observed = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
            actual(set) == 0 && replicas(set) == 0 && set.metadata.generation.unwrap_or(0) <= observed
        };
        self.plan.delete = old.into_iter().filter(|at| is_idle(&self.sets[*at])).collect();
    }

    fn end(mut self, detail: StatusDetail) -> Plan {
        let (deployment, now) = (self.seen.deployment, self.seen.now);
        self.plan.status = match detail {
            StatusDetail::Counts => status::counts(deployment, &self.known, &self.sets, self.new, now),
            StatusDetail::Progress => status::in_rollout(deployment, &self.known, &self.sets, self.new, now),
        };
        self.plan.look_again = status::next_look(deployment, &self.plan.status, now);
        if self.sets.len() > self.seen.sets.len() {
            self.plan.create = self.sets.pop();
        }
        self.plan.revision = self
            .plan
            .revision
            .take()
            .filter(|revision| annotation(deployment, ANN_REVISION) != Some(revision));
        self.plan.sets = self.sets;
        self.plan
    }
}
