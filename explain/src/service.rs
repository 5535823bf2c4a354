//! Answers from the informers of a process: those of the controllers where they run, else its own, started by the
//! first query. Every query reads the object itself and its events from the server, so the answer describes the
//! current object; related objects come from the informers' caches.

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
use kube::Client;
use kube::api::ListParams;
use orlop_client::api::Api;
use orlop_client::api::Json;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};

use super::claim::source_of;
use super::cluster_view::{ClusterView, Settings, newest_first};
use super::explain;
use super::facts::{FactTable, Facts};
use super::model::Why;
use super::node::{Rooms, rooms};
use super::subject::Subject;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Informer, Registration};
use orlop_client::informers::Informers;
use orlop_client::pods::{INDEX_CLAIM, INDEX_NODE, claim_keys, index_by_claim, index_by_node};
use orlop_controller::options::Options;
use orlop_controller::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use orlop_volume::object::{self, ClaimPhase};

/// So many explanations run at a time; the others wait.
static AT_ONCE: Semaphore = Semaphore::const_new(4);
/// The events and the snapshot of so many claims of a pod are read.
const CLAIMS: usize = 20;
/// So many claims of a pod are looked at to find those.
const CLAIMS_SEEN: usize = 1000;
/// So many events of an object are read.
const EVENTS: u32 = 500;
/// How long a query waits for the initial lists.
const PATIENCE: Duration = Duration::from_secs(20);
/// Index of attachments by volume name.
const BY_VOLUME: &str = "why-volume";
/// Index of attachments by node name.
const BY_NODE: &str = "why-node";
/// Index of reported capacities by class.
const BY_CLASS: &str = "why-class";
/// Index of CSINodes by driver.
const BY_DRIVER: &str = "why-driver";

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
}

impl Question {
    fn path(&self) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        // Names come from the client: each must be one segment of the path, whatever it contains.
        let inside = self.namespace.as_deref().map(segment);
        let inside = inside.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        format!("{root}/{}{inside}/{}/{}", self.api_version, self.resource, segment(&self.name))
    }

    fn words(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.resource, self.name),
            None => format!("{} {}", self.resource, self.name),
        }
    }
}

/// Characters that need no escaping in a path segment (RFC 3986, unreserved).
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn segment(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, PLAIN)
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
    /// The object does not exist.
    #[error("{0} is not there")]
    NotFound(String),
    /// The object cannot be read.
    #[error("{what} cannot be read")]
    Read {
        /// The object.
        what: String,
        /// The server's error.
        #[source]
        source: Box<kube::Error>,
    },
    /// The object cannot be decoded as its kind.
    #[error("{what} cannot be understood")]
    Odd {
        /// The object.
        what: String,
        /// The decoding error.
        #[source]
        source: serde_json::Error,
    },
    /// A bug in the engine.
    #[error("the explanation of {0} ended by a panic; its text is in the log")]
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
    /// The object does not exist, or cannot be read yet.
    pub fn explain<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<Why, ServiceError>> {
        // Boxed here: the compiler generates the code of a future where it is polled or boxed, else in the crate of each caller.
        self.answer(question).boxed()
    }

    async fn answer(&self, question: &Question) -> Result<Why, ServiceError> {
        let source = self.source().ok_or(ServiceError::Starting)?;
        let object = get(&source.client, question).await?;
        let live = self.live.get_or_init(|| Live::start(source.informers.clone())).await;
        let synced = tokio::time::timeout(PATIENCE, live.synced()).await;
        synced.map_err(|_| ServiceError::Reading(question.words()))?;
        let subject = subject(question, object)
            .map_err(|source| ServiceError::Odd { what: question.words(), source })?;
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

async fn get(client: &Client, question: &Question) -> Result<Value, ServiceError> {
    let read = |source: kube::Error| ServiceError::Read { what: question.words(), source: Box::new(source) };
    let request = http::Request::get(question.path()).body(Vec::new());
    let request = request.map_err(|error| read(kube::Error::HttpError(error)))?;
    client.request::<Value>(request).await.map_err(|error| match is_not_found(&error) {
        true => ServiceError::NotFound(question.words()),
        false => read(error),
    })
}

fn subject(question: &Question, object: Value) -> serde_json::Result<Subject> {
    fn typed<K: Json>(object: &Value) -> serde_json::Result<Arc<K>> {
        K::from_value(object).map(Arc::new)
    }
    match (question.api_version.as_str(), question.resource.as_str()) {
        ("v1", "persistentvolumeclaims") => typed(&object).map(Subject::Claim),
        ("v1", "persistentvolumes") => typed(&object).map(Subject::Volume),
        ("v1", "pods") => typed(&object).map(Subject::Pod),
        ("v1", "nodes") => typed(&object).map(Subject::Node),
        ("storage.k8s.io/v1", "volumeattachments") => typed(&object).map(Subject::Attachment),
        (version, resource) => {
            // A server may omit `kind` and `apiVersion` in an object.
            let mut object = object;
            if let Some(fields) = object.as_object_mut() {
                fields.insert("kind".to_owned(), question.kind.as_str().into());
                fields.insert("apiVersion".to_owned(), version.into());
            }
            Subject::other(resource, object)
        }
    }
}

/// Objects read for one query, of kinds that are not watched for queries alone.
#[derive(Default)]
struct FetchedObjects {
    events: Vec<Event>,
    snapshots: Vec<Arc<VolumeSnapshot>>,
    contents: Vec<Arc<VolumeSnapshotContent>>,
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

/// The informers that run from the first query on.
struct Live {
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    csi_nodes: Informer<CSINode>,
    drivers: Informer<CSIDriver>,
    attachments: Informer<VolumeAttachment>,
    attributes_classes: Informer<VolumeAttributesClass>,
    capacities: Informer<CSIStorageCapacity>,
    facts: Arc<RwLock<FactTable>>,
    _following: Option<Registration>,
}

impl Live {
    async fn start(informers: Informers) -> Arc<Self> {
        let mut live = Self {
            claims: informers.claims(),
            volumes: informers.volumes(),
            classes: informers.classes(),
            pods: informers.pods(),
            nodes: informers.nodes(),
            csi_nodes: informers.of(),
            drivers: informers.of(),
            attachments: informers.of(),
            attributes_classes: informers.attributes_classes(),
            capacities: informers.of(),
            facts: Arc::default(),
            _following: None,
        };
        index_by_claim(&live.pods);
        index_by_node(&live.pods);
        live.attachments
            .add_index(BY_VOLUME, |one| one.spec.source.persistent_volume_name.clone().into_iter().collect());
        live.attachments.add_index(BY_NODE, |one| vec![one.spec.node_name.clone()]);
        live.capacities.add_index(BY_CLASS, |one| vec![one.storage_class_name.clone()]);
        live.csi_nodes
            .add_index(BY_DRIVER, |node| node.spec.drivers.iter().map(|one| one.name.clone()).collect());
        let (volumes, facts) = (live.volumes.clone(), Arc::clone(&live.facts));
        // Adding the handler delivers and decodes all cached objects.
        let following = tokio::task::spawn_blocking(move || {
            volumes.add_handler(move |change| {
                let mut facts = facts.write();
                match &change.new {
                    Some(volume) => facts.put(change.key(), volume),
                    None => facts.remove(change.key()),
                }
            })
        });
        match following.await {
            Ok(following) => live._following = Some(following),
            Err(error) => tracing::error!(%error, "volumes cannot be followed, explanations know none"),
        }
        Arc::new(live)
    }

    async fn synced(&self) {
        tokio::join!(
            self.claims.synced(),
            self.volumes.synced(),
            self.classes.synced(),
            self.pods.synced(),
            self.nodes.synced(),
            self.csi_nodes.synced(),
            self.drivers.synced(),
            self.attachments.synced(),
            self.attributes_classes.synced(),
            self.capacities.synced(),
        );
    }
}

/// The view of the cluster for one query.
///
/// When the query has ended, nothing is found any more: the explanation, which runs in a thread of its own, then ends soon.
struct View {
    live: Arc<Live>,
    settings: Settings,
    now: Timestamp,
    around: FetchedObjects,
    ended: Arc<AtomicBool>,
    // Read once per query: each claim of a pod may ask for them.
    nodes: OnceLock<Vec<Arc<Node>>>,
    classes: OnceLock<Vec<Arc<StorageClass>>>,
    rooms: Mutex<HashMap<String, Arc<Rooms>>>,
}

/// Ends a query when it is dropped.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl View {
    fn new(live: Arc<Live>, settings: Settings, around: FetchedObjects) -> Self {
        Self {
            live,
            settings,
            now: Timestamp::now(),
            around,
            ended: Arc::default(),
            nodes: OnceLock::new(),
            classes: OnceLock::new(),
            rooms: Mutex::default(),
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn read<T: Default>(&self, read: impl FnOnce(&Live) -> T) -> T {
        if self.has_ended() { T::default() } else { read(&self.live) }
    }
}

impl ClusterView for View {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn settings(&self) -> Settings {
        self.settings
    }

    fn claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.read(|live| live.claims.get(key))
    }

    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.read(|live| live.volumes.get(name))
    }

    fn facts(&self, each: &mut dyn FnMut(&Facts)) {
        self.live.facts.read().all().take_while(|_| !self.has_ended()).for_each(each);
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.read(|live| live.classes.get(name))
    }

    fn classes(&self) -> Vec<Arc<StorageClass>> {
        self.classes.get_or_init(|| self.read(|live| live.classes.list())).clone()
    }

    fn pods_of_claim(&self, key: &str) -> Vec<Arc<Pod>> {
        self.read(|live| live.pods.by_index(INDEX_CLAIM, key))
    }

    fn pods_on_node(&self, node: &str) -> Vec<Arc<Pod>> {
        self.read(|live| live.pods.by_index(INDEX_NODE, node))
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.read(|live| live.nodes.get(name))
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.get_or_init(|| self.read(|live| live.nodes.list())).clone()
    }

    fn csi_node(&self, name: &str) -> Option<Arc<CSINode>> {
        self.read(|live| live.csi_nodes.get(name))
    }

    fn nodes_with_driver(&self, driver: &str) -> Vec<String> {
        let nodes = self.read(|live| live.csi_nodes.by_index(BY_DRIVER, driver));
        nodes.iter().filter_map(|node| node.metadata.name.clone()).collect()
    }

    fn driver(&self, name: &str) -> Option<Arc<CSIDriver>> {
        self.read(|live| live.drivers.get(name))
    }

    fn attachments_of_volume(&self, volume: &str) -> Vec<Arc<VolumeAttachment>> {
        self.read(|live| live.attachments.by_index(BY_VOLUME, volume))
    }

    fn attachments_on_node(&self, node: &str) -> Vec<Arc<VolumeAttachment>> {
        self.read(|live| live.attachments.by_index(BY_NODE, node))
    }

    fn attributes_class(&self, name: &str) -> Option<Arc<VolumeAttributesClass>> {
        self.read(|live| live.attributes_classes.get(name))
    }

    fn capacities(&self, class: &str) -> Vec<Arc<CSIStorageCapacity>> {
        self.read(|live| live.capacities.by_index(BY_CLASS, class))
    }

    fn snapshot(&self, namespace: &str, name: &str) -> Option<Arc<VolumeSnapshot>> {
        let is = |one: &&Arc<VolumeSnapshot>| {
            (one.metadata.namespace.as_deref(), one.metadata.name.as_deref()) == (Some(namespace), Some(name))
        };
        self.around.snapshots.iter().find(is).cloned()
    }

    fn content(&self, name: &str) -> Option<Arc<VolumeSnapshotContent>> {
        self.around.contents.iter().find(|one| one.metadata.name.as_deref() == Some(name)).cloned()
    }

    fn events(&self) -> &[Event] {
        &self.around.events
    }

    fn rooms(&self, node: &str) -> Arc<Rooms> {
        if let Some(known) = self.rooms.lock().get(node) {
            return Arc::clone(known);
        }
        let rooms = Arc::new(rooms(self, node));
        self.rooms.lock().insert(node.to_owned(), Arc::clone(&rooms));
        rooms
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::api::core::v1::NodeStatus;
    use orlop_test_support::FakeApi;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::super::model::Code;
    use super::*;

    #[test]
    fn names_are_escaped_to_one_path_segment() {
        let path = |namespace: Option<&str>, name: &str| {
            let question = Question {
                api_version: "v1".to_owned(),
                resource: "pods".to_owned(),
                kind: "Pod".to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            };
            question.path()
        };
        for (case, namespace, name, wanted) in [
            ("1 plain", Some("ns"), "a-b.c", "/api/v1/namespaces/ns/pods/a-b.c"),
            ("2 of the cluster", None, "a", "/api/v1/pods/a"),
            ("3 a query and a fragment", None, "a?watch=1#b", "/api/v1/pods/a%3Fwatch%3D1%23b"),
            ("4 a blank", None, "a b", "/api/v1/pods/a%20b"),
            ("5 another path", Some("ns/secrets/x?"), "a", "/api/v1/namespaces/ns%2Fsecrets%2Fx%3F/pods/a"),
        ] {
            assert_eq!(path(namespace, name), wanted, "{case}");
        }
    }

    fn question(name: &str) -> Question {
        Question {
            api_version: "v1".to_owned(),
            resource: "pods".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some("ns".to_owned()),
            name: name.to_owned(),
        }
    }

    #[tokio::test]
    async fn only_some_claims_of_a_pod_are_explained() {
        let api = FakeApi::new();
        let volumes: Vec<Value> = (0..100)
            .map(
                |n| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": format!("c{n}")}}),
            )
            .collect();
        for n in 0..100 {
            api.seed(json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": format!("c{n}")},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
        }
        api.seed(json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": "p"},
            "spec": {"containers": [], "volumes": volumes}}));
        let shutdown = CancellationToken::new();
        let service = Service::default();
        service.look_at(api.client(), Informers::new(api.client(), shutdown.clone()), Settings::default());
        let why = service.explain(&question("p")).await.unwrap();
        let codes = |code: Code| why.causes.iter().filter(|cause| cause.code == code).count();
        assert_eq!((codes(Code::ClaimNotBound), codes(Code::ClaimsLeftOut)), (CLAIMS, 1));
        let lists = api.requests().iter().filter(|request| request.contains("involvedObject")).count();
        assert!(lists <= CLAIMS + 1, "{lists} lists of events");
        shutdown.cancel();
    }

    #[tokio::test]
    async fn ended_query_finds_nothing_and_nodes_are_read_once() {
        let api = FakeApi::new();
        let shutdown = CancellationToken::new();
        let live = Live::start(Informers::new(api.client(), shutdown.clone())).await;
        let mut node = Node { status: Some(NodeStatus::default()), ..Node::default() };
        node.metadata.name = Some("n".to_owned());
        node.metadata.resource_version = Some("1".to_owned());
        live.nodes.apply(node);
        let view = || View::new(Arc::clone(&live), Settings::default(), FetchedObjects::default());
        let ended = view();
        drop(Ended(Arc::clone(&ended.ended)));
        assert_eq!((ended.nodes().len(), ended.node("n").is_some()), (0, false));
        let going = view();
        assert_eq!((going.nodes().len(), going.node("n").is_some()), (1, true));
        assert!(Arc::ptr_eq(&going.nodes()[0], &going.nodes()[0]));
        assert!(Arc::ptr_eq(&going.rooms("n"), &going.rooms("n")));
        shutdown.cancel();
    }
}
