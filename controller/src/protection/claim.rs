//! PersistentVolumeClaim protection: a claim that a scheduled pod uses is not removed.
//!
//! The cache may be outdated, so the controller lists the pods live before it removes the finalizer. Queued
//! claims of one namespace share one list: keys move from the queue into one batch per namespace, and a worker
//! syncs the batch of one namespace at a time.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};

use futures::future::{BoxFuture, join};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Client;
use kube::api::ListParams;
use orlop_client::api::Api;
use orlop_client::failing::Syncs;

use super::{Need, ProtectionError, add, need, remove};
use crate::context::{Context, ControllerError};
use orlop_client::informer::{Change, Informer, key_of, split_key};
use orlop_client::names::{FINALIZER_PVC_PROTECTION, controller};
use orlop_client::pods;
use orlop_client::queue::WorkQueue;
use orlop_client::time_slice::TimeSlice;
use orlop_client::worker;

/// Pods per page.
const PAGE: u32 = 500;

/// Whether the pod prevents the removal of the claim. Only pods with a node count, in any phase (Tests:
/// PROT-PVC-5). An ephemeral claim is protected only by its owner (Tests: PROT-PVC-11, PROT-PVC-12), until the
/// owner is shut down.
pub fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    if pods::node_name(pod).is_none() || pod.metadata.namespace != claim.metadata.namespace {
        return false;
    }
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default();
    volumes.iter().any(|volume| {
        let direct = volume.persistent_volume_claim.as_ref().is_some_and(|c| c.claim_name == name);
        let ephemeral = volume.ephemeral.is_some()
            && !pods::is_shut_down(pod)
            && pods::ephemeral_claim_name(pod, &volume.name) == name
            && pods::owns_claim(pod, claim);
        direct || ephemeral
    })
}

/// The keys of the claims that a change of a pod may release: those of a deleted or terminated pod, or one
/// without a node.
fn freed(change: &Change<Pod>) -> Vec<String> {
    let mut keys = Vec::new();
    if let Some(pod) = change.new.as_deref()
        && (pods::is_terminated(pod) || pods::node_name(pod).is_none())
    {
        keys.extend(pods::claim_keys(pod));
    }
    if change.gone_uid().is_some()
        && let Some(old) = change.old()
    {
        keys.extend(pods::claim_keys(old));
    }
    keys
}

/// The claims that the pods of a namespace use, as [`uses`] decides it, of all pods at once.
#[derive(Debug, Default)]
pub struct Users {
    direct: HashSet<String>,
    /// Claims of ephemeral volumes, with the UID of the pod.
    ephemeral: HashSet<(String, String)>,
}

impl Users {
    /// Adds the claims of a pod of the namespace.
    pub fn add(&mut self, pod: &Pod) {
        if pods::node_name(pod).is_none() {
            return;
        }
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let direct = volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
        self.direct.extend(direct.map(|claim| claim.claim_name.clone()));
        let Some(uid) = pod.metadata.uid.as_ref().filter(|_| !pods::is_shut_down(pod)) else { return };
        let ephemeral = volumes.iter().filter(|volume| volume.ephemeral.is_some());
        let names = ephemeral.map(|volume| pods::ephemeral_claim_name(pod, &volume.name));
        self.ephemeral.extend(names.map(|name| (name, uid.clone())));
    }

    /// Whether one of the pods prevents the removal of a claim of the namespace.
    pub fn use_claim(&self, claim: &PersistentVolumeClaim) -> bool {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        if self.direct.contains(name) {
            return true;
        }
        let owner = claim.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
        owner.is_some_and(|owner| self.ephemeral.contains(&(name.to_owned(), owner.uid.clone())))
    }
}

struct Protection {
    client: Client,
    claims: Informer<PersistentVolumeClaim>,
    pods: Informer<Pod>,
    /// Keys of claims.
    queue: WorkQueue<String>,
    syncs: Syncs<String>,
    /// Namespaces with a batch.
    namespaces: WorkQueue<String>,
    batches: Mutex<BTreeMap<String, Vec<String>>>,
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let this = Protection {
            client: context.client.clone(),
            claims: context.informers.claims(),
            pods: context.informers.pods(),
            queue: WorkQueue::new(context.options.rate_limit),
            syncs: context.syncs::<PersistentVolumeClaim, _>(controller::PVC_PROTECTION),
            namespaces: WorkQueue::new(context.options.rate_limit),
            batches: Mutex::default(),
        };
        pods::index_by_claim(&this.pods);
        let _claims = this.claims.add_handler({
            let queue = this.queue.clone();
            move |change: &Change<PersistentVolumeClaim>| {
                if let Some(claim) = change.new.as_deref()
                    && need(claim, FINALIZER_PVC_PROTECTION) != Need::Nothing
                {
                    queue.add(key_of(claim));
                }
            }
        });
        let _pods = this.pods.add_handler({
            let queue = this.queue.clone();
            move |change: &Change<Pod>| freed(change).into_iter().for_each(|key| queue.add(key))
        });
        if !context.ready(join(this.claims.synced(), this.pods.synced())).await {
            return Ok(());
        }
        let working = worker::run_until(
            &context.shutdown,
            &this.namespaces,
            1,
            context.other_syncs(controller::PVC_PROTECTION),
            |namespace| this.work_on(namespace),
        );
        let collecting = async {
            tokio::select! {
                () = this.collect() => {}
                () = context.shutdown.cancelled() => this.queue.shutdown(),
            }
        };
        tokio::join!(working, collecting);
        Ok(())
    })
}

impl Protection {
    /// Moves keys into their batches. The queue treats a key as in progress until its batch is done.
    async fn collect(&self) {
        while let Some(key) = self.queue.get().await {
            let namespace = split_key(&key).0.to_owned();
            let mut batches = self.batches.lock();
            batches.entry(namespace.clone()).or_default().push(key);
            self.namespaces.add(namespace);
        }
    }

    /// Syncs the batch of a namespace. Never fails as a whole: each claim is retried separately.
    async fn work_on(&self, namespace: String) -> Result<(), ProtectionError> {
        let batch = self.batches.lock().remove(&namespace).unwrap_or_default();
        let mut live = None;
        for key in batch {
            let sync = self.sync(&key, &mut live);
            worker::attempt(&self.queue, &self.syncs, key.clone(), sync).await;
        }
        Ok(())
    }

    async fn sync(&self, key: &str, live: &mut Option<Users>) -> Result<(), ProtectionError> {
        let Some(claim) = self.claims.get(key) else { return Ok(()) };
        let api = Api::namespaced(self.client.clone(), split_key(key).0);
        match need(claim.as_ref(), FINALIZER_PVC_PROTECTION) {
            Need::Nothing => Ok(()),
            Need::Add => add(&api, claim.as_ref(), FINALIZER_PVC_PROTECTION).await,
            // Tests: PROT-PVC-5, PROT-PVC-7, PROT-PVC-11
            Need::Check if self.is_used(key, &claim, live).await? => Ok(()),
            // Tests: PROT-PVC-2, PROT-PVC-6, PROT-PVC-8, PROT-PVC-12
            Need::Check => remove(&api, claim.as_ref(), FINALIZER_PVC_PROTECTION).await,
        }
    }

    /// Checks the cache first. Only if no cached pod uses the claim, the pods are listed live, once per batch. All
    /// claims of the batch were terminating before that list, so no pod can have started to use them since.
    async fn is_used(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        live: &mut Option<Users>,
    ) -> Result<bool, ProtectionError> {
        if self.pods.each_by_index(pods::INDEX_CLAIM, key).any(|pod| uses(&pod, claim)) {
            return Ok(true);
        }
        let users = match live {
            Some(users) => users,
            None => {
                let listed = self.users(split_key(key).0).await;
                live.insert(listed.map_err(|cause| ProtectionError::Pods { key: key.to_owned(), cause })?)
            }
        };
        Ok(users.use_claim(claim))
    }

    /// Lists the pods of a namespace page by page. All pages are from the same revision.
    async fn users(&self, namespace: &str) -> kube::Result<Users> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let mut users = Users::default();
        let (mut parameters, mut slice) = (ListParams::default().limit(PAGE), TimeSlice::start());
        loop {
            let (list, pods) = slice.wait(api.list_lazily(&parameters)).await?;
            for pod in pods {
                users.add(&pod?);
                slice.yield_if_over().await;
            }
            match list.continue_ {
                Some(token) if !token.is_empty() => parameters = parameters.continue_token(&token),
                Some(_) | None => return Ok(users),
            }
        }
    }
}
