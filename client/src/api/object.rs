//! Objects as JSON: each kind is encoded and decoded in one place.
//!
//! serde generates a decoder of every type for each crate and each kind of input that asks for one, and the decoder of a pod has
//! hundreds of types: this was most of what the compiler had to do. So only this file names `serde_json::from_slice`
//! with a kind. Everything else calls [`Object::decode`], which is not generic.

use std::fmt::Debug;

use kube::Resource;
use kube::core::{DynamicObject, PartialObjectMeta};

/// An object of the API that this client reads and writes. [`object!`](crate::object) implements it.
pub trait Object: Resource + Clone + Debug + Send + Sync + 'static {
    /// Decodes the JSON of one object, without its `managedFields`: see [`crate::strip_managed_fields`].
    ///
    /// # Errors
    /// The JSON is no object of this kind.
    fn decode(json: &[u8]) -> serde_json::Result<Self>;

    /// Encodes the object as JSON.
    ///
    /// # Errors
    /// A key of a map is not a string.
    fn encode(&self) -> serde_json::Result<Vec<u8>>;
}

/// Implements [`Object`] for types that serde can encode and decode.
#[macro_export]
macro_rules! object {
    ($($kind:ty),+ $(,)?) => {$(
        impl $crate::api::Object for $kind {
            #[inline(never)]
            fn decode(json: &[u8]) -> ::serde_json::Result<Self> {
                $crate::strip_managed_fields::from_slice(json)
            }

            #[inline(never)]
            fn encode(&self) -> ::serde_json::Result<Vec<u8>> {
                ::serde_json::to_vec(self)
            }
        }
    )+};
}

mod built_in {
    use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
    use k8s_openapi::api::authentication::v1::TokenReview;
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::{
        ConfigMap, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
    };
    use k8s_openapi::api::storage::v1::{
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
    };

    crate::object!(
        CSIDriver,
        CSINode,
        CSIStorageCapacity,
        ConfigMap,
        ControllerRevision,
        Deployment,
        Event,
        Lease,
        Namespace,
        Node,
        PersistentVolume,
        PersistentVolumeClaim,
        Pod,
        ReplicaSet,
        ReplicationController,
        ResourceQuota,
        Secret,
        Service,
        ServiceAccount,
        StatefulSet,
        StorageClass,
        TokenReview,
        VolumeAttachment,
        VolumeAttributesClass,
    );
}

object!(DynamicObject, PartialObjectMeta<DynamicObject>);
