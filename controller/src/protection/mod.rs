//! The protection controllers: add the finalizers that prevent the removal of bound volumes, used claims and
//! referenced attributes classes, and remove each finalizer when its object is no longer in use.

pub mod attributes_class;
pub mod claim;
pub mod volume;

use std::fmt::Debug;

use kube::Resource;
use kube::api::PostParams;
use orlop_client::api::{Api, Object};

use orlop_client::client::is_not_found;
use orlop_client::meta::{has_finalizer, is_terminating, with_finalizer, without_finalizer};
use orlop_client::watcher::Undecodable;

/// The action that an object requires for its finalizer, derived from the object alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The object is not terminating and lacks the finalizer.
    Add,
    /// The object is terminating and has the finalizer: check whether it is in use.
    Check,
    /// Nothing to do.
    Nothing,
}

/// Derives the action from an object. A terminating object never gets the finalizer (Tests: PROT-PVC-9).
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
    /// Adding the finalizer failed.
    #[error("cannot add the protection finalizer to {key}: {cause}")]
    Add {
        /// The object.
        key: String,
        /// The cause.
        cause: kube::Error,
    },
    /// Removing the finalizer failed.
    #[error("cannot remove the protection finalizer from {key}: {cause}")]
    Remove {
        /// The object.
        key: String,
        /// The cause.
        cause: kube::Error,
    },
    /// An object that may use the class cannot be decoded.
    #[error("cannot see whether {key} is in use: {cause}")]
    Users {
        /// The class.
        key: String,
        /// The object.
        cause: Undecodable,
    },
    /// The pods of the claim's namespace could not be listed.
    #[error("cannot list the pods of {key} to see whether it is in use: {cause}")]
    Pods {
        /// The claim.
        key: String,
        /// The cause.
        cause: kube::Error,
    },
}

/// Adds the finalizer to the cached version. If the write fails, the queue retries; until then, the object is
/// less protected.
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

/// Removes the finalizer from the cached version. If the write fails, the queue retries with a new decision.
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

/// Updates the object on the condition that the server still has the cached resourceVersion (I5). An object that
/// no longer exists needs no update.
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
