//! Answers from the informers of a process: those of the controllers where they run, else its own, started by the
//! first query. The server provides the current object, and every query reads its events; related objects come from the
//! informers' caches.

mod view;

use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim};
use kube::Client;
use kube::api::ListParams;
use orlop_client::api::Api;
use orlop_client::api::Json;
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};

use self::view::{Ended, FetchedObjects, Live, View};
use crate::claim::source_of;
use crate::cluster_view::{Settings, newest_first};
use crate::explain;
use crate::model::Why;
use crate::subject::Subject;
use orlop_client::informers::Informers;
use orlop_client::pods::claim_keys;
use orlop_controller::options::Options;
use orlop_controller::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use orlop_volume::object::{self, ClaimPhase};

/// Maximum number of concurrent explanations; the others wait.
static AT_ONCE: Semaphore = Semaphore::const_new(4);
/// Maximum number of claims of a pod for which the events and the snapshot are read.
const CLAIMS: usize = 20;
/// Maximum number of claims of a pod that are checked to find those.
const CLAIMS_SEEN: usize = 1000;
/// Maximum number of events of an object that are read.
const EVENTS: u32 = 500;
/// How long a query waits for the initial lists.
const PATIENCE: Duration = Duration::from_secs(20);
/// The object to explain.
#[derive(Clone, Debug)]
pub struct Question {
    /// The API version, such as `v1` or `storage.k8s.io/v1`.
    pub api_version: String,
    /// Plural name, without the group.
    pub resource: String,
    /// The kind.
    pub kind: String,
    /// `None` for a cluster-scoped object.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The object.
    pub object: Value,
}

impl Question {
    fn words(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.resource, self.name),
            None => format!("{} {}", self.resource, self.name),
        }
    }
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The service is not connected yet, or not any more.
    #[error("this server is starting or stopping and cannot explain objects now; try again in a few seconds")]
    Starting,
    /// The initial lists did not arrive in time.
    #[error("the objects related to {0} are still being read; try again in a few seconds")]
    Reading(String),
    /// The object cannot be decoded as its kind.
    #[error("{what} cannot be decoded")]
    Odd {
        /// The object.
        what: String,
        /// The decoding error.
        #[source]
        source: serde_json::Error,
    },
    /// A bug in the engine.
    #[error("the explanation of {0} panicked; the log contains the message")]
    Panic(String),
}

/// Explains objects of a server.
#[derive(Default)]
pub struct Service {
    /// The source owns a client, which in a single process owns the server, which owns this service: the cycle is
    /// broken at shutdown.
    source: RwLock<Option<Arc<Source>>>,
    live: OnceCell<Arc<Live>>,
}

struct Source {
    client: Client,
    informers: Informers,
    settings: Settings,
}

impl From<&Options> for Settings {
    fn from(options: &Options) -> Self {
        let never = options.disable_force_detach_on_timeout;
        Self {
            dynamic_provisioning: options.enable_dynamic_provisioning,
            host_path_provisioner: options.enable_hostpath_provisioner,
            force_detach_after: (!never).then_some(options.attach_detach_force_detach_after),
        }
    }
}

impl Service {
    /// Connects the service to its source. Called once.
    pub fn look_at(&self, client: Client, informers: Informers, settings: Settings) {
        self.set(Some(Arc::new(Source { client, informers, settings })));
    }

    /// Disconnects the service at shutdown; later queries fail.
    pub fn forget(&self) {
        self.set(None);
    }

    fn set(&self, source: Option<Arc<Source>>) {
        *self.source.write() = source;
    }

    fn source(&self) -> Option<Arc<Source>> {
        self.source.read().clone()
    }

    /// Explains an object.
    ///
    /// # Errors
    /// Related objects cannot be read yet, or the object is malformed.
    pub fn explain<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<Why, ServiceError>> {
        // Boxed here: the compiler generates the code of a future where it is polled or boxed, else in the crate of each caller.
        self.answer(question).boxed()
    }

    async fn answer(&self, question: &Question) -> Result<Why, ServiceError> {
        let source = self.source().ok_or(ServiceError::Starting)?;
        let live = self.live.get_or_init(|| Live::start(source.informers.clone())).await;
        let synced = tokio::time::timeout(PATIENCE, live.synced()).await;
        synced.map_err(|_| ServiceError::Reading(question.words()))?;
        let subject =
            subject(question).map_err(|source| ServiceError::Odd { what: question.words(), source })?;
        let around = around(&source.client, question, &subject, live).await;
        // Never closed.
        let turn = AT_ONCE.acquire().await;
        let view = View::new(Arc::clone(live), source.settings, around);
        // When the client is gone, this future is dropped.
        let _ended = Ended(Arc::clone(&view.ended));
        // Judging many volumes is CPU-bound and must not block a thread that serves requests.
        let explained = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            explain(&view, &subject)
        });
        explained.await.map_err(|_| ServiceError::Panic(question.words()))
    }
}

fn subject(question: &Question) -> serde_json::Result<Subject> {
    fn typed<K: Json>(object: &Value) -> serde_json::Result<Arc<K>> {
        K::from_value(object).map(Arc::new)
    }
    let object = &question.object;
    match (question.api_version.as_str(), question.resource.as_str()) {
        ("v1", "persistentvolumeclaims") => typed(object).map(Subject::Claim),
        ("v1", "persistentvolumes") => typed(object).map(Subject::Volume),
        ("v1", "pods") => typed(object).map(Subject::Pod),
        ("v1", "nodes") => typed(object).map(Subject::Node),
        ("storage.k8s.io/v1", "volumeattachments") => typed(object).map(Subject::Attachment),
        (version, resource) => {
            // A server may omit `kind` and `apiVersion` in an object.
            let mut object = object.clone();
            if let Some(fields) = object.as_object_mut() {
                fields.insert("kind".to_owned(), question.kind.as_str().into());
                fields.insert("apiVersion".to_owned(), version.into());
            }
            Subject::other(resource, object)
        }
    }
}

/// Reads the events of the object and of the claims that it waits for, and the source snapshots of these claims.
async fn around(client: &Client, question: &Question, subject: &Subject, live: &Live) -> FetchedObjects {
    let claims: Vec<Arc<PersistentVolumeClaim>> = match subject {
        Subject::Claim(claim) => vec![Arc::clone(claim)],
        Subject::Pod(pod) => {
            let claims =
                claim_keys(pod).into_iter().take(CLAIMS_SEEN).filter_map(|key| live.claims.get(&key));
            claims.filter(|claim| ClaimPhase::of(claim) != ClaimPhase::Bound).take(CLAIMS).collect()
        }
        Subject::Volume(_) | Subject::Node(_) | Subject::Attachment(_) | Subject::Other(_) => Vec::new(),
    };
    let namespace = question.namespace.as_deref().unwrap_or("default");
    let mut around = FetchedObjects {
        events: events(client, namespace, &question.kind, &question.name).await,
        ..FetchedObjects::default()
    };
    for claim in &claims {
        let name = object::name(&claim.metadata);
        if !matches!(subject, Subject::Claim(_)) {
            around.events.extend(events(client, namespace, "PersistentVolumeClaim", name).await);
        }
        let Some(source) = source_of(claim).filter(|source| source.is_snapshot()) else { continue };
        let snapshots: Api<VolumeSnapshot> = Api::namespaced(client.clone(), namespace);
        let Some(snapshot) = optional(snapshots.get_opt(source.name).await) else { continue };
        let content = snapshot.status.as_ref().and_then(|s| s.bound_volume_snapshot_content_name.clone());
        around.snapshots.push(Arc::new(snapshot));
        let Some(content) = content else { continue };
        let contents: Api<VolumeSnapshotContent> = Api::all(client.clone());
        around.contents.extend(optional(contents.get_opt(&content).await).map(Arc::new));
    }
    newest_first(&mut around.events);
    around
}

/// The object, if it could be read. Without it the answer is less detailed.
fn optional<K>(read: kube::Result<Option<K>>) -> Option<K> {
    read.unwrap_or_else(|error| {
        tracing::debug!(%error, "a snapshot cannot be read, explaining without it");
        None
    })
}

/// The events of an object. Without them the answer is less detailed.
async fn events(client: &Client, namespace: &str, kind: &str, name: &str) -> Vec<Event> {
    let of = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    match api.list(&ListParams::default().fields(&of).limit(EVENTS)).await {
        Ok(list) => list.items,
        Err(error) => {
            tracing::debug!(%error, "events cannot be read, explaining without them");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests;
