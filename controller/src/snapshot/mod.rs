//! The snapshot types of the controllers: the kinds of `snapshot.storage.k8s.io/v1`, which every orlop server
//! serves.
//!
//! The kinds are not part of the core Kubernetes API, so their types are defined here (upstream:
//! kubernetes-csi/external-snapshotter, client/apis/volumesnapshot/v1). These types define only the structure;
//! the server's definitions of the kinds contain the validation.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::{ClusterResourceScope, ListableResource, Metadata, NamespaceResourceScope, Resource};
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The API group of the kinds.
pub const GROUP: &str = "snapshot.storage.k8s.io";
const VERSION: &str = "v1";
const API_VERSION: &str = "snapshot.storage.k8s.io/v1";

/// The `apiVersion` of the kinds. It has one value; objects with another value fail to deserialize.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiVersion;

impl Serialize for ApiVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(API_VERSION)
    }
}

impl<'de> Deserialize<'de> for ApiVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text != API_VERSION {
            return Err(D::Error::invalid_value(Unexpected::Str(&text), &API_VERSION));
        }
        Ok(Self)
    }
}

/// A request for a snapshot of a claim's volume, or for an existing snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct VolumeSnapshot {
    /// The constant `apiVersion`.
    #[serde(default)]
    pub api_version: ApiVersion,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The request.
    pub spec: VolumeSnapshotSpec,
    /// The observed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VolumeSnapshotStatus>,
}

/// The request of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSpec {
    /// The source of the snapshot.
    pub source: VolumeSnapshotSource,
    /// The class; if unset, the default class of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
}

/// The source of a snapshot: exactly one of the two fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSource {
    /// A claim in the namespace of the snapshot. A new snapshot of its volume is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
    /// A content that represents an existing snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_content_name: Option<String>,
}

/// The observed state of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotStatus {
    /// The content. The two are bound only if the content references the snapshot too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_volume_snapshot_content_name: Option<String>,
    /// When the storage system took the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// Whether a volume can be created from the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The minimum size of a volume created from the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<Quantity>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// The group snapshot that the snapshot belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_name: Option<String>,
}

/// Why an attempt failed, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotError {
    /// The time of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// The cause; contains no secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A snapshot in the storage system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct VolumeSnapshotContent {
    /// The constant `apiVersion`.
    #[serde(default)]
    pub api_version: ApiVersion,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: VolumeSnapshotContentSpec,
    /// The state that the driver reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VolumeSnapshotContentStatus>,
}

/// The desired state of a snapshot in the storage system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentSpec {
    /// The snapshot that the content belongs to; without a UID, the first snapshot of that name.
    pub volume_snapshot_ref: ObjectReference,
    /// What happens to the stored snapshot when its VolumeSnapshot is deleted.
    pub deletion_policy: DeletionPolicy,
    /// Name of the CSI driver.
    pub driver: String,
    /// The class that the content was created with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
    /// The source.
    pub source: VolumeSnapshotContentSource,
    /// The mode of the source volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_volume_mode: Option<String>,
}

/// The source of a content: exactly one of the two fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentSource {
    /// The handle of a volume. A new snapshot of it is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_handle: Option<String>,
    /// The handle of an existing snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
}

/// The state of a snapshot that the driver reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentStatus {
    /// The driver's handle of the snapshot; empty while the snapshot is being created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
    /// When the snapshot was taken, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<i64>,
    /// The size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<i64>,
    /// Whether a volume can be created from the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// The driver's handle of the group snapshot that the snapshot belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_handle: Option<String>,
}

/// The class of snapshots: the settings for their creation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct VolumeSnapshotClass {
    /// The constant `apiVersion`.
    #[serde(default)]
    pub api_version: ApiVersion,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Name of the CSI driver.
    pub driver: String,
    /// The parameters that are passed to the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// The deletion policy of contents that are created with the class.
    pub deletion_policy: DeletionPolicy,
}

/// The handling of a stored snapshot after its VolumeSnapshot is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeletionPolicy {
    /// Delete the stored snapshot.
    Delete,
    /// Retain the stored snapshot. The API has no default; the in-memory default is this, the harmless value.
    #[default]
    Retain,
}

macro_rules! kind {
    ($kind:ident, $list:literal, $plural:literal, $scope:ty) => {
        impl Resource for $kind {
            const API_VERSION: &'static str = API_VERSION;
            const GROUP: &'static str = GROUP;
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = VERSION;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = $scope;
        }

        impl ListableResource for $kind {
            const LIST_KIND: &'static str = $list;
        }

        impl Metadata for $kind {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

kind!(VolumeSnapshot, "VolumeSnapshotList", "volumesnapshots", NamespaceResourceScope);
kind!(VolumeSnapshotContent, "VolumeSnapshotContentList", "volumesnapshotcontents", ClusterResourceScope);
kind!(VolumeSnapshotClass, "VolumeSnapshotClassList", "volumesnapshotclasses", ClusterResourceScope);

orlop_client::json!(VolumeSnapshot, VolumeSnapshotContent, VolumeSnapshotClass);

#[cfg(test)]
mod tests;
