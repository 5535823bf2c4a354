//! The interface of the fake API server for tests: initial objects, changes as another user, faults, the log of
//! writes.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::http_side;
use super::store::{ErrorStatus, FakeResource, KINDS, Store};
use orlop_apimachinery::clock::Clock;
use orlop_client::recorder::EventSink;

/// The fake API server. Clones share its state.
#[derive(Clone)]
pub struct FakeApi {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) state: Mutex<FakeApiState>,
    /// The current revision of the store, for watchers.
    pub(super) revision: watch::Sender<u64>,
    /// Incremented to end all watches.
    pub(super) cut: watch::Sender<u64>,
    clock: Clock,
}

#[derive(Default)]
pub(super) struct FakeApiState {
    pub(super) store: Store,
    pub(super) faults: Vec<Fault>,
    pub(super) writes: Vec<Write>,
    /// All requests: verb and path.
    pub(super) requests: Vec<String>,
    /// Watches from before this revision fail with 410.
    pub(super) compacted: u64,
    /// Whether every request fails without a response.
    pub(super) away: bool,
    /// Paths that get 503, see [`FakeApi::set_unavailable`].
    pub(super) unavailable: Vec<String>,
}

/// A write by a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// create, update, patch, delete, deletecollection.
    pub verb: &'static str,
    /// The plural name of the resource.
    pub resource: String,
    /// `ns/name` or `name`; the namespace for deletecollection.
    pub key: String,
    /// `status`, `finalize` or empty.
    pub subresource: String,
    /// The request body.
    pub body: Value,
}

/// A one-time error.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The verb: get, list, watch, create, update, patch, delete or deletecollection; `write` for every writing verb,
    /// empty for any.
    pub verb: &'static str,
    /// The plural name with subresource (`persistentvolumes/status`); empty for any resource except events.
    pub resource: &'static str,
    /// Number of matching requests that succeed first.
    pub skip: usize,
    /// The kind of error.
    pub kind: FaultKind,
}

/// The kind of error that a [`Fault`] causes.
#[derive(Debug, Clone)]
pub enum FaultKind {
    /// The server responds with this Status and does nothing else.
    Status(u16, &'static str, &'static str),
    /// The connection breaks before the server processes the request.
    Broken,
    /// The server processes the request, then the connection breaks.
    AnswerLost,
}

impl Default for FakeApi {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeApi {
    /// A server without objects.
    pub fn new() -> Self {
        let shared = Shared {
            state: Mutex::default(),
            revision: watch::Sender::new(0),
            cut: watch::Sender::new(0),
            clock: Clock::following_tokio(1_767_225_600),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A client of this server.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request| {
            let api = api.clone();
            async move { http_side::answer(api, request).await }
        });
        orlop_client::client::in_process(service)
    }

    /// The server's clock: tokio's, which a test may pause.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// A sink that writes Events to this server until `shutdown`.
    pub fn event_sink(&self, shutdown: &CancellationToken) -> EventSink {
        EventSink::start(self.client(), self.shared.clock, shutdown.clone()).0
    }

    /// With paused time: returns after 60 s, once every task waits for a later time.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }

    /// Stores an object unchanged, with its status, UID and deletion timestamp. Panics if the object exists.
    pub fn seed(&self, object: Value) -> Value {
        let kind = kind_of(&object);
        let done = self.change(|store, _| store.create(kind, "", object, true));
        done.expect("a start state has every object once")
    }

    /// Creates an object as another user.
    pub fn create(&self, object: Value) -> Value {
        let kind = kind_of(&object);
        let done = self.change(|store, _| store.create(kind, "", object, false));
        done.expect("the object does not exist yet")
    }

    /// Applies a merge patch as another user; `subresource` may be empty.
    pub fn patch(&self, plural: &str, key: &str, subresource: &str, patch: Value) -> Value {
        let (namespace, name) = orlop_client::informer::split_key(key);
        let done = self.change(|store, _| store.merge(kind_by(plural), namespace, name, subresource, &patch));
        done.expect("the object exists")
    }

    /// Deletes an object as another user. Returns `false` if it did not exist.
    pub fn delete(&self, plural: &str, key: &str) -> bool {
        self.delete_with(plural, key, json!({}))
    }

    /// Deletes with options (`gracePeriodSeconds`, `propagationPolicy`).
    pub fn delete_with(&self, plural: &str, key: &str, options: Value) -> bool {
        let (namespace, name) = orlop_client::informer::split_key(key);
        self.change(|store, now| store.delete(kind_by(plural), namespace, name, &options, now)).is_ok()
    }

    /// Returns the object, if it exists.
    pub fn get(&self, plural: &str, key: &str) -> Option<Value> {
        let (namespace, name) = orlop_client::informer::split_key(key);
        self.state().store.get(kind_by(plural), namespace, name).ok()
    }

    /// Returns the object as its type.
    pub fn get_as<K: Resource<DynamicType = ()> + DeserializeOwned>(&self, key: &str) -> Option<K> {
        let object = self.get(&K::plural(&()), key)?;
        Some(serde_json::from_value(object).expect("the fake holds valid objects"))
    }

    /// All objects of a kind.
    pub fn list(&self, plural: &str) -> Vec<Value> {
        self.state().store.list(kind_by(plural), "")
    }

    /// All objects except events, without versions, UIDs and times, for comparing end states.
    pub fn dump(&self) -> Vec<Value> {
        let state = self.state();
        let objects = state.store.objects.iter().filter(|((plural, _, _), _)| *plural != "events");
        objects.map(|(_, object)| without_incidentals(object.clone())).collect()
    }

    /// `type reason message` of every event, preceded by its object, `kind/ns/name` or `kind/name`.
    pub fn events(&self) -> Vec<String> {
        let line = |e: &Value| {
            let text = |pointer: &str| super::store::text(e, pointer).to_owned();
            let object = &e["involvedObject"];
            let name = match object["namespace"].as_str() {
                Some(ns) => format!("{ns}/{}", text("/involvedObject/name")),
                None => text("/involvedObject/name"),
            };
            format!(
                "{} {name} {} {} {}",
                text("/involvedObject/kind"),
                text("/type"),
                text("/reason"),
                text("/message")
            )
        };
        self.list("events").iter().map(line).collect()
    }

    /// Writes by clients since the start or the last call, except those of events.
    pub fn take_writes(&self) -> Vec<Write> {
        let writes = std::mem::take(&mut self.state().writes);
        writes.into_iter().filter(|w| w.resource != "events").collect()
    }

    /// A receiver that is notified of every change.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// All changes after a revision, in order: the revision, `ADDED`, `MODIFIED` or `DELETED`, and the object at that
    /// revision.
    pub fn changes(&self, after: u64) -> Vec<(u64, &'static str, Value)> {
        let state = self.state();
        let first = state.store.log.partition_point(|change| change.revision <= after);
        state.store.log[first..]
            .iter()
            .map(|change| (change.revision, change.type_, change.object.clone()))
            .collect()
    }

    /// All requests so far, `VERB path`.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// Adds a fault.
    pub fn fail(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Makes the n-th write (from 0) of any resource except events fail.
    pub fn fail_nth_write(&self, n: usize, kind: FaultKind) {
        self.fail(Fault { verb: "write", resource: "", skip: n, kind });
    }

    /// The number of faults that have not happened yet.
    pub fn pending_faults(&self) -> usize {
        self.state().faults.len()
    }

    /// Ends all watches. With `expire`, they cannot resume and must list again.
    pub fn disconnect(&self, expire: bool) {
        if expire {
            let mut state = self.state();
            state.compacted = state.store.revision + 1;
            // Advance the revision too, so that the next list is not older than the compacted revision.
            state.store.revision += 1;
        }
        self.shared.cut.send_modify(|n| *n += 1);
    }

    /// While `away` is true, every request fails without a response.
    pub fn set_away(&self, away: bool) {
        self.state().away = away;
        if away {
            self.shared.cut.send_modify(|n| *n += 1);
        }
    }

    /// From now on, requests of these paths get 503. A path that ends with `/` stands for all paths below it.
    pub fn set_unavailable(&self, paths: &[&str]) {
        self.state().unavailable = paths.iter().map(|path| (*path).to_owned()).collect();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FakeApiState> {
        self.shared.state.lock()
    }

    /// The server's time, in the format of timestamps in objects.
    pub fn now(&self) -> String {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.shared.clock.now());
        let text = serde_json::to_value(now).ok();
        text.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Store, &str) -> T) -> T {
        let now = self.now();
        let mut state = self.state();
        let result = change(&mut state.store, &now);
        self.shared.revision.send_replace(state.store.revision);
        result
    }
}

pub(super) fn kind_by(plural: &str) -> &'static FakeResource {
    KINDS.iter().find(|k| k.plural == plural).unwrap_or_else(|| panic!("the fake does not serve {plural}"))
}

fn kind_of(object: &Value) -> &'static FakeResource {
    let name = object["kind"].as_str().unwrap_or_default();
    KINDS.iter().find(|k| k.kind == name).unwrap_or_else(|| panic!("the fake does not serve {name:?}"))
}

pub(super) fn broken() -> ErrorStatus {
    ErrorStatus(0, "", "connection reset by peer".into())
}

fn without_incidentals(mut object: Value) -> Value {
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in ["resourceVersion", "uid", "creationTimestamp", "deletionTimestamp"] {
            if let Some(value) = meta.get_mut(field) {
                *value = json!("*");
            }
        }
        for owner in meta.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            owner["uid"] = json!("*");
        }
    }
    if let Some(reference) = object.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
        reference.remove("resourceVersion");
    }
    object
}
