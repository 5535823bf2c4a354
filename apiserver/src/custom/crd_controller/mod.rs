//! Watches the definitions in the store: accepts their names, serves their kinds, and deletes the objects of
//! deleted definitions.
//!
//! Upstream: apiextensions-apiserver `pkg/controller/{status,establish,apiapproval,finalizer}`.

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
use crate::verbs::delete::delete_named;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::request::Request;
use orlop_api::object::{Object, show_time};
use orlop_api::query::Query;
use orlop_auth::UserInfo;

/// Delay before a retry.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of concurrent deletes.
const SIDE_BY_SIDE: usize = 256;

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
            .map(|record| known(record).unwrap_or_else(|| Listed::of(record)))
            .collect();
        self.0 = all.iter().map(|listed| (listed.record.key.clone(), listed.clone())).collect();
        all
    }
}

/// Watches the definitions until the server closes.
pub(crate) async fn follow(server: Arc<Inner>) {
    let cleaning = Arc::new(Cleaning::default());
    let mut known = DefinitionCache::default();
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
    let mut wanted: Vec<Listed> = Vec::with_capacity(stored.len());
    for (at, listed) in stored.iter().enumerate() {
        // Names accepted earlier in this round count for the definitions that follow.
        let others = wanted.iter().chain(&stored[at + 1..]).map(|other| &*other.head);
        let bundled = bundled::definitions().iter().filter(|other| other.name() != listed.head.name());
        let others: Vec<&Object> = bundled.chain(others).collect();
        let mut next = listed.head.as_ref().clone();
        accept(&mut next, &others, &now);
        // Unchanged definitions share one copy.
        let head = if next == *listed.head { listed.head.clone() } else { Arc::new(next) };
        wanted.push(Listed { head, ..listed.clone() });
    }
    // Served first: clients may use a kind as soon as it is established.
    server.kinds.serve(&wanted, &server.closing);
    let mut settled = true;
    for (listed, next) in stored.iter().zip(&wanted) {
        if !Arc::ptr_eq(&listed.head, &next.head) {
            settled &= write(server, &listed.record, &next.whole()).await;
        }
        let head = &next.head;
        if head.is_terminating() && head.finalizers().any(|finalizer| finalizer == FINALIZER) {
            Cleaning::begin(cleaning, server, head);
        }
    }
    settled
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
    let key = format!("{PREFIX}{name}");
    let mut told = false;
    loop {
        let head = server.store.head();
        let Some(record) = head.get(&key).cloned() else { return Ok(()) };
        let definition = stored::decode(&record);
        if definition.uid() != uid {
            return Ok(());
        }
        if bundled::has(name) {
            // The bundled definition continues to serve the kind, so the objects remain.
            return let_go(server, &record, definition).await;
        }
        let Some(kind) = server.kinds.now().any_of(name) else {
            // Its names were never accepted, so it has no objects.
            return let_go(server, &record, definition).await;
        };
        let prefix = kind.storage_prefix();
        let mut watcher = server.store.watch(prefix, head.revision()).map_err(|error| error.to_string())?;
        delete_all(server, &kind, &head).await?;
        let left = server.store.head().range(prefix, None).next().is_some();
        if !left {
            return let_go(server, &record, definition).await;
        }
        if !told {
            told = true;
            let mut next = definition;
            let now = show_time(server.now());
            let message = "CustomResource deletion is in progress";
            set_condition(&mut next, "Terminating", "True", "InstanceDeletionInProgress", message, &now);
            write(server, &record, &next).await;
        }
        watcher.next().await.map_err(|error| error.to_string())?;
    }
}

async fn delete_all(server: &Arc<Inner>, kind: &KindRef, head: &Snapshot<Projection>) -> Result<(), String> {
    let options = DeleteOptions::default();
    let records: Vec<Arc<Record<Projection>>> = head.range(kind.storage_prefix(), None).cloned().collect();
    for group in records.chunks(SIDE_BY_SIDE) {
        let requests: Vec<(Request, String)> = group
            .iter()
            .map(|record| {
                let (namespace, name) = key_names(&**kind, record.key.as_str());
                (request(server, kind, namespace, name), name.to_owned())
            })
            .collect();
        let deletes = requests.iter().map(|(request, name)| delete_named(request, name, &options));
        for result in futures::future::join_all(deletes).await {
            match result {
                Ok(_) => {}
                Err(error) if error.code == 404 || error.code == 409 => {}
                Err(error) => return Err(error.message),
            }
        }
    }
    Ok(())
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
        connection: None,
        pretty: false,
        upgrade: false,
        body: Bytes::new(),
        held: HeldAllocations::default(),
    }
}

/// Removes the finalizer, and deletes the definition if it has no other finalizer.
async fn let_go(server: &Inner, record: &Arc<Record<Projection>>, mut object: Object) -> Result<(), String> {
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
