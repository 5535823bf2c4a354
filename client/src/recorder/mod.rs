//! Events for users: core/v1 Events that report an action of a controller, or why it failed.
//!
//! [`Recorder::event`] only adds to a bounded queue: it never waits and never fails a sync. A separate task
//! aggregates events like the recorders of upstream's client-go ([`correlate`]) and writes them. Controllers write the messages,
//! which must not contain the content of secrets.

pub mod correlate;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::api::Api;
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{is_already_exists, is_not_found, status_of};
use crate::meta::whole_seconds;
use correlate::{Correlator, Outcome};
use orlop_apimachinery::clock::Clock;

/// Maximum number of queued notes; further ones are dropped.
const QUEUE: usize = 1000;
/// Attempts to write one event while the server does not respond, and the pause between them. Upstream:
/// maxTriesPerEvent.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);
/// One log line is written per this number of dropped events.
const DROPS_PER_LINE: u64 = 1000;
/// Maximum length of a message, bytes. Upstream: NoteLengthLimit, to which the scheduler cuts its messages.
const MAX_MESSAGE: usize = 1024;
/// End of a message that was cut.
const CUT: &str = " ...";
/// How long the rest of the queue is written after shutdown was requested.
const FLUSH: Duration = Duration::from_secs(2);

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Normal operation, or another component acts.
    Normal,
    /// Something needs attention.
    Warning,
}

impl EventType {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// Records events under one component name. Clones are cheap.
#[derive(Clone)]
pub struct Recorder {
    component: Arc<str>,
    client: Client,
    clock: Clock,
    stamps: Arc<Stamps>,
    notes: mpsc::Sender<Note>,
}

/// An event to write, and the client that writes it.
struct Note {
    event: Event,
    client: Client,
}

/// Gives every event a unique time, because its name is derived from it; counts dropped events.
#[derive(Default)]
struct Stamps {
    last: AtomicI64,
    /// Events that were dropped because the queue was full.
    dropped: AtomicU64,
}

impl Stamps {
    fn next(&self, now: Timestamp) -> Timestamp {
        let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX - 1);
        let last =
            self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(now.max(last + 1)));
        let unique = now.max(last.unwrap_or(0) + 1);
        Timestamp::from_nanosecond(i128::from(unique)).unwrap_or(Timestamp::MAX)
    }
}

impl Recorder {
    /// Records an event about `object`.
    pub fn event<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        type_: EventType,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.event_for(reference(object), type_, reason, message);
    }

    /// Records an event about the object that `involved` refers to.
    pub fn event_for(
        &self,
        involved: ObjectReference,
        type_: EventType,
        reason: &str,
        message: impl Into<String>,
    ) {
        let event = new_event(
            &self.component,
            self.stamps.next(self.clock.now()),
            involved,
            type_,
            reason,
            message.into(),
        );
        let note = Note { event, client: self.client.clone() };
        if let Err(error) = self.notes.try_send(note) {
            let full = matches!(error, mpsc::error::TrySendError::Full(_));
            // A flood of events must not flood the log.
            let dropped = self.stamps.dropped.fetch_add(1, Ordering::Relaxed);
            if dropped.is_multiple_of(DROPS_PER_LINE) {
                tracing::warn!(
                    component = &*self.component,
                    reason,
                    full,
                    dropped = dropped + 1,
                    "events dropped"
                );
            }
        }
    }
}

/// A reference to an object with its UID and version.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    let meta = object.meta();
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

fn new_event(
    component: &str,
    now: Timestamp,
    involved: ObjectReference,
    type_: EventType,
    reason: &str,
    message: String,
) -> Event {
    let mut event = Event {
        // Events of cluster-scoped objects are in the namespace `default`.
        metadata: kube::core::ObjectMeta {
            name: Some(event_name(&involved, now)),
            namespace: Some(
                involved.namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| "default".to_owned()),
            ),
            ..Default::default()
        },
        involved_object: involved,
        reason: Some(reason.to_owned()),
        message: Some(cut(message)),
        type_: Some(type_.as_str().to_owned()),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        reporting_component: Some(component.to_owned()),
        ..Event::default()
    };
    event.first_timestamp = Some(whole_seconds(now));
    event.last_timestamp = Some(whole_seconds(now));
    event.count = Some(1);
    event
}

/// Cuts a message to [`MAX_MESSAGE`], because errors of drivers and servers have any length.
fn cut(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE - CUT.len()));
        message.push_str(CUT);
    }
    message
}

/// `<object>.<hexadecimal nanoseconds>`.
fn event_name(involved: &ObjectReference, now: Timestamp) -> String {
    format!("{}.{:x}", involved.name.as_deref().unwrap_or_default(), now.as_nanosecond())
}

/// Accepts the notes of recorders.
#[derive(Clone)]
pub struct EventSink {
    client: Client,
    clock: Clock,
    stamps: Arc<Stamps>,
    notes: mpsc::Sender<Note>,
}

impl EventSink {
    /// Starts the writer. When `shutdown` is cancelled, it writes the queued events for at most 2 s and ends; await
    /// the handle to wait for it.
    pub fn start(client: Client, clock: Clock, shutdown: CancellationToken) -> (Self, JoinHandle<()>) {
        let (notes, queue) = mpsc::channel(QUEUE);
        let writer = Writer { clock, correlator: Correlator::default() };
        let task = tokio::spawn(writer.run(queue, shutdown));
        (Self { client, clock, stamps: Arc::default(), notes }, task)
    }

    /// The same queue and writer; `client`, and so its user, writes the events of this sink's recorders.
    pub fn writing_with(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// Returns a recorder that writes events as `component`.
    pub fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        let Self { client, clock, stamps, notes } = self.clone();
        Recorder { component: component.into(), client, clock, stamps, notes }
    }
}

struct Writer {
    clock: Clock,
    correlator: Correlator,
}

impl Writer {
    async fn run(mut self, mut queue: mpsc::Receiver<Note>, shutdown: CancellationToken) {
        let too_late = async {
            shutdown.cancelled().await;
            tokio::time::sleep(FLUSH).await;
        };
        let all = async {
            loop {
                let note = tokio::select! {
                    biased;
                    note = queue.recv() => note,
                    () = shutdown.cancelled() => {
                        queue.close();
                        queue.recv().await
                    }
                };
                let Some(Note { event, client }) = note else { return };
                let reason = event.reason.clone();
                if AssertUnwindSafe(self.record(event, &client)).catch_unwind().await.is_err() {
                    // A panic concerns this event only. The correlator may be incomplete, so it starts again.
                    tracing::error!(reason, "the event writer panicked, the event is dropped");
                    self.correlator = Correlator::default();
                }
            }
        };
        tokio::select! {
            () = all => {}
            () = too_late => tracing::debug!("some events were not written before the end"),
        }
    }

    async fn record(&mut self, event: Event, client: &Client) {
        let (event, key, update) = match self.correlator.observe(event, self.clock.now()) {
            Outcome::Drop => return,
            Outcome::Create { event, key } => (event, key, false),
            Outcome::Update { event, key } => (event, key, true),
        };
        for attempt in 1..=TRIES {
            match write(client, &event, update).await {
                Ok(written) => return self.correlator.written(key, &written),
                Err(error) if is_already_exists(&error) => return,
                Err(error) if status_of(&error).is_some() => {
                    // Such a response does not change: namespace deleted, forbidden, or invalid.
                    tracing::debug!(%error, reason = event.reason, "the server refused an event");
                    return;
                }
                Err(error) => tracing::debug!(%error, attempt, "cannot write an event"),
            }
            if attempt < TRIES {
                tokio::time::sleep(PAUSE).await;
            }
        }
        tracing::warn!(reason = event.reason, "event given up, the server does not answer");
    }
}

async fn write(client: &Client, event: &Event, update: bool) -> kube::Result<Event> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    if update {
        let patch =
            json!({"count": event.count, "lastTimestamp": event.last_timestamp, "message": event.message});
        let name = event.metadata.name.as_deref().unwrap_or_default();
        match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            // It has expired; the count continues in a new object.
            Err(error) if is_not_found(&error) => {}
            outcome => return outcome,
        }
    }
    let mut fresh = event.clone();
    fresh.metadata.resource_version = None;
    api.create(&PostParams::default(), &fresh).await
}

#[cfg(test)]
mod tests;
