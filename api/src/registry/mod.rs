//! The registry of built-in kinds: by path, by name and by storage prefix.
//!
//! A new kind requires its own file and one line in [`BUILTIN_KINDS`] (docs/adding-a-kind.md).

mod addresses;
pub mod admission_registration;
pub mod api_service;
mod autoscaling;
mod batch;
mod cells;
mod certificate_signing_request;
mod checks;
mod cluster_role;
mod component_status;
mod conditions;
mod config_map;
mod controller_revision;
#[cfg(test)]
mod cost_tests;
mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
pub mod custom_resource_definition;
mod daemon_set;
mod deployment;
pub mod dynamic_resources;
mod endpoint_slice;
mod endpoints;
mod event;
mod events_k8s_io;
pub mod expressions;
mod field_refs;
pub mod flow_control;
mod go_format;
mod json_defaults;
mod kinds_by_path;
mod lease;
mod limit_range;
mod namespace;
pub mod networking;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_owner;
mod pod_spec;
mod pod_status;
mod pod_table;
mod pod_template;
mod pod_update;
mod pod_volume;
pub mod priority_class;
mod pull_policy;
mod rbac;
mod replica_set;
mod replication_controller;
mod resource_quota;
mod review;
mod role;
mod role_binding;
mod runtime_class;
pub mod scale;
mod secret;
pub mod service;
mod service_account;
mod stateful_set;
pub mod storage_class;
mod stored_kinds;
#[cfg(test)]
mod testing;
mod volume_attachment;
mod volume_attributes_class;
mod volume_rules;
mod volume_source;
#[cfg(test)]
mod volume_testing;
mod workload;

use std::sync::LazyLock;

pub use crate::kind::{
    ALL_VERBS, Column, DefinitionId, DeleteAnswer, Generation, Kind, NameRule, Names, Policy, Requester,
    Review, ScalePaths, ScaleSelector, Scope, StatusSubresource, Subresource, UnknownField,
};
pub use crate::kind::{KindRef, Permission, TypeRef, WriteContext};
pub use cells::ago;
pub use kinds_by_path::KindsByPath;
pub use stored_kinds::{StoredKind, stored_kind, stored_kinds};

/// Every built-in kind except `CustomResourceDefinition`, whose validation is in `orlop-crd`. The registry of
/// the API server includes that one, too.
pub const BUILTIN_KINDS: &[&dyn Kind] = &[
    &config_map::ConfigMap,
    &endpoints::Endpoints,
    &event::Event,
    &limit_range::LimitRange,
    &namespace::Namespace,
    &node::Node,
    &persistent_volume_claim::PersistentVolumeClaim,
    &persistent_volume::PersistentVolume,
    &pod::Pod,
    &replication_controller::ReplicationController,
    &resource_quota::ResourceQuota,
    &secret::Secret,
    &service_account::ServiceAccount,
    &service::Service,
    &controller_revision::ControllerRevision,
    &daemon_set::DaemonSet,
    &deployment::Deployment,
    &replica_set::ReplicaSet,
    &stateful_set::StatefulSet,
    &events_k8s_io::Event,
    &review::TOKEN_REVIEW,
    &review::SELF_SUBJECT_REVIEW,
    &review::LOCAL_SUBJECT_ACCESS_REVIEW,
    &review::SELF_SUBJECT_ACCESS_REVIEW,
    &review::SELF_SUBJECT_RULES_REVIEW,
    &review::SUBJECT_ACCESS_REVIEW,
    &certificate_signing_request::CertificateSigningRequest,
    &pod_disruption_budget::PodDisruptionBudget,
    &role_binding::CLUSTER_ROLE_BINDING,
    &cluster_role::ClusterRole,
    &role_binding::ROLE_BINDING,
    &role::Role,
    &storage_class::StorageClass,
    &volume_attachment::VolumeAttachment,
    &csi_driver::CsiDriver,
    &csi_node::CsiNode,
    &csi_storage_capacity::CsiStorageCapacity,
    &volume_attributes_class::VolumeAttributesClass,
    &priority_class::PriorityClass,
    &lease::Lease,
    &endpoint_slice::EndpointSlice,
    &batch::CronJob,
    &batch::Job,
    &networking::IngressClass,
    &networking::Ingress,
    &networking::NetworkPolicy,
    &pod_template::PodTemplate,
    &dynamic_resources::ResourceSlice,
    &runtime_class::RuntimeClass,
    &autoscaling::HorizontalPodAutoscaler::V2,
    &autoscaling::HorizontalPodAutoscaler::V1,
    &flow_control::FlowSchema,
    &flow_control::PriorityLevelConfiguration,
    &networking::IpAddress,
    &networking::ServiceCidr,
    &api_service::ApiService,
    &component_status::ComponentStatus,
];

/// The kind at a path: `("", "v1", "pods")`.
pub fn by_resource(group: &str, version: &str, plural: &str) -> Option<&'static dyn Kind> {
    static KINDS: LazyLock<KindsByPath> = LazyLock::new(|| KindsByPath::new(BUILTIN_KINDS));
    KINDS.get(group, version, plural)
}

/// The kind with a storage prefix such as `/registry/pods/`, in its stored form.
pub fn by_storage_prefix(prefix: &str) -> Option<&'static dyn Kind> {
    BUILTIN_KINDS
        .iter()
        .copied()
        .find(|kind| kind.storage_prefix() == prefix && kind.is_stored() && !kind.is_view())
}

/// The kind that serves the same objects in another version, itself included.
pub fn sibling(kind: &dyn Kind, api_version: &str) -> Option<KindRef> {
    let is_sibling = |other: &&&'static dyn Kind| {
        other.storage_prefix() == kind.storage_prefix() && other.names().api_version() == api_version
    };
    let builtin = || BUILTIN_KINDS.iter().find(is_sibling).map(|kind| KindRef::Builtin(*kind));
    kind.custom_sibling(api_version).or_else(builtin)
}
