//! The default objects of every active namespace: the ServiceAccount `default` ([`service_accounts`]) and the certificate
//! bundle that clients use to verify the server ([`root_ca`]). Both are created with the namespace and recreated
//! when deleted.
//!
//! Only objects of that one name are watched, not all objects of the kind (upstream:
//! pkg/controller/serviceaccount, pkg/controller/certificates/rootcacertpublisher).

pub mod root_ca;
pub mod service_accounts;

use std::fmt::Debug;

use futures::future::join;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::Status;
use orlop_client::api::Api;
use orlop_client::watcher::Selection;
use tokio_util::task::AbortOnDropHandle;

use crate::context::Context;
use orlop_client::api::Object;
use orlop_client::client::{is_already_exists, is_not_found, status_of};
use orlop_client::informer::{Change, Informer, key_of, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::queue::WorkQueue;
use orlop_client::worker;

/// Workers of each controller. Upstream: 1, without a flag.
const WORKERS: usize = 1;

/// Why a default object of a namespace is missing or outdated.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {name} in namespace {namespace}: {cause}")]
pub struct GivenError {
    /// The attempted operation.
    pub what: &'static str,
    /// Name of the object.
    pub name: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The cause.
    pub cause: kube::Error,
}

/// Whether a namespace gets the default objects. Only active namespaces do: a terminating namespace accepts no
/// new objects.
pub fn wants(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    !is_terminating(namespace) && matches!(phase, None | Some("Active"))
}

/// Whether a write failed because the namespace is deleted or terminating. The object is then no longer needed.
fn is_namespace_gone(error: &kube::Error) -> bool {
    let is_ending = |status: &Status| {
        let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
        causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
    };
    is_not_found(error) || status_of(error).is_some_and(is_ending)
}

/// The result of a write. An object that another client created meanwhile and a deleted namespace are no errors.
fn made<T>(result: kube::Result<T>) -> Result<(), kube::Error> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if is_already_exists(&error) || is_namespace_gone(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Maintains an object of one name in every active namespace. Calls `sync` with the name of a namespace when the
/// namespace or its object changes.
async fn keep<K, F, Fut>(
    context: &Context,
    controller: &'static str,
    api: Api<K>,
    name: &'static str,
    sync: F,
) where
    K: Object,
    F: Fn(Informer<Namespace>, Informer<K>, String) -> Fut,
    Fut: Future<Output = Result<(), GivenError>>,
{
    let queue = WorkQueue::new(context.options.rate_limit);
    let namespaces = context.informers.namespaces();
    let _namespaces = namespaces.add_handler({
        let queue = queue.clone();
        move |change: &Change<Namespace>| {
            if let Some(namespace) = change.new.as_deref().filter(|namespace| wants(namespace)) {
                queue.add(key_of(namespace));
            }
        }
    });
    let objects = Informer::<K>::new();
    let _objects = objects.add_handler({
        let queue = queue.clone();
        move |change: &Change<K>| queue.add(split_key(change.key()).0.to_owned())
    });
    let _following = AbortOnDropHandle::new(tokio::spawn({
        let (objects, shutdown) = (objects.clone(), context.shutdown.clone());
        let named = Selection::fields(&format!("metadata.name={name}"));
        async move { objects.run_selected(api, named, shutdown).await }
    }));
    if !context.ready(join(namespaces.synced(), objects.synced())).await {
        return;
    }
    worker::run_until(
        &context.shutdown,
        &queue,
        WORKERS,
        context.syncs::<Namespace, _>(controller),
        |namespace| sync(namespaces.clone(), objects.clone(), namespace),
    )
    .await;
}

#[cfg(test)]
mod tests;
