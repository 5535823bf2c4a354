//! The differences between the two kinds. The implementation works on ReplicaSets and converts a
//! ReplicationController to one.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::options::Options;
use crate::workload::owned::Adopter;
use orlop_client::names::{COMPONENT_REPLICA_SET, COMPONENT_REPLICATION, controller};

/// A kind that this controller serves.
pub trait Replicated: Adopter {
    /// The name of its controller.
    const CONTROLLER: &'static str;
    /// The component in its events.
    const COMPONENT: &'static str;
    /// Whether its status reports the number of pods being deleted.
    const TELLS_TERMINATING: bool;

    /// The number of concurrent syncs.
    fn workers(options: &Options) -> usize;
    /// The object as a ReplicaSet.
    fn to_set(&self) -> ReplicaSet;
    /// The object with this status.
    fn with_status(&self, status: ReplicaSetStatus) -> Self;
}

impl Replicated for ReplicaSet {
    const CONTROLLER: &'static str = controller::REPLICA_SET;
    const COMPONENT: &'static str = COMPONENT_REPLICA_SET;
    const TELLS_TERMINATING: bool = true;

    fn workers(options: &Options) -> usize {
        options.concurrent_replica_set_syncs
    }

    fn to_set(&self) -> ReplicaSet {
        self.clone()
    }

    fn with_status(&self, status: ReplicaSetStatus) -> Self {
        Self { status: Some(status), ..self.clone() }
    }
}

impl Replicated for ReplicationController {
    const CONTROLLER: &'static str = controller::REPLICATION;
    const COMPONENT: &'static str = COMPONENT_REPLICATION;
    const TELLS_TERMINATING: bool = false;

    fn workers(options: &Options) -> usize {
        options.concurrent_rc_syncs
    }

    fn to_set(&self) -> ReplicaSet {
        let spec = self.spec.clone().unwrap_or_default();
        let status = self.status.clone().unwrap_or_default();
        let condition = |from: ReplicationControllerCondition| ReplicaSetCondition {
            last_transition_time: from.last_transition_time,
            message: from.message,
            reason: from.reason,
            status: from.status,
            type_: from.type_,
        };
        ReplicaSet {
            metadata: self.metadata.clone(),
            spec: Some(ReplicaSetSpec {
                min_ready_seconds: spec.min_ready_seconds,
                replicas: spec.replicas,
                selector: LabelSelector { match_labels: spec.selector, match_expressions: None },
                template: spec.template,
            }),
            status: Some(ReplicaSetStatus {
                available_replicas: status.available_replicas,
                conditions: status.conditions.map(|list| list.into_iter().map(condition).collect()),
                fully_labeled_replicas: status.fully_labeled_replicas,
                observed_generation: status.observed_generation,
                ready_replicas: status.ready_replicas,
                replicas: status.replicas,
                terminating_replicas: None,
            }),
        }
    }

    fn with_status(&self, status: ReplicaSetStatus) -> Self {
        let condition = |from: ReplicaSetCondition| ReplicationControllerCondition {
            last_transition_time: from.last_transition_time,
            message: from.message,
            reason: from.reason,
            status: from.status,
            type_: from.type_,
        };
        let status = ReplicationControllerStatus {
            available_replicas: status.available_replicas,
            conditions: status.conditions.map(|list| list.into_iter().map(condition).collect()),
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
        };
        Self { status: Some(status), ..self.clone() }
    }
}
