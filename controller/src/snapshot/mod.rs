//! Snapshots of volumes as the controllers see them: the kinds of `snapshot.storage.k8s.io/v1`, which every orlop serves.
//!
//! They are no part of Kubernetes' own API, so their types are here (upstream: kubernetes-csi/external-snapshotter,
//! client/apis/volumesnapshot/v1). What the server checks is in its definitions of them; here is only the shape.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::{ClusterResourceScope, ListableResource, Metadata, NamespaceResourceScope, Resource};
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The group of the kinds.
pub const GROUP: &str = "snapshot.storage.k8s.io";
const VERSION: &str = "v1";
const API_VERSION: &str = "snapshot.storage.k8s.io/v1";

/// The `apiVersion` of the kinds. It has one value, and objects of another are not read.
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

/// What somebody asks for: a snapshot of a claim's volume, or a snapshot that is there already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct VolumeSnapshot {
    /// Always the same.
    #[serde(default)]
    pub api_version: ApiVersion,
    /// Name, namespace and the like.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is asked for.
    pub spec: VolumeSnapshotSpec,
    /// What has become of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VolumeSnapshotStatus>,
}

/// What somebody asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSpec {
    /// Of what.
    pub source: VolumeSnapshotSource,
    /// The class; without one, the default class of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
}

/// Where a snapshot comes from: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSource {
    /// A claim in the namespace of the snapshot: one is to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
    /// A content: it is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_content_name: Option<String>,
}

/// What has become of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotStatus {
    /// The content. Bound are the two only when the content points back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_volume_snapshot_content_name: Option<String>,
    /// When the storage has taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// A volume can be made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The least size of a volume that is made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<Quantity>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// The snapshot of a group that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_name: Option<String>,
}

/// Why an attempt failed, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotError {
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Why; holds no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A snapshot in a storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct VolumeSnapshotContent {
    /// Always the same.
    #[serde(default)]
    pub api_version: ApiVersion,
    /// Name and the like.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it is.
    pub spec: VolumeSnapshotContentSpec,
    /// What the driver says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VolumeSnapshotContentStatus>,
}

/// What a snapshot in a storage is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentSpec {
    /// The snapshot that it belongs to; without a UID, the one of this name that comes first.
    pub volume_snapshot_ref: ObjectReference,
    /// What is to be done with it when its snapshot is deleted.
    pub deletion_policy: DeletionPolicy,
    /// Name of the CSI driver.
    pub driver: String,
    /// Class that it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
    /// What it is made of.
    pub source: VolumeSnapshotContentSource,
    /// Mode of the volume that it was taken of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_volume_mode: Option<String>,
}

/// What a content is made of: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentSource {
    /// Handle of a volume: a snapshot of it is to be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_handle: Option<String>,
    /// Handle of a snapshot: it is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
}

/// What a driver says of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentStatus {
    /// What the driver calls it; empty while it is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
    /// When it was taken, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<i64>,
    /// Its size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<i64>,
    /// A volume can be made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// What the driver calls the snapshot of a group that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_handle: Option<String>,
}

/// What snapshots are made with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct VolumeSnapshotClass {
    /// Always the same.
    #[serde(default)]
    pub api_version: ApiVersion,
    /// Name and the like.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Name of the CSI driver.
    pub driver: String,
    /// What the driver is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// The policy of contents that are made with it.
    pub deletion_policy: DeletionPolicy,
}

/// What is done with a snapshot in a storage when nobody asks for it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeletionPolicy {
    /// It is deleted.
    Delete,
    /// It is kept. The API has no default; for a value in memory the harmless one is.
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
