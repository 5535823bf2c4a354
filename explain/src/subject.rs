//! The object to explain.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::model::Reference;

/// The object to explain.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A claim.
    Claim(Arc<PersistentVolumeClaim>),
    /// A volume.
    Volume(Arc<PersistentVolume>),
    /// A pod.
    Pod(Arc<Pod>),
    /// A node.
    Node(Arc<Node>),
    /// An attachment.
    Attachment(Arc<VolumeAttachment>),
    /// Any other object: its deletion can be explained, and refused creations.
    Other(Box<Other>),
}

/// An object of a kind without rules of its own.
#[derive(Clone, Debug)]
pub struct Other {
    /// A reference to the object.
    pub reference: Reference,
    /// The metadata.
    pub meta: ObjectMeta,
    /// The whole object.
    pub object: Value,
}

impl Subject {
    /// An object of any kind. `resource` is its plural name, without the group.
    ///
    /// # Errors
    /// The metadata are invalid.
    pub fn other(resource: &str, object: Value) -> serde_json::Result<Self> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let meta: ObjectMeta = serde_json::from_value(object.get("metadata").cloned().unwrap_or_default())?;
        let group = api_version.split_once('/').map(|(group, _)| group);
        let reference = Reference {
            resource: group.map_or_else(|| resource.to_owned(), |group| format!("{resource}.{group}")),
            kind,
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone(),
            api_version,
        };
        Ok(Self::Other(Box::new(Other { reference, meta, object })))
    }

    /// The metadata of the object.
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Claim(object) => &object.metadata,
            Self::Volume(object) => &object.metadata,
            Self::Pod(object) => &object.metadata,
            Self::Node(object) => &object.metadata,
            Self::Attachment(object) => &object.metadata,
            Self::Other(other) => &other.meta,
        }
    }

    /// A reference to the object.
    pub fn reference(&self) -> Reference {
        match self {
            Self::Claim(object) => Reference::to(object.as_ref()),
            Self::Volume(object) => Reference::to(object.as_ref()),
            Self::Pod(object) => Reference::to(object.as_ref()),
            Self::Node(object) => Reference::to(object.as_ref()),
            Self::Attachment(object) => Reference::to(object.as_ref()),
            Self::Other(other) => other.reference.clone(),
        }
    }
}
