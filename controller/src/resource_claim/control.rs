//! Runs the controller: queues pods and claims on changes, and performs the decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, join3};
use k8s_openapi::api::core::v1::{Pod, PodResourceClaim};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use orlop_client::api::Api;
use orlop_client::client::{is_not_found, message_of};
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::{COMPONENT_RESOURCE_CLAIM, controller, reason};
use orlop_client::pods::node_name;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::claim::{Consumer, consumer, is_pod, is_superfluous, owning_entry, released, unprotected};
use super::created::CreatedClaims;
use super::pod::{ClaimName, PodClaims, entries, is_done, is_for, is_for_entry, new_claim, reserved_for};
use crate::context::{Context, ControllerError};
use crate::workload::owned::controller_of;

/// Upstream: `ResourceClaimController.ConcurrentSyncs`.
const WORKERS: usize = 50;
/// Field manager of the pod's status, as upstream.
const MANAGER: &str = "ResourceClaimController";
/// Name of the index of pods by the claims that they use.
const INDEX_CLAIM: &str = "resource-claim";
/// Name of the index of claims by namespace, the UID of the pod that they were created for, and the entry.
const INDEX_ENTRY: &str = "pod-entry";

fn entry_value(namespace: &str, pod_uid: &str, entry: &str) -> String {
    [namespace, "/", pod_uid, "/", entry].concat()
}

/// A key of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Pod(String),
    Claim(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Pod(key) => write!(f, "pod:{key}"),
            Key::Claim(key) => write!(f, "claim:{key}"),
        }
    }
}

/// A sync failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResourceClaimError {
    /// The claim of a pod could not be created.
    #[error("pod {pod}, PodResourceClaim {entry}: {why}")]
    Create {
        /// The pod.
        pod: String,
        /// The entry in its `spec.resourceClaims`.
        entry: String,
        /// Why.
        why: String,
    },
    /// The server rejected a request.
    #[error("cannot {what} {key}: {cause}")]
    Api {
        /// The action.
        what: &'static str,
        /// The object.
        key: String,
        /// Why.
        cause: kube::Error,
    },
}

fn failed(what: &'static str, key: &str) -> impl FnOnce(kube::Error) -> ResourceClaimError {
    let key = key.to_owned();
    move |cause| ResourceClaimError::Api { what, key, cause }
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let this = Controller {
            client: context.client.clone(),
            pods: context.informers.pods(),
            claims: context.informers.of(),
            templates: context.informers.of(),
            created: CreatedClaims::default(),
            released: Mutex::default(),
            queue: WorkQueue::new(context.options.rate_limit),
            recorder: context.recorder(COMPONENT_RESOURCE_CLAIM),
        };
        let this = Arc::new(this);
        this.pods.add_index(INDEX_CLAIM, |pod| {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            PodClaims::of(pod).names().into_iter().map(|name| format!("{namespace}/{name}")).collect()
        });
        this.claims.add_index(INDEX_ENTRY, |claim| {
            let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
            owning_entry(claim).map(|(uid, entry)| entry_value(namespace, uid, entry)).into_iter().collect()
        });
        let _pods = this.pods.add_handler({
            let this = Arc::clone(&this);
            move |change: &Change<Pod>| this.pod_changed(change)
        });
        let _claims = this.claims.add_handler({
            let this = Arc::clone(&this);
            move |change: &Change<ResourceClaim>| {
                if let Some(uid) = change.gone_uid() {
                    this.released.lock().remove(&uid.to_string());
                }
                if let Some(claim) = change.new.as_deref() {
                    if let Some((uid, entry)) = owning_entry(claim) {
                        this.created.remove(uid, entry, change.key());
                    }
                    this.queue.add(Key::Claim(change.key().to_string()));
                }
                let users = this.pods.indexed_keys(INDEX_CLAIM, change.key(), "");
                users.into_iter().for_each(|key| this.queue.add(Key::Pod(key.to_string())));
            }
        });
        if !context.ready(join3(this.pods.synced(), this.claims.synced(), this.templates.synced())).await {
            return Ok(());
        }
        let syncs = context.other_syncs(controller::RESOURCE_CLAIM);
        let this: &Controller = &this;
        let sync = |key: Key| async move {
            match key {
                Key::Pod(key) => this.sync_pod(&key).await,
                Key::Claim(key) => this.sync_claim(&key).await,
            }
        };
        worker::run_until(&context.shutdown, &this.queue, WORKERS, syncs, sync).await;
        Ok(())
    })
}

struct Controller {
    client: Client,
    pods: Informer<Pod>,
    claims: Informer<ResourceClaim>,
    templates: Informer<ResourceClaimTemplate>,
    created: CreatedClaims,
    /// The UIDs of claims that were released and may still have the finalizer, because the write that removes it may fail.
    released: Mutex<BTreeSet<String>>,
    queue: WorkQueue<Key>,
    recorder: Recorder,
}

impl Controller {
    /// Queues a pod that may need claims, and the claims of a pod that has ended.
    fn pod_changed(&self, change: &Change<Pod>) {
        let claim_keys = |pod: &Pod| {
            let namespace = split_key(change.key()).0;
            PodClaims::of(pod)
                .names()
                .into_iter()
                .map(|name| Key::Claim(format!("{namespace}/{name}")))
                .collect::<Vec<_>>()
        };
        if change.gone_uid().is_some()
            && let Some(old) = change.old()
        {
            claim_keys(old).into_iter().for_each(|key| self.queue.add(key));
            self.created.remove_pod(old.metadata.uid.as_deref().unwrap_or_default());
        }
        let Some(pod) = change.new.as_deref() else { return };
        if is_done(pod) {
            claim_keys(pod).into_iter().for_each(|key| self.queue.add(key));
        } else if !entries(pod).is_empty() && !is_terminating(pod) {
            self.queue.add(Key::Pod(change.key().to_string()));
        }
    }

    /// Creates the missing claims, writes their names into the status of the pod, and reserves allocated claims. If the
    /// process stops before it writes the status, the next sync finds the claims.
    async fn sync_pod(&self, key: &str) -> Result<(), ResourceClaimError> {
        // The claims of an ended pod are deleted, and must not be created again.
        let Some(pod) = self.pods.get(key).filter(|pod| !is_terminating(pod.as_ref()) && !is_done(pod))
        else {
            return Ok(());
        };
        let namespace = split_key(key).0;
        let mut names: BTreeMap<String, Option<String>> = pod
            .status
            .iter()
            .flat_map(|status| status.resource_claim_statuses.iter().flatten())
            .map(|status| (status.name.clone(), status.resource_claim_name.clone()))
            .collect();
        let mut is_changed = false;
        let claims = PodClaims::of(&pod);
        for entry in entries(&pod) {
            if !claims.needs_claim(entry, |name| self.claims.get(&format!("{namespace}/{name}"))) {
                continue;
            }
            match self.claim_for(namespace, &pod, entry).await {
                Ok(name) => {
                    names.insert(entry.name.clone(), Some(name));
                    is_changed = true;
                }
                Err(why) => {
                    let message = format!("PodResourceClaim {}: {why}", entry.name);
                    let reason = reason::FAILED_RESOURCE_CLAIM_CREATION;
                    self.recorder.event(pod.as_ref(), EventType::Warning, reason, message);
                    let (pod, entry) = (key.to_owned(), entry.name.clone());
                    return Err(ResourceClaimError::Create { pod, entry, why });
                }
            }
        }
        if is_changed {
            self.write_names(key, &names).await?;
        }
        self.reserve(namespace, &pod).await
    }

    /// The claim of an entry: one that an earlier sync has created, or a new one.
    async fn claim_for(
        &self,
        namespace: &str,
        pod: &Pod,
        entry: &PodResourceClaim,
    ) -> Result<String, String> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let cached = self.claims.by_index(INDEX_ENTRY, &entry_value(namespace, uid, &entry.name));
        let cached =
            cached.iter().find(|claim| is_for_entry(pod, entry, claim) && !is_terminating(claim.as_ref()));
        if let Some(name) = cached.and_then(|claim| claim.metadata.name.clone()) {
            return Ok(name);
        }
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), namespace);
        if let Some(created) = self.created.get(uid, &entry.name) {
            let name = split_key(&created).1.to_owned();
            let claim = api.get_opt(&name).await.map_err(|error| message_of(&error))?;
            if claim.is_some_and(|claim| is_for_entry(pod, entry, &claim) && !is_terminating(&claim)) {
                return Ok(name);
            }
        }
        let template = entry.resource_claim_template_name.as_deref().unwrap_or_default();
        let Some(found) = self.templates.get(&format!("{namespace}/{template}")) else {
            return Err(format!(
                "resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found"
            ));
        };
        let claim = api.create(&PostParams::default(), &new_claim(pod, entry, &found)).await;
        let claim = claim.map_err(|error| format!("create ResourceClaim : {}", message_of(&error)))?;
        let name = claim.metadata.name.unwrap_or_default();
        let claim_key = format!("{namespace}/{name}");
        self.created.add(uid, &entry.name, &claim_key);
        // The watch may have reported the new claim, or the deletion of the pod, before the response.
        let is_cached = self.claims.get_kept(&claim_key).is_some();
        let pod_key = format!("{namespace}/{}", pod.metadata.name.as_deref().unwrap_or_default());
        let has_pod = self.pods.get_kept(&pod_key).is_some_and(|cached| cached.uid().to_string() == uid);
        if is_cached || !has_pod {
            self.created.remove(uid, &entry.name, &claim_key);
        }
        Ok(name)
    }

    async fn write_names(
        &self,
        key: &str,
        names: &BTreeMap<String, Option<String>>,
    ) -> Result<(), ResourceClaimError> {
        let (namespace, name) = split_key(key);
        let statuses = names.iter().map(|(name, claim)| match claim {
            Some(claim) => json!({"name": name, "resourceClaimName": claim}),
            None => json!({"name": name}),
        });
        let applied = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
            "status": {"resourceClaimStatuses": statuses.collect::<Vec<Value>>()},
        });
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        match api.patch_status(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(applied)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(failed("write the status of pod", key)(error)),
        }
    }

    /// Reserves the allocated claims of a pod that has a node. Otherwise the scheduler reserves them.
    async fn reserve(&self, namespace: &str, pod: &Pod) -> Result<(), ResourceClaimError> {
        if node_name(pod).is_none() {
            return Ok(());
        }
        let claims = PodClaims::of(pod);
        for entry in entries(pod) {
            let (name, is_generated) = match claims.name(entry) {
                ClaimName::Named(name) => (name, false),
                ClaimName::Generated(name) => (name, true),
                ClaimName::NotNeeded | ClaimName::Missing => continue,
            };
            let key = format!("{namespace}/{name}");
            let Some(claim) = self.claims.get(&key).filter(|claim| !is_generated || is_for(pod, claim))
            else {
                continue;
            };
            if let Some(reserved) = reserved_for(pod, &claim) {
                self.write_status(&key, &reserved).await?;
            }
        }
        Ok(())
    }

    async fn write_status(
        &self,
        key: &str,
        claim: &ResourceClaim,
    ) -> Result<Option<ResourceClaim>, ResourceClaimError> {
        let (namespace, name) = split_key(key);
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), namespace);
        match api.replace_status(name, &PostParams::default(), claim).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(failed("write the status of ResourceClaim", key)(error)),
        }
    }

    /// Removes consumers that have ended, then the allocation, then the finalizer, then the claim if it was created for an
    /// ended pod. Each write is conditional on the version that it follows; if one fails, the next sync continues with it.
    async fn sync_claim(&self, key: &str) -> Result<(), ResourceClaimError> {
        let Some(cached) = self.claims.get(key) else { return Ok(()) };
        let (namespace, name) = split_key(key);
        let mut needing = Vec::new();
        for reference in cached.status.iter().flat_map(|status| status.reserved_for.iter().flatten()) {
            if !is_pod(reference) {
                tracing::debug!(
                    claim = key,
                    resource = reference.resource,
                    "the kind of a consumer is not supported"
                );
                return Ok(());
            }
            let pod = self.pods.get(&format!("{namespace}/{}", reference.name));
            let still_needs = match consumer(reference, pod.as_deref()) {
                Consumer::Needs => true,
                Consumer::Ended => false,
                Consumer::Unknown => {
                    let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
                    let pod = api
                        .get_opt(&reference.name)
                        .await
                        .map_err(failed("get pods of ResourceClaim", key))?;
                    pod.is_some_and(|pod| pod.metadata.uid.as_ref() == Some(&reference.uid))
                }
            };
            if still_needs {
                needing.push(reference.clone());
            }
        }
        let is_unused = needing.is_empty();
        let mut claim = ResourceClaim::clone(&cached);
        let changed = released(&claim, needing);
        let uid = cached.metadata.uid.clone().unwrap_or_default();
        if let Some(changed) = changed {
            if changed.status.as_ref().is_some_and(|status| status.allocation.is_none()) {
                self.released.lock().insert(uid.clone());
            }
            let Some(written) = self.write_status(key, &changed).await? else { return Ok(()) };
            claim = written;
        }
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), namespace);
        let was_released = self.released.lock().contains(&uid);
        if let Some(changed) = unprotected(&claim, was_released) {
            match api.replace(name, &PostParams::default(), &changed).await {
                Ok(_) => {}
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(error) => return Err(failed("release ResourceClaim", key)(error)),
            }
        }
        self.released.lock().remove(&uid);
        let owner = controller_of(&cached.metadata).map(|owner| format!("{namespace}/{}", owner.name));
        let owner = owner.and_then(|key| self.pods.get(&key));
        if !is_unused || !is_superfluous(&cached, owner.as_deref()) {
            return Ok(());
        }
        let exactly = Preconditions { uid: cached.metadata.uid.clone(), resource_version: None };
        match api.delete(name, &DeleteParams::default().preconditions(exactly)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(failed("delete ResourceClaim", key)(error)),
        }
    }
}
