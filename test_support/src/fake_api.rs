//! The handle that tests hold: start states, changes as another user, faults, the log of writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::http_side;
use super::store::{KINDS, Kind, Refusal, Store};
use orlop_apimachinery::clock::Clock;
use orlop_client::recorder::EventSink;

/// The fake server. Clones share it.
#[derive(Clone)]
pub struct FakeApi {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Revision of the store, for watchers.
    pub(super) revision: watch::Sender<u64>,
    /// Raised to end all watches.
    pub(super) cut: watch::Sender<u64>,
    clock: Clock,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) store: Store,
    pub(super) faults: Vec<Fault>,
    pub(super) writes: Vec<Write>,
    /// Every request: verb and path.
    pub(super) requests: Vec<String>,
    /// Watches from before this revision get 410.
    pub(super) compacted: u64,
    /// Every request fails without an answer.
    pub(super) away: bool,
}

/// A write that a client made, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// create, update, patch, delete, deletecollection.
    pub verb: &'static str,
    /// Plural.
    pub resource: String,
    /// `ns/name` or `name`; the namespace for deletecollection.
    pub key: String,
    /// `status`, `finalize` or empty.
    pub subresource: String,
    /// What was sent.
    pub body: Value,
}

/// An error that happens once.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Empty for any. `write` stands for every writing verb; else get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: &'static str,
    /// Plural with subresource (`persistentvolumes/status`); empty for any but events.
    pub resource: &'static str,
    /// This many matching requests pass first.
    pub skip: usize,
    /// What happens.
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Debug, Clone)]
pub enum FaultKind {
    /// The server answers with this Status and does nothing.
    Status(u16, &'static str, &'static str),
    /// The connection breaks before the server does anything.
    Broken,
    /// The server does it, and then the connection breaks.
    AnswerLost,
}

impl Default for FakeApi {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeApi {
    /// An empty server.
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

    /// The clock of this server: tokio's, which a test may pause.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// A sink that writes Events to this server until `shutdown`.
    pub fn event_sink(&self, shutdown: &CancellationToken) -> EventSink {
        EventSink::start(self.client(), self.shared.clock, shutdown.clone()).0
    }

    /// With paused time: goes on until every task waits for a time later than a minute from now.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }

    /// Puts an object as it is, with status, UID and deletion mark; panics if it exists.
    pub fn seed(&self, object: Value) -> Value {
        let kind = kind_of(&object);
        let done = self.change(|store, _| store.create(kind, "", object, true));
        done.expect("a start state has every object once")
    }

    /// Creates as a user.
    pub fn create(&self, object: Value) -> Value {
        let kind = kind_of(&object);
        let done = self.change(|store, _| store.create(kind, "", object, false));
        done.expect("the test creates what is not there")
    }

    /// Merges into an object as a user; `subresource` may be empty.
    pub fn patch(&self, plural: &str, key: &str, subresource: &str, patch: Value) -> Value {
        let (namespace, name) = orlop_client::informer::split_key(key);
        let done = self.change(|store, _| store.merge(kind_by(plural), namespace, name, subresource, &patch));
        done.expect("the test patches what is there")
    }

    /// Deletes as a user. False if it was not there.
    pub fn delete(&self, plural: &str, key: &str) -> bool {
        self.delete_with(plural, key, json!({}))
    }

    /// Deletes with options (`gracePeriodSeconds`, `propagationPolicy`).
    pub fn delete_with(&self, plural: &str, key: &str, options: Value) -> bool {
        let (namespace, name) = orlop_client::informer::split_key(key);
        self.change(|store, now| store.delete(kind_by(plural), namespace, name, &options, now)).is_ok()
    }

    /// The object, if it is there.
    pub fn get(&self, plural: &str, key: &str) -> Option<Value> {
        let (namespace, name) = orlop_client::informer::split_key(key);
        self.state().store.get(kind_by(plural), namespace, name).ok()
    }

    /// The object as its type.
    pub fn get_as<K: Resource<DynamicType = ()> + DeserializeOwned>(&self, key: &str) -> Option<K> {
        let object = self.get(&K::plural(&()), key)?;
        Some(serde_json::from_value(object).expect("the fake holds valid objects"))
    }

    /// All objects of a kind.
    pub fn list(&self, plural: &str) -> Vec<Value> {
        self.state().store.list(kind_by(plural), "")
    }

    /// Everything but events, without versions, UIDs and times: to compare end states.
    pub fn dump(&self) -> Vec<Value> {
        let state = self.state();
        let objects = state.store.objects.iter().filter(|((plural, _, _), _)| *plural != "events");
        objects.map(|(_, object)| without_incidentals(object.clone())).collect()
    }

    /// `type reason message` of every event about `kind/ns/name` or `kind/name`, with the object first.
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

    /// Writes of clients since the start or the last call, without those of events.
    pub fn take_writes(&self) -> Vec<Write> {
        let writes = std::mem::take(&mut self.state().writes);
        writes.into_iter().filter(|w| w.resource != "events").collect()
    }

    /// Wakes whenever anything has changed.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Every change of an object after a revision, in order: revision, `ADDED`, `MODIFIED` or `DELETED`, the object then.
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

    /// The n-th write (from 0) of anything but events fails.
    pub fn fail_nth_write(&self, n: usize, kind: FaultKind) {
        self.fail(Fault { verb: "write", resource: "", skip: n, kind });
    }

    /// Faults that have not happened.
    pub fn pending_faults(&self) -> usize {
        self.state().faults.len()
    }

    /// Ends all watches; with `expire` they cannot resume and list again.
    pub fn disconnect(&self, expire: bool) {
        if expire {
            let mut state = self.state();
            state.compacted = state.store.revision + 1;
            // A revision of its own, so that the next list is not older than the border.
            state.store.revision += 1;
        }
        self.shared.cut.send_modify(|n| *n += 1);
    }

    /// While true, no request is answered.
    pub fn set_away(&self, away: bool) {
        self.state().away = away;
        if away {
            self.shared.cut.send_modify(|n| *n += 1);
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time on this server, as objects carry it.
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

pub(super) fn kind_by(plural: &str) -> &'static Kind {
    KINDS.iter().find(|k| k.plural == plural).unwrap_or_else(|| panic!("the fake does not serve {plural}"))
}

fn kind_of(object: &Value) -> &'static Kind {
    let name = object["kind"].as_str().unwrap_or_default();
    KINDS.iter().find(|k| k.kind == name).unwrap_or_else(|| panic!("the fake does not serve {name:?}"))
}

pub(super) fn broken() -> Refusal {
    Refusal(0, "", "connection reset by peer".into())
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
