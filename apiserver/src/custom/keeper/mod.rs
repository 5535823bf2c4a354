//! Follows the definitions in the store: accepts their names, lets their kinds be served, and removes
//! the objects of those that are deleted.
//!
//! Upstream: apiextensions-apiserver `pkg/controller/{status,establish,apiapproval,finalizer}`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use orlop_store::{Expect, Key, Op, Record, Snapshot, Write};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Kinds;
use super::bundled;
use super::definition::{APPROVED, condition, is_established, is_protected, set_condition};
use crate::auth::UserInfo;
use crate::dispatch::{Resource, key_names};
use crate::encode::stored;
use crate::object::{Object, show_time};
use crate::projection::Projection;
use crate::query::Query;
use crate::registry::{KindRef, by_resource};
use crate::server::Inner;
use crate::services::Held;
use crate::verbs::delete::delete_named;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::request::Request;

/// Where definitions lie in the store.
pub(crate) const PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
/// What holds a definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Before something that failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Objects that are deleted side by side.
const SIDE_BY_SIDE: usize = 256;

/// Serves what the store holds. Runs once before the server answers anybody.
pub(crate) fn serve_stored(server: &Inner) {
    serve_all(&server.kinds, &server.store.head(), &server.closing);
}

/// Serves the definitions of a snapshot.
pub(crate) fn serve_all(kinds: &Kinds, head: &Snapshot<Projection>, closing: &CancellationToken) {
    kinds.serve(&Known::default().read(head), closing);
}

/// A definition in the store.
#[derive(Clone)]
pub(crate) struct Listed {
    record: Arc<Record<Projection>>,
    /// The definition without its versions. They are nearly all of it, and names, conditions and finalizers
    /// are read far more often.
    pub(crate) head: Arc<Object>,
}

impl Listed {
    fn of(record: &Arc<Record<Projection>>) -> Self {
        let mut head = stored::decode(record);
        head.remove(&["spec", "versions"]);
        Listed { record: record.clone(), head: Arc::new(head) }
    }

    /// The whole definition, with the status that `head` has.
    pub(crate) fn whole(&self) -> Object {
        let mut whole = stored::decode(&self.record);
        whole.copy_member(&self.head, "status");
        whole
    }
}

/// What was read last, so that the change of one definition does not read all the others again.
#[derive(Default)]
struct Known(HashMap<Key, Listed>);

impl Known {
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

/// Follows the definitions until the server closes.
pub(crate) async fn follow(server: Arc<Inner>) {
    let cleaning = Arc::new(Cleaning::default());
    let mut known = Known::default();
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
                tracing::debug!(%error, "the watch of definitions begins anew");
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

/// Brings what is served, and the status of every definition, in line with the store. `false` when
/// something is to be tried again.
async fn settle(server: &Arc<Inner>, known: &mut Known, cleaning: &Arc<Cleaning>) -> bool {
    let stored = known.read(&server.store.head());
    let now = show_time(server.now());
    let mut wanted: Vec<Listed> = Vec::with_capacity(stored.len());
    for (at, listed) in stored.iter().enumerate() {
        // What this round has accepted counts for those behind.
        let others = wanted.iter().chain(&stored[at + 1..]).map(|other| &*other.head);
        let bundled = bundled::definitions().iter().filter(|other| other.name() != listed.head.name());
        let others: Vec<&Object> = bundled.chain(others).collect();
        let mut next = listed.head.as_ref().clone();
        accept(&mut next, &others, &now);
        // What stays as it is is not kept twice.
        let head = if next == *listed.head { listed.head.clone() } else { Arc::new(next) };
        wanted.push(Listed { head, ..listed.clone() });
    }
    // Served first: whoever sees that a kind is established may use it at once.
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
            // When somebody else has written it, that write's event brings us here again.
            tracing::debug!(%error, key = %record.key, "the status of a definition was not written");
            false
        }
    }
}

// === Names ===

/// Decides on the names of a definition against those that others have, and on whether it is served.
pub(super) fn accept(object: &mut Object, others: &[&Object], now: &Value) {
    let group = object.str_at(&["spec", "group"]).to_owned();
    let names = object.at(&["spec", "names"]).cloned().unwrap_or_default();
    let before = object.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
    let taken = taken(&group, others);
    let mut accepted = before.as_object().cloned().unwrap_or_default();
    let mut conflict: Option<(&str, String)> = None;
    let mut note = |reason: &'static str, why: String| conflict = Some((reason, why));
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    for (name, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        let wanted = text(&names, name);
        if taken.resources.contains(&wanted) {
            note(reason, format!("{wanted:?} is already in use"));
        } else {
            accepted.insert(name.to_owned(), wanted.into());
        }
    }
    let list = |name: &str| -> Vec<String> {
        let list = names[name].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let short = list("shortNames");
    let used: Vec<String> = short
        .iter()
        .filter(|name| taken.resources.contains(*name))
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    if used.is_empty() {
        put_list(&mut accepted, "shortNames", short);
    } else {
        note("ShortNamesConflict", shown(&used));
    }
    for (name, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        let wanted = text(&names, name);
        if taken.kinds.contains(&wanted) {
            note(reason, format!("{wanted:?} is already in use"));
        } else {
            accepted.insert(name.to_owned(), wanted.into());
        }
    }
    put_list(&mut accepted, "categories", list("categories"));
    let (status, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, why)) => ("False", *reason, why.clone()),
    };
    if before.as_object() != Some(&accepted) {
        object.set(&["status", "acceptedNames"], accepted);
    }
    set_condition(object, "NamesAccepted", status, reason, &message, now);
    if !is_established(object) {
        match conflict {
            // The kind is served from the time on that its own controller has seen to it.
            None => set_condition(
                object,
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
                now,
            ),
            Some(_) => set_condition(
                object,
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted",
                now,
            ),
        }
    }
    approve(object, &group, now);
}

fn put_list(accepted: &mut serde_json::Map<String, Value>, name: &str, list: Vec<String>) {
    if list.is_empty() {
        accepted.remove(name);
    } else {
        accepted.insert(name.to_owned(), list.into());
    }
}

fn shown(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Whether somebody has approved a definition in one of Kubernetes' own groups.
fn approve(object: &mut Object, group: &str, now: &Value) {
    if !is_protected(group) {
        return;
    }
    let annotation = object.annotation(APPROVED).unwrap_or_default().to_owned();
    let (status, reason, message) = if annotation.is_empty() {
        let why = format!(
            "protected groups must have approval annotation {APPROVED:?}, see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        ("False", "MissingAnnotation", why)
    } else if annotation.starts_with("unapproved") {
        ("False", "UnapprovedAnnotation", format!("not approved: {annotation:?}"))
    } else {
        ("True", "ApprovedAnnotation", format!("approved in {annotation}"))
    };
    set_condition(object, "KubernetesAPIApprovalPolicyConformant", status, reason, &message, now);
}

#[derive(Default)]
struct Taken {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

/// The names that others have in a group.
fn taken(group: &str, others: &[&Object]) -> Taken {
    let mut taken = Taken::default();
    for other in others.iter().filter(|other| other.str_at(&["spec", "group"]) == group) {
        let Some(names) = other.at(&["status", "acceptedNames"]) else { continue };
        let text = |name: &str| names[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        taken.resources.extend(["plural", "singular"].into_iter().filter_map(text));
        let short = names["shortNames"].as_array().into_iter().flatten();
        taken.resources.extend(short.filter_map(Value::as_str).map(str::to_owned));
        taken.kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
    }
    taken
}

// === Cleaning up ===

/// The definitions whose objects are being removed, by uid.
#[derive(Default)]
struct Cleaning(Mutex<BTreeMap<String, ()>>);

impl Cleaning {
    fn begin(own: &Arc<Self>, server: &Arc<Inner>, definition: &Object) {
        let uid = definition.uid().to_owned();
        let new = own.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone(), ()).is_none();
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
            own.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        });
    }
}

/// Removes the objects of a definition, waits until the last is gone, and lets the definition go.
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
            // Its kind goes on without it, and so do the objects.
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
        pretty: false,
        upgrade: false,
        body: Bytes::new(),
        held: Held::default(),
    }
}

/// Takes the finalizer away; a definition that nothing else holds goes with it.
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

/// Marks a definition as one whose objects will go.
pub(crate) fn begin_delete(object: &mut Object) {
    if condition(object, "Terminating") == "True" {
        return;
    }
    let now = object.at(&["metadata", "deletionTimestamp"]).cloned().unwrap_or_default();
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(object, "Terminating", "True", "InstanceDeletionPending", message, &now);
}

#[cfg(test)]
mod tests;
