//! Reads and watches the objects that pods refer to: claims, volumes, and others that plugins need.
//! Objects are read from the server when they are needed and watched while they are in use; no module here caches
//! the whole cluster.
//!
//! * [`Objects`]: reads one object.
//! * [`claims::Claims`]: reports changes of claims in use, from one watch of all claims or by reading them.
//! * [`object_watch::ObjectWatches`]: watches single objects of any kind, each for as long as it has users.

pub mod claims;
pub mod object_watch;

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use kube::Client;
use orlop_client::api::{Api, Object};
use orlop_client::client::message_of;

/// An object could not be read. The text is the server's, as upstream copies it into events.
#[derive(Debug, thiserror::Error)]
#[error("{}", message_of(.cause))]
pub struct ObjectError {
    /// The kind, such as `PersistentVolumeClaim`.
    pub kind: String,
    /// The key: `namespace/name`, or `name`.
    pub key: String,
    /// The client's error; [`orlop_client::client::is_not_found`] reports whether the object does not exist.
    pub cause: Box<kube::Error>,
}

/// Reads objects. Clones share the client.
#[derive(Clone)]
pub struct Objects {
    client: Client,
}

impl Objects {
    /// Reads through this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Reads a claim.
    ///
    /// # Errors
    /// It does not exist, or the request failed.
    pub async fn claim(&self, namespace: &str, name: &str) -> Result<PersistentVolumeClaim, ObjectError> {
        get(Api::namespaced(self.client.clone(), namespace), &format!("{namespace}/{name}"), name).await
    }

    /// Reads a volume.
    ///
    /// # Errors
    /// It does not exist, or the request failed.
    pub async fn volume(&self, name: &str) -> Result<PersistentVolume, ObjectError> {
        get(Api::all(self.client.clone()), name, name).await
    }

    /// Reads a Node.
    ///
    /// # Errors
    /// It does not exist, or the request failed.
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
