//! The namespace controller: deletes the pods of a terminating namespace, then all other content, then removes
//! the finalizer.
//!
//! Remaining content is checked again after a delay, as upstream, and immediately when a pod or claim of the
//! namespace disappears, because the other objects wait for those.

pub mod conditions;
pub mod content;

use std::time::Duration;

use futures::future::{BoxFuture, join3};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use kube::Client;
use kube::api::PostParams;
use orlop_client::api::Api;

use crate::context::{Context, ControllerError};
use orlop_apimachinery::clock::Clock;
use orlop_client::api::Object;
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::informer::{Change, Informer, key_of, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::{NAMESPACE_FINALIZER, controller};
use orlop_client::queue::WorkQueue;
use orlop_client::worker;

/// Attempts at a status write that conflicts with other writers.
const CONFLICT_RETRIES: usize = 5;

/// Why a namespace could not be deleted.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// A request failed.
    #[error("cannot {what} namespace {name}: {cause}")]
    Api {
        /// The operation.
        what: &'static str,
        /// The namespace.
        name: String,
        /// Why.
        cause: kube::Error,
    },
    /// Some content could not be deleted.
    #[error("cannot empty namespace {name}: {causes}")]
    Content {
        /// The namespace.
        name: String,
        /// Why, for each resource.
        causes: String,
    },
}

/// Whether the namespace still has the `kubernetes` finalizer.
fn held_by_us(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|s| s.finalizers.as_deref()).unwrap_or_default();
    finalizers.iter().any(|f| f == NAMESPACE_FINALIZER)
}

/// The controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let namespaces = context.informers.namespaces();
        let delay = context.options.namespace_deletion_delay;
        let _namespaces = namespaces.add_handler({
            let queue = queue.clone();
            move |change: &Change<Namespace>| {
                if let Some(namespace) = change.new.as_deref().filter(|ns| is_terminating(*ns)) {
                    queue.add_after(key_of(namespace), delay);
                }
            }
        });
        let (pods, claims) = (context.informers.pods(), context.informers.claims());
        let _pods = pods.add_handler(content_gone::<Pod>(&queue, &namespaces));
        let _claims = claims.add_handler(content_gone::<PersistentVolumeClaim>(&queue, &namespaces));
        if !context.ready(join3(namespaces.synced(), pods.synced(), claims.synced())).await {
            return Ok(());
        }
        let this = Emptying { client: context.client.clone(), clock: context.clock, queue: queue.clone() };
        let workers = context.options.concurrent_namespace_syncs;
        worker::run_until(
            &context.shutdown,
            &queue,
            workers,
            context.syncs::<Namespace, _>(controller::NAMESPACE),
            |name| this.sync(name),
        )
        .await;
        Ok(())
    })
}

/// A handler that queues the namespace when an object of it, possibly the last obstacle, disappears.
fn content_gone<K: Object>(
    queue: &WorkQueue<String>,
    namespaces: &Informer<Namespace>,
) -> impl Fn(&Change<K>) + Send + Sync + 'static {
    let (queue, namespaces) = (queue.clone(), namespaces.clone());
    move |change| {
        let name = split_key(change.key()).0;
        if change.is_gone() && namespaces.get(name).is_some_and(|ns| is_terminating(ns.as_ref())) {
            queue.add(name.to_owned());
        }
    }
}

struct Emptying {
    client: Client,
    clock: Clock,
    queue: WorkQueue<String>,
}

impl Emptying {
    /// Every write is idempotent: phase, deletions, conditions, finalizer. After any failure the next sync starts
    /// over and skips the completed steps.
    async fn sync(&self, name: String) -> Result<(), NamespaceError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = api.get_opt(&name).await;
        let found = found.map_err(|cause| NamespaceError::Api { what: "read", name: name.clone(), cause })?;
        let Some(namespace) = found.filter(|ns| is_terminating(ns) && held_by_us(ns)) else { return Ok(()) };
        self.write_status(&api, &namespace, |status| status.phase = Some("Terminating".to_owned())).await?;
        let outcome = content::delete_all(&self.client, &name).await;
        let now = self.clock.now();
        self.write_status(&api, &namespace, |status| conditions::apply(status, &outcome, now)).await?;
        if !outcome.failures().is_empty() {
            let causes = outcome.failures().join("; ");
            return Err(NamespaceError::Content { name, causes });
        }
        if let Some(seconds) = outcome.estimate() {
            // Half of the estimate plus one second, as upstream.
            self.queue.add_after(name, Duration::from_secs(seconds / 2 + 1));
            return Ok(());
        }
        self.finalize(&api, &name).await
    }

    async fn write_status(
        &self,
        api: &Api<Namespace>,
        namespace: &Namespace,
        change: impl Fn(&mut k8s_openapi::api::core::v1::NamespaceStatus),
    ) -> Result<(), NamespaceError> {
        let name = namespace.metadata.name.clone().unwrap_or_default();
        let failed = |cause| NamespaceError::Api { what: "write the status of", name: name.clone(), cause };
        let mut current = namespace.clone();
        for attempt in 1.. {
            let mut next = current.clone();
            change(next.status.get_or_insert_default());
            if next.status == current.status {
                return Ok(());
            }
            match api.replace_status(&name, &PostParams::default(), &next).await {
                Ok(_) => return Ok(()),
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(error) if !is_conflict(&error) || attempt == CONFLICT_RETRIES => {
                    return Err(failed(error));
                }
                Err(_) => match api.get_opt(&name).await.map_err(failed)? {
                    Some(fresh) => current = fresh,
                    None => return Ok(()),
                },
            }
        }
        Ok(())
    }

    async fn finalize(&self, api: &Api<Namespace>, name: &str) -> Result<(), NamespaceError> {
        let failed = |cause| NamespaceError::Api { what: "finalize", name: name.to_owned(), cause };
        let Some(mut namespace) = api.get_opt(name).await.map_err(failed)? else { return Ok(()) };
        if let Some(finalizers) = namespace.spec.get_or_insert_default().finalizers.as_mut() {
            finalizers.retain(|f| f != NAMESPACE_FINALIZER);
        }
        match api.replace_subresource("finalize", name, &PostParams::default(), &namespace).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(failed(cause)),
        }
    }
}

#[cfg(test)]
mod tests;
