//! The registry of kinds: what there is, by path, by name and by place in the store.
//!
//! Adding a kind takes its own file and one line in [`KINDS`] (docs/adding-a-kind.md).

mod cells;
mod checks;
mod config_map;
mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod event;
mod events_k8s_io;
mod go_shown;
mod kind;
mod lease;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_spec;
mod pod_status;
mod pod_table;
mod pod_update;
mod pod_volume;
mod resource_quota;
mod secret;
mod service_account;
pub(crate) mod storage_class;
#[cfg(test)]
mod testing;
mod volume_attachment;
mod volume_attributes_class;
mod volume_rules;
mod volume_source;
#[cfg(test)]
mod volume_testing;

pub use kind::{
    ALL_VERBS, Column, DeleteAnswer, Generation, Kind, NameRule, Names, Policy, Scope, StatusSubresource,
    Subresource, UnknownField,
};

/// Every kind that is served.
pub const KINDS: &[&dyn Kind] = &[
    &config_map::ConfigMap,
    &event::Event,
    &limit_range::LimitRange,
    &namespace::Namespace,
    &node::Node,
    &persistent_volume_claim::PersistentVolumeClaim,
    &persistent_volume::PersistentVolume,
    &pod::Pod,
    &resource_quota::ResourceQuota,
    &secret::Secret,
    &service_account::ServiceAccount,
    &events_k8s_io::Event,
    &storage_class::StorageClass,
    &volume_attachment::VolumeAttachment,
    &csi_driver::CsiDriver,
    &csi_node::CsiNode,
    &csi_storage_capacity::CsiStorageCapacity,
    &volume_attributes_class::VolumeAttributesClass,
    &lease::Lease,
];

/// The kind at a path: `("", "v1", "pods")`.
pub fn by_resource(group: &str, version: &str, plural: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| {
        let names = kind.names();
        names.group == group && names.version == version && names.plural == plural
    })
}

/// The kind whose objects are stored under a prefix such as `/registry/pods/`, in its stored form.
pub fn by_storage_prefix(prefix: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| !kind.is_view() && kind.storage_prefix() == prefix)
}
