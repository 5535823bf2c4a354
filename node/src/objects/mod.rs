//! Objects that pods refer to: claims, volumes, attachments, and whatever else plugins look up. They are read from the server
//! when they are needed and followed while something uses them; nothing here caches the whole cluster.
//!
//! * [`Objects`]: reads one object, now.
//! * [`claims::Claims`]: tells when a claim that is in use has changed, from one watch of all claims.
//! * [`object_watch::ObjectWatches`]: one object of any kind, for as long as somebody holds on to it.

pub mod claims;
pub mod object_watch;

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use kube::Client;
use orlop_client::api::{Api, Object};
use orlop_client::client::message_of;

/// An object could not be read. The text is the server's, as upstream puts it into events.
#[derive(Debug, thiserror::Error)]
#[error("{}", message_of(.cause))]
pub struct ObjectError {
    /// `PersistentVolumeClaim`.
    pub kind: String,
    /// `namespace/name`, or `name`.
    pub key: String,
    /// The client's error; [`orlop_client::client::is_not_found`] tells whether it is not there.
    pub cause: Box<kube::Error>,
}

/// Reads objects. Clones share the client.
#[derive(Clone)]
pub struct Objects {
    client: Client,
}

impl Objects {
    /// Reads with this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// A claim as it is now.
    ///
    /// # Errors
    /// It is not there, or the server does not give it.
    pub async fn claim(&self, namespace: &str, name: &str) -> Result<PersistentVolumeClaim, ObjectError> {
        get(Api::namespaced(self.client.clone(), namespace), &format!("{namespace}/{name}"), name).await
    }

    /// A volume as it is now.
    ///
    /// # Errors
    /// It is not there, or the server does not give it.
    pub async fn volume(&self, name: &str) -> Result<PersistentVolume, ObjectError> {
        get(Api::all(self.client.clone()), name, name).await
    }

    /// A Node as it is now.
    ///
    /// # Errors
    /// It is not there, or the server does not give it.
    pub async fn node(&self, name: &str) -> Result<Node, ObjectError> {
        get(Api::all(self.client.clone()), name, name).await
    }
}

async fn get<K>(api: Api<K>, key: &str, name: &str) -> Result<K, ObjectError>
where
    K: Object<DynamicType = ()>,
{
    let failed = |cause| {
        let (kind, key) = (K::kind(&()).into_owned(), key.to_owned());
        ObjectError { kind, key, cause: Box::new(cause) }
    };
    api.get(name).await.map_err(failed)
}
