//! The object that an explanation is about.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::model::Reference;

/// What is asked about.
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
    /// Anything else: its end can be explained, and what was refused to it.
    Other(Box<Other>),
}

/// An object of a kind that has no rules of its own here.
#[derive(Clone, Debug)]
pub struct Other {
    /// Which.
    pub reference: Reference,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// All of it.
    pub object: Value,
}

impl Subject {
    /// An object of any kind. `resource` is its plural, without a group.
    ///
    /// # Errors
    /// Metadata that are none.
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

    /// Its metadata.
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

    /// A reference to it.
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
