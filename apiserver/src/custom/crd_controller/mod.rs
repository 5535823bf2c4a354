//! Watches the definitions in the store: accepts their names, serves their kinds, and deletes the objects of
//! deleted definitions.
//!
//! Upstream: apiextensions-apiserver `pkg/controller/{status,establish,apiapproval,finalizer}`.

mod used_names;

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orlop_api::registry::custom_resource_definition::PREFIX;
use orlop_crd::accept::accept;
use orlop_crd::bundled;
use orlop_crd::definition::{FINALIZER, set_condition};
use orlop_store::{Expect, Key, Op, Record, Snapshot, Write};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Kinds;
use super::listed::Listed;
use crate::dispatch::{Resource, key_names};
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{KindRef, by_resource};
use crate::services::pool::HeldAllocations;
use crate::state::Inner;
use crate::system_objects::api_services;
use crate::verbs::delete::delete_named;
use crate::verbs::delete_collection;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::request::Request;
use orlop_api::object::{Object, show_time};
use orlop_api::query::Query;
use orlop_auth::UserInfo;
use used_names::UsedNames;

/// Delay before a retry.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Definitions that are checked before other tasks run.
const TURN: usize = 64;

/// Serves the stored definitions. Runs once before the server answers requests.
pub(crate) fn serve_stored(server: &Inner) {
    serve_all(&server.kinds, &server.store.head(), &server.closing);
}

/// Serves the definitions of a snapshot.
pub(crate) fn serve_all(kinds: &Kinds, head: &Snapshot<Projection>, closing: &CancellationToken) {
    kinds.serve(&DefinitionCache::default().read(head), closing);
}

/// The definitions of the last read, so that a change of one does not read all the others again.
#[derive(Default)]
struct DefinitionCache(HashMap<Key, Listed>);

impl DefinitionCache {
    fn read(&mut self, head: &Snapshot<Projection>) -> Vec<Listed> {
        let before = std::mem::take(&mut self.0);
        let known = |record: &Arc<Record<Projection>>| {
            let known = before.get(&record.key)?;
            (known.record.mod_revision == record.mod_revision).then(|| known.clone())
        };
        let all: Vec<Listed> = head
            .range(PREFIX, None)
            .filter_map(|record| known(record).or_else(|| Listed::of(record)))
            .collect();
        self.0 = all.iter().map(|listed| (listed.record.key.clone(), listed.clone())).collect();
        all
    }
}

/// Watches the definitions until the server closes.
pub(crate) async fn follow(server: Arc<Inner>) {
    let cleaning = Arc::new(Cleaning::default());
    let mut known = DefinitionCache::default();
    let mut published = api_services::custom(&server.kinds.now());
    loop {
        let head = server.store.head();
        let mut watcher = match server.store.watch(PREFIX, head.revision()) {
            Ok(watcher) => watcher,
            Err(error) => {
                tracing::warn!(%error, "cannot watch the definitions of custom kinds");
                if pause(&server).await { continue } else { return }
            }
        };
        let mut settled = settle(&server, &mut known, &cleaning).await;
        api_services::follow(&server, &mut published).await;
        loop {
            let changed = tokio::select! {
                () = server.closing.cancelled() => return,
                changed = watcher.next() => Some(changed),
                () = tokio::time::sleep(AGAIN_AFTER), if !settled => None,
            };
            if let Some(Err(error)) = changed {
                tracing::debug!(%error, "the watch of definitions is restarted");
                break;
            }
            settled = settle(&server, &mut known, &cleaning).await;
            api_services::follow(&server, &mut published).await;
        }
        if !pause(&server).await {
            return;
        }
    }
}

async fn pause(server: &Inner) -> bool {
    tokio::select! {
        () = server.closing.cancelled() => false,
        () = tokio::time::sleep(AGAIN_AFTER) => true,
    }
}

/// Reconciles the served kinds, and the status of every definition, with the store. Returns `false` if a write
/// must be retried.
async fn settle(server: &Arc<Inner>, known: &mut DefinitionCache, cleaning: &Arc<Cleaning>) -> bool {
    let stored = known.read(&server.store.head());
    let now = show_time(server.now());
    let mut used = UsedNames::of(bundled::definitions(), &stored);
    let mut wanted: Vec<Listed> = Vec::with_capacity(stored.len());
    for (at, listed) in stored.iter().enumerate() {
        if at % TURN == TURN - 1 {
            tokio::task::yield_now().await;
        }
        wanted.push(accepted(listed, &mut used, &now));
    }
    // Served first: clients may use a kind as soon as it is established.
    server.kinds.serve(&wanted, &server.closing);
    let mut settled = true;
    for (listed, next) in stored.iter().zip(&wanted) {
        if !Arc::ptr_eq(&listed.head, &next.head)
            && let Some(whole) = next.whole()
        {
            settled &= write(server, &listed.record, &whole).await;
        }
        let head = &next.head;
        if head.is_terminating() && head.finalizers().any(|finalizer| finalizer == FINALIZER) {
            Cleaning::begin(cleaning, server, head);
        }
    }
    settled
}

/// A definition after its names are accepted, or not. Names accepted in this round count for the definitions that follow.
fn accepted(listed: &Listed, used: &mut UsedNames, now: &Value) -> Listed {
    let mut next = listed.head.as_ref().clone();
    accept(&mut next, &[&used.by_others(&listed.head)], now);
    // Unchanged definitions share one copy.
    if next == *listed.head {
        return listed.clone();
    }
    used.replace(&listed.head, &next);
    Listed { head: Arc::new(next), ..listed.clone() }
}

async fn write(server: &Inner, record: &Arc<Record<Projection>>, object: &Object) -> bool {
    let Some(kind) = by_resource("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
        return true;
    };
    let mut object = object.clone();
    object.meta().remove("resourceVersion");
    let (value, view) = stored::encode(kind, &object);
    let expect = Expect::Revision(record.mod_revision);
    let write = Write { key: record.key.clone(), expect, op: Op::Put { value, view } };
    match server.store.commit(vec![write]).await {
        Ok(_) => true,
        Err(error) => {
            // If another writer has changed the definition, its event starts another round.
            tracing::debug!(%error, key = %record.key, "the status of a definition was not written");
            false
        }
    }
}

// === Cleaning up ===

/// The definitions with objects that are being deleted, by UID.
#[derive(Default)]
struct Cleaning(Mutex<BTreeMap<String, ()>>);

impl Cleaning {
    fn begin(own: &Arc<Self>, server: &Arc<Inner>, definition: &Object) {
        let uid = definition.uid().to_owned();
        let new = own.0.lock().insert(uid.clone(), ()).is_none();
        if !new {
            return;
        }
        let (own, server, name) = (own.clone(), server.clone(), definition.name().to_owned());
        let closing = server.closing.clone();
        tokio::spawn(async move {
            let work = async {
                while let Err(why) = clean(&server, &name, &uid).await {
                    tracing::warn!(
                        definition = name,
                        why,
                        "objects of a definition that is deleted are left"
                    );
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            };
            tokio::select! {
                () = closing.cancelled() => {}
                () = work => {}
            }
            own.0.lock().remove(&uid);
        });
    }
}

/// Deletes the objects of a definition, waits until none is left, and removes the finalizer.
async fn clean(server: &Arc<Inner>, name: &str, uid: &str) -> Result<(), String> {
    let head = server.store.head();
    let Some((mut record, definition)) = definition_of(&head, name, uid) else { return Ok(()) };
    if bundled::has(name) {
        // The bundled definition continues to serve the kind, so the objects remain.
        return remove_finalizer(server, &record, definition).await;
    }
    let Some(kind) = server.kinds.now().any_of(name) else {
        // Its names were never accepted, so it has no objects.
        return remove_finalizer(server, &record, definition).await;
    };
    let prefix = kind.storage_prefix();
    let mut watcher = server.store.watch(prefix, head.revision()).map_err(|error| error.to_string())?;
    // The objects to delete: all, and later those that have changed, or could not be deleted. Finalizers may hold many others.
    let mut due: Vec<Key> = head.range(prefix, None).map(|record| record.key.clone()).collect();
    drop(head);
    let mut is_marked = false;
    loop {
        due = delete_each(server, &kind, &due).await;
        let head = server.store.head();
        let is_same =
            head.get(record.key.as_str()).is_some_and(|now| now.mod_revision == record.mod_revision);
        let left = head.range(prefix, None).next().is_some();
        if !is_same || !left || !is_marked {
            let Some((now, definition)) = definition_of(&head, name, uid) else { return Ok(()) };
            if !left {
                return remove_finalizer(server, &now, definition).await;
            }
            if !is_marked {
                is_marked = true;
                let mut next = definition;
                let time = show_time(server.now());
                let message = "CustomResource deletion is in progress";
                set_condition(&mut next, "Terminating", "True", "InstanceDeletionInProgress", message, &time);
                write(server, &now, &next).await;
            }
            record = now;
        }
        let events = tokio::select! {
            events = watcher.next() => events.map_err(|error| error.to_string())?,
            () = tokio::time::sleep(AGAIN_AFTER), if !due.is_empty() => Vec::new(),
        };
        due.extend(events.iter().filter(|event| event.record.is_some()).map(|event| event.key.clone()));
        due.sort();
        due.dedup();
    }
}

/// The definition with this uid.
fn definition_of(
    head: &Snapshot<Projection>,
    name: &str,
    uid: &str,
) -> Option<(Arc<Record<Projection>>, Object)> {
    let record = head.get(&format!("{PREFIX}{name}"))?.clone();
    let definition = stored::decode(&record).ok()?;
    (definition.uid() == uid).then_some((record, definition))
}

/// Deletes objects; returns those that have to be deleted again. An object that cannot be deleted does not block the others.
async fn delete_each(server: &Arc<Inner>, kind: &KindRef, keys: &[Key]) -> Vec<Key> {
    let options = DeleteOptions::default();
    let head = server.store.head();
    let records: Vec<Arc<Record<Projection>>> =
        keys.iter().filter_map(|key| head.get(key.as_str()).cloned()).collect();
    drop(head);
    let mut failed = Vec::new();
    for group in delete_collection::groups(&records) {
        let deletes = group.iter().map(|record| {
            let (namespace, name) = key_names(&**kind, record.key.as_str());
            let request = request(server, kind, namespace, name);
            let options = &options;
            // Only the result is kept, not the deleted object.
            async move { delete_named(&request, name, options, &mut Vec::new()).await.map(drop) }
        });
        for (result, record) in futures::future::join_all(deletes).await.into_iter().zip(group) {
            match result {
                Ok(()) => {}
                // Another writer has removed it, or its change is the next event.
                Err(error) if error.code == 404 || error.code == 409 => {}
                Err(error) => {
                    tracing::debug!(key = %record.key, %error, "an object of a deleted definition is left");
                    failed.push(record.key.clone());
                }
            }
        }
        tokio::task::yield_now().await;
    }
    failed
}

fn request(server: &Arc<Inner>, kind: &KindRef, namespace: &str, name: &str) -> Request {
    Request {
        server: server.clone(),
        resource: Resource {
            kind: kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            watch_path: false,
        },
        query: Query::parse(None),
        accept: None,
        content_type: None,
        user: UserInfo::admin(),
        user_agent: String::new(),
        credential: None,
        connection: None,
        pretty: false,
        upgrade: None,
        proxied: None,
        body: Bytes::new(),
        held: HeldAllocations::default(),
        grown: Default::default(),
        audited: None,
        admission: Default::default(),
    }
}

/// Removes the finalizer, and deletes the definition if it has no other finalizer.
async fn remove_finalizer(
    server: &Inner,
    record: &Arc<Record<Projection>>,
    mut object: Object,
) -> Result<(), String> {
    let Some(kind) = by_resource("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
        return Ok(());
    };
    let left: Vec<Value> =
        object.finalizers().filter(|finalizer| *finalizer != FINALIZER).map(Value::from).collect();
    let goes = left.is_empty();
    object.set(&["metadata", "finalizers"], json!(left));
    let now = show_time(server.now());
    let message = "removed all instances";
    set_condition(&mut object, "Terminating", "False", "InstanceDeletionCompleted", message, &now);
    object.meta().remove("resourceVersion");
    let op = if goes {
        Op::Delete
    } else {
        let (value, view) = stored::encode(kind, &object);
        Op::Put { value, view }
    };
    let expect = Expect::Revision(record.mod_revision);
    let write = Write { key: record.key.clone(), expect, op };
    server.store.commit(vec![write]).await.map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
