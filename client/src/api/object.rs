//! Objects as JSON: each kind is encoded and decoded in one place.
//!
//! serde generates a decoder of every type for each crate and each kind of input that requests one, and the decoder of a pod has
//! hundreds of types: this was most of the compiler's work. So only this file calls `serde_json::from_slice` with a kind.
//! All other code calls [`Json::decode`], which is not generic.

use std::fmt::Debug;

use kube::Resource;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::Value;

/// An API type with one encoder and one decoder. [`json!`](crate::json) implements it.
pub trait Json: Sized {
    /// Decodes JSON, without the object's `managedFields`; see [`crate::strip_managed_fields`].
    ///
    /// # Errors
    /// The JSON has another shape.
    fn decode(json: &[u8]) -> serde_json::Result<Self>;

    /// Encodes the value as JSON.
    ///
    /// # Errors
    /// Returns an error if a key of a map is not a string.
    fn encode(&self) -> serde_json::Result<Vec<u8>>;

    /// Like [`decode`](Self::decode), from a [`Value`].
    ///
    /// # Errors
    /// Returns an error if the JSON does not match the type.
    fn from_value(value: &Value) -> serde_json::Result<Self> {
        Self::decode(&serde_json::to_vec(value)?)
    }

    /// Like [`encode`](Self::encode), into a [`Value`].
    ///
    /// # Errors
    /// Returns an error if a key of a map is not a string.
    fn to_value(&self) -> serde_json::Result<Value> {
        serde_json::from_slice(&self.encode()?)
    }
}

/// An API object that this client reads and writes.
pub trait Object: Json + Resource + Clone + Debug + Send + Sync + 'static {}

impl<K: Json + Resource + Clone + Debug + Send + Sync + 'static> Object for K {}

/// Implements [`Json`](crate::api::Json) for types that serde can encode and decode.
#[macro_export]
macro_rules! json {
    ($($kind:ty),+ $(,)?) => {$(
        impl $crate::api::Json for $kind {
            #[inline(never)]
            fn decode(json: &[u8]) -> ::serde_json::Result<Self> {
                $crate::api::decode_with(json, |json| $crate::strip_managed_fields::from_slice(json))
            }

            #[inline(never)]
            fn encode(&self) -> ::serde_json::Result<Vec<u8>> {
                ::serde_json::to_vec(self)
            }
        }
    )+};
}

pub(super) mod built_in {
    use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
    use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
    use k8s_openapi::api::authentication::v1::TokenReview;
    use k8s_openapi::api::authorization::v1::SubjectAccessReview;
    use k8s_openapi::api::batch::v1::{CronJob, Job};
    use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::{
        ConfigMap, Endpoints, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        PodTemplateSpec, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
    };
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
    use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    use k8s_openapi::api::rbac::v1::ClusterRole;
    use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
    use k8s_openapi::api::storage::v1::{
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
    };

    macro_rules! kinds {
        ($($kind:ident),+ $(,)?) => {
            crate::json!($($kind),+);

            /// All of them, for tests.
            #[cfg(test)]
            pub(in crate::api) fn kinds() -> Vec<crate::api::tests::TestKind> {
                vec![$(crate::api::tests::TestKind::of::<$kind>(stringify!($kind))),+]
            }
        };
    }

    kinds!(
        CSIDriver,
        CSINode,
        CSIStorageCapacity,
        CertificateSigningRequest,
        ClusterRole,
        ConfigMap,
        ControllerRevision,
        CronJob,
        DaemonSet,
        Deployment,
        EndpointSlice,
        Endpoints,
        Event,
        IPAddress,
        Job,
        Lease,
        Namespace,
        Node,
        PersistentVolume,
        PersistentVolumeClaim,
        Pod,
        PodDisruptionBudget,
        PodTemplateSpec,
        ReplicaSet,
        ReplicationController,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceQuota,
        Secret,
        Service,
        ServiceAccount,
        ServiceCIDR,
        StatefulSet,
        StorageClass,
        SubjectAccessReview,
        TokenReview,
        ValidatingAdmissionPolicy,
        VolumeAttachment,
        VolumeAttributesClass,
    );
}

json!(DynamicObject, PartialObjectMeta<DynamicObject>);
