//! The protection controllers: they keep the finalizers that stop bound volumes, used claims and named attributes
//! classes from disappearing, and take them away when nothing is left to protect.

pub mod attributes_class;
pub mod claim;
pub mod volume;

use std::fmt::Debug;

use kube::Resource;
use kube::api::PostParams;
use orlop_client::api::{Api, Object};

use orlop_client::client::is_not_found;
use orlop_client::meta::{has_finalizer, is_terminating, with_finalizer, without_finalizer};

/// What an object's finalizer asks for, as far as the object itself tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It lives without the finalizer.
    Add,
    /// It is being deleted and waits for us.
    Check,
    /// Nothing to do.
    Nothing,
}

/// Reads the need off an object. A terminating object never gets the finalizer (Tests: PROT-PVC-9).
pub fn need<K: Resource>(object: &K, finalizer: &str) -> Need {
    match (is_terminating(object), has_finalizer(object, finalizer)) {
        (false, false) => Need::Add,
        (true, true) => Need::Check,
        (false, true) | (true, false) => Need::Nothing,
    }
}

/// A finalizer could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ProtectionError {
    /// Adding failed.
    #[error("cannot add the protection finalizer to {key}: {cause}")]
    Add {
        /// The object.
        key: String,
        /// Why.
        cause: kube::Error,
    },
    /// Removing failed.
    #[error("cannot remove the protection finalizer from {key}: {cause}")]
    Remove {
        /// The object.
        key: String,
        /// Why.
        cause: kube::Error,
    },
    /// The pods of the claim's namespace could not be listed.
    #[error("cannot list the pods of {key} to see whether it is in use: {cause}")]
    Pods {
        /// The claim.
        key: String,
        /// Why.
        cause: kube::Error,
    },
}

/// Adds the finalizer to the version that is cached. If it fails the queue asks again; the object is only less
/// protected until then.
async fn add<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<(), ProtectionError>
where
    K: Object,
{
    let cause = match replace(api, with_finalizer(object, finalizer)).await {
        Ok(()) => return Ok(()),
        Err(cause) => cause,
    };
    Err(ProtectionError::Add { key: orlop_client::informer::key_of(object), cause })
}

/// Removes the finalizer from the version that is cached. If it fails the queue asks again and everything is looked
/// at anew.
async fn remove<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<(), ProtectionError>
where
    K: Object,
{
    let cause = match replace(api, without_finalizer(object, finalizer)).await {
        Ok(()) => return Ok(()),
        Err(cause) => cause,
    };
    Err(ProtectionError::Remove { key: orlop_client::informer::key_of(object), cause })
}

/// A conditional update: the cached resourceVersion goes along (I5). An object that is gone needs nothing.
async fn replace<K>(api: &Api<K>, object: K) -> kube::Result<()>
where
    K: Object,
{
    let name = object.meta().name.clone().unwrap_or_default();
    match api.replace(&name, &PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
