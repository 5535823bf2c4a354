//! Processing of one object by the garbage collector, based on live reads of the object and its owners. Every
//! write is conditional on the version that was read; after a failed write, the object is read and judged again.

use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use orlop_client::api::Api;
use serde_json::{Value, json};

use super::Meta;
use super::graph::{Graph, Node, Work, group_of};
use crate::gc::discovery::Served;
use orlop_client::client::is_not_found;
use orlop_client::meta::{has_finalizer, is_terminating};
use orlop_client::names::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::uid::Uid;

/// Size of the cache of owners known to be absent. Upstream: 500.
const ABSENT: usize = 500;
/// Maximum number of dependents that the deletion of one dependent checks, in a foreground deletion of their owner.
const AGAIN: usize = 100;
/// Maximum number of owners of an object that one attempt reads, one after the other.
const OWNERS: usize = 500;

/// Why an object could not be processed; it is retried.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// A request failed.
    #[error("cannot {what} {object}: {cause}")]
    Api {
        /// The operation.
        what: &'static str,
        /// The object.
        object: String,
        /// Why.
        cause: kube::Error,
    },
    /// The server does not serve the owner's kind.
    #[error("{object} has an owner of kind {kind} in {api_version}, which the server does not serve")]
    UnknownOwner {
        /// The object.
        object: String,
        /// The owner's kind.
        kind: String,
        /// The owner's group and version.
        api_version: String,
    },
}

/// The owners of an object, by their effect on it.
#[derive(Debug, Default, PartialEq)]
pub struct Owners {
    /// Owners that exist.
    pub solid: Vec<OwnerReference>,
    /// Owners that do not exist, or whose name now belongs to another object.
    pub dangling: Vec<OwnerReference>,
    /// Owners that are being deleted and wait for their dependents.
    pub waiting: Vec<OwnerReference>,
}

/// The action for an object.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum OwnerVerdict {
    /// A solid owner exists, and no reference is obsolete.
    Keep,
    /// A solid owner exists; the references to the other owners are removed.
    Loosen,
    /// No solid owner exists and an owner waits: the object's own dependents are deleted before it.
    Foreground,
    /// No solid owner exists: delete with the policy of the object's finalizers, else in the background.
    Delete,
}

/// Decides the action for an object that has owners.
pub fn judge(owners: &Owners, has_dependents: bool) -> OwnerVerdict {
    let in_vain = !owners.dangling.is_empty() || !owners.waiting.is_empty();
    match (owners.solid.is_empty(), in_vain) {
        (false, false) | (true, false) => OwnerVerdict::Keep,
        (false, true) => OwnerVerdict::Loosen,
        (true, true) if !owners.waiting.is_empty() && has_dependents => OwnerVerdict::Foreground,
        (true, true) => OwnerVerdict::Delete,
    }
}

/// The kinds that the server serves.
#[derive(Clone)]
pub struct Kinds(Arc<RwLock<Vec<Arc<Served>>>>);

impl Kinds {
    /// Creates the set with `served`.
    pub fn new(served: Vec<Arc<Served>>) -> Self {
        Kinds(Arc::new(RwLock::new(served)))
    }

    /// Replaces the set with `served`.
    pub fn replace(&self, served: Vec<Arc<Served>>) {
        *self.0.write() = served;
    }

    /// The kind of an owner. The reference may use another version than the preferred one: the object is the same.
    fn of(&self, reference: &OwnerReference) -> Option<Arc<Served>> {
        let (group, _) = group_of(&reference.api_version);
        let kinds = self.0.read();
        kinds.iter().find(|k| k.resource.group == group && k.resource.kind == reference.kind).cloned()
    }
}

/// Processes the work queue.
pub struct Collector {
    client: Client,
    kinds: Kinds,
    graph: Arc<Mutex<Graph>>,
    queue: WorkQueue<Work>,
    recorder: Recorder,
    absent: Mutex<Absent>,
}

/// `apiVersion kind namespace name uid` of owners that do not exist. UIDs are never reused.
#[derive(Default)]
struct Absent {
    known: HashSet<Arc<str>>,
    /// Oldest first.
    order: VecDeque<Arc<str>>,
}

impl Absent {
    fn insert(&mut self, entry: Arc<str>) {
        if !self.known.insert(Arc::clone(&entry)) {
            return;
        }
        self.order.push_back(entry);
        if self.order.len() > ABSENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl Collector {
    /// A collector for `graph`.
    pub fn new(
        client: Client,
        kinds: Kinds,
        graph: Arc<Mutex<Graph>>,
        queue: WorkQueue<Work>,
        recorder: Recorder,
    ) -> Self {
        Self { client, kinds, graph, queue, recorder, absent: Mutex::default() }
    }

    /// Processes one work item.
    pub async fn work(&self, work: Work) -> Result<(), CollectError> {
        match work {
            Work::Delete(uid) => self.attempt_delete(&uid).await,
            Work::Orphan(uid) => self.attempt_orphan(&uid).await,
        }
    }

    async fn attempt_delete(&self, uid: &Uid) -> Result<(), CollectError> {
        let Some(node) = self.graph().node(uid).cloned() else { return Ok(()) };
        if node.state().terminating && !node.state().foreground {
            return Ok(());
        }
        // Deleted or replaced: the watch delivers the deletion.
        let Some(live) = self.read(&node).await? else { return Ok(()) };
        if node.state().foreground {
            return self.finish_foreground(&node, &live).await;
        }
        if live.owner_references().is_empty() {
            return Ok(());
        }
        let owners = self.classify(&node, live.owner_references()).await?;
        let (has_dependents, is_cycle) = {
            let graph = self.graph();
            let mut dependents = graph.dependents(uid).peekable();
            (dependents.peek().is_some(), dependents.any(|dependent| dependent.state().foreground))
        };
        match judge(&owners, has_dependents) {
            OwnerVerdict::Keep => Ok(()),
            OwnerVerdict::Loosen => {
                let patch = json!({"ownerReferences": owners.solid});
                self.patch(&node, &live, patch, "remove owners in vain from").await?;
                if live.owner_references().len() > OWNERS {
                    self.queue.add(Work::Delete(uid.clone()));
                }
                Ok(())
            }
            OwnerVerdict::Foreground => {
                let mut version = live.metadata.resource_version.clone();
                if is_cycle {
                    // A cycle: each object would wait for the other. This one stops blocking its owners.
                    version = self.unblock(&node, &live).await?;
                }
                self.delete(&node, version, PropagationPolicy::Foreground).await
            }
            OwnerVerdict::Delete => {
                let policy = if has_finalizer(&live, FINALIZER_ORPHAN) {
                    PropagationPolicy::Orphan
                } else if has_finalizer(&live, FINALIZER_FOREGROUND) {
                    PropagationPolicy::Foreground
                } else {
                    PropagationPolicy::Background
                };
                self.delete(&node, live.metadata.resource_version.clone(), policy).await
            }
        }
    }

    /// Continues a foreground deletion: finishes it when no dependent blocks it any more, else queues the dependents.
    async fn finish_foreground(&self, node: &Node, live: &Meta) -> Result<(), CollectError> {
        let (is_blocked, waiting) = {
            let graph = self.graph();
            let mut blocking = graph.blocking(&node.uid).peekable();
            let is_blocked = blocking.peek().is_some();
            // All were queued when the deletion of the owner began; these are queued again in case one got lost.
            let waiting = blocking.take(AGAIN).filter(|dependent| !dependent.state().foreground);
            (is_blocked, waiting.map(|dependent| dependent.uid.clone()).collect::<Vec<Uid>>())
        };
        if !is_blocked {
            return self.drop_finalizer(node, live, FINALIZER_FOREGROUND).await;
        }
        for uid in waiting {
            self.queue.add(Work::Delete(uid));
        }
        Ok(())
    }

    /// Removes the owner reference from the dependents first and then the owner's finalizer. After a failure in
    /// between, the owner still has the finalizer, and the retry continues.
    async fn attempt_orphan(&self, uid: &Uid) -> Result<(), CollectError> {
        let Some(node) = self.graph().node(uid).cloned() else { return Ok(()) };
        let mut orphaned = HashSet::new();
        // The watch of a dependent's kind may be behind that of the owner's: dependents that arrive meanwhile are orphaned too.
        loop {
            let dependents: Vec<Node> = {
                let graph = self.graph();
                let new = graph.dependents(uid).filter(|dependent| !orphaned.contains(&dependent.uid));
                new.cloned().collect()
            };
            if dependents.is_empty() {
                break;
            }
            for dependent in dependents {
                self.orphan(&dependent, uid).await?;
                orphaned.insert(dependent.uid);
            }
        }
        match self.read(&node).await? {
            Some(live) => self.drop_finalizer(&node, &live, FINALIZER_ORPHAN).await,
            None => Ok(()),
        }
    }

    /// Removes the reference to an owner from a dependent.
    async fn orphan(&self, dependent: &Node, owner: &Uid) -> Result<(), CollectError> {
        let Some(live) = self.read(dependent).await? else { return Ok(()) };
        let owner = owner.to_string();
        let left: Vec<&OwnerReference> = live.owner_references().iter().filter(|o| o.uid != owner).collect();
        if left.len() < live.owner_references().len() {
            self.patch(dependent, &live, json!({"ownerReferences": left}), "orphan").await?;
        }
        Ok(())
    }

    /// Reads the owners. Of very many, the rest counts as existing until the first ones are removed.
    async fn classify(&self, node: &Node, references: &[OwnerReference]) -> Result<Owners, CollectError> {
        let mut owners = Owners::default();
        let (first, rest) = references.split_at(references.len().min(OWNERS));
        for reference in first {
            let list = match self.owner(node, reference).await? {
                None => &mut owners.dangling,
                Some(live) if is_terminating(&live) && has_finalizer(&live, FINALIZER_FOREGROUND) => {
                    &mut owners.waiting
                }
                Some(_) => &mut owners.solid,
            };
            list.push(reference.clone());
        }
        owners.solid.extend_from_slice(rest);
        Ok(owners)
    }

    /// Reads the owner that a reference names from the server; `None` if it does not exist.
    async fn owner(&self, node: &Node, reference: &OwnerReference) -> Result<Option<Meta>, CollectError> {
        let OwnerReference { api_version, kind, name, uid, .. } = reference;
        let Some(served) = self.kinds.of(reference) else {
            let (kind, api_version) = (kind.clone(), api_version.clone());
            return Err(CollectError::UnknownOwner { object: text(node), kind, api_version });
        };
        let namespace = if served.namespaced { node.namespace() } else { "" };
        let entry = format!("{api_version} {kind} {namespace} {name} {uid}");
        if self.absent().known.contains(entry.as_str()) {
            return Ok(None);
        }
        // A cluster-scoped object cannot have a namespaced owner.
        let impossible = served.namespaced && namespace.is_empty();
        if !impossible {
            let owner = self.api::<Meta>(&served, namespace).get_opt(name).await;
            let owner = owner.map_err(|cause| CollectError::Api {
                what: "read an owner of",
                object: text(node),
                cause,
            })?;
            if let Some(owner) = owner.filter(|o| o.metadata.uid.as_deref() == Some(uid)) {
                return Ok(Some(owner));
            }
        }
        let elsewhere = self
            .graph()
            .node(&Uid::from(uid.as_str()))
            .is_some_and(|o| !o.namespace().is_empty() && o.namespace() != node.namespace());
        if impossible || elsewhere {
            self.report_wrong_namespace(node, reference);
        }
        self.absent().insert(entry.into());
        Ok(None)
    }

    fn report_wrong_namespace(&self, node: &Node, reference: &OwnerReference) {
        let OwnerReference { api_version, kind, name, uid, .. } = reference;
        let namespace = node.namespace();
        let owner = format!("[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]");
        let involved = ObjectReference {
            api_version: Some(node.kind.resource.api_version.clone()),
            kind: Some(node.kind.resource.kind.clone()),
            namespace: Some(namespace.to_owned()).filter(|n| !n.is_empty()),
            name: Some(node.name().to_owned()),
            uid: Some(node.uid.to_string()),
            ..ObjectReference::default()
        };
        let message = format!("ownerRef {owner} does not exist in namespace {namespace:?}");
        self.recorder.event_for(involved, EventType::Warning, reason::OWNER_REF_INVALID_NAMESPACE, message);
    }

    async fn unblock(&self, node: &Node, live: &Meta) -> Result<Option<String>, CollectError> {
        let mut references = live.owner_references().to_vec();
        references.iter_mut().for_each(|o| o.block_owner_deletion = Some(false));
        self.patch(node, live, json!({"ownerReferences": references}), "unblock the owners of").await
    }

    async fn drop_finalizer(&self, node: &Node, live: &Meta, finalizer: &str) -> Result<(), CollectError> {
        if !has_finalizer(live, finalizer) {
            return Ok(());
        }
        let left: Vec<&String> = live.finalizers().iter().filter(|f| *f != finalizer).collect();
        self.patch(node, live, json!({"finalizers": left}), "remove a finalizer from").await.map(drop)
    }

    /// Reads the object of this node from the server; `None` if it was deleted or replaced.
    async fn read(&self, node: &Node) -> Result<Option<Meta>, CollectError> {
        let found = self.api::<Meta>(&node.kind, node.namespace()).get_opt(node.name()).await;
        let found = found.map_err(|cause| CollectError::Api { what: "read", object: text(node), cause })?;
        let uid = node.uid.to_string();
        Ok(found.filter(|live| live.metadata.uid.as_ref() == Some(&uid)))
    }

    /// Patches the metadata of exactly the version that was read. Returns the new version, or `None` if the object no
    /// longer exists.
    async fn patch(
        &self,
        node: &Node,
        live: &Meta,
        mut metadata: Value,
        what: &'static str,
    ) -> Result<Option<String>, CollectError> {
        metadata["resourceVersion"] = json!(live.metadata.resource_version);
        metadata["uid"] = json!(node.uid.to_string());
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let api: Api<DynamicObject> = self.api(&node.kind, node.namespace());
        match api.patch(node.name(), &PatchParams::default(), &patch).await {
            Ok(patched) => Ok(patched.metadata.resource_version),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(cause) => Err(CollectError::Api { what, object: text(node), cause }),
        }
    }

    async fn delete(
        &self,
        node: &Node,
        version: Option<String>,
        policy: PropagationPolicy,
    ) -> Result<(), CollectError> {
        let exactly = Preconditions { uid: Some(node.uid.to_string()), resource_version: version };
        let parameters = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        let api: Api<DynamicObject> = self.api(&node.kind, node.namespace());
        match api.delete(node.name(), &parameters.preconditions(exactly)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(CollectError::Api { what: "delete", object: text(node), cause }),
        }
    }

    fn api<K>(&self, kind: &Served, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = kube::core::ApiResource, Scope = kube::core::DynamicResourceScope>,
    {
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &kind.resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &kind.resource)
        }
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock()
    }

    fn absent(&self) -> MutexGuard<'_, Absent> {
        self.absent.lock()
    }
}

fn text(node: &Node) -> String {
    format!("{} {}", node.kind.resource.kind, node.key)
}
