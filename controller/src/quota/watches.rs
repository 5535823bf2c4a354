//! Watches the kinds that a quota counts, in order to release the usage of deleted objects. The watch of a kind
//! ends when no quota counts it; without quotas, no kind is watched.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota};
use kube::core::ObjectMeta;
use orlop_apimachinery::quota::{Item, Resource, Rule, claim_status_counts, scopes};
use orlop_client::api::Api;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::listing::{Listing, Looked};
use super::{GATHER, count};
use crate::context::Context;
use crate::gc::owners::Meta;
use orlop_client::api::Object;
use orlop_client::informer::{Change, Informer, Registration, split_key};
use orlop_client::informers::Informers;
use orlop_client::queue::WorkQueue;

/// How long to wait before another discovery of kinds that are not served.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "namespace";
const RESOURCE: &str = "resource";
/// The number of kinds after which an arrangement yields to other tasks.
const TURN: usize = 256;

/// Indexes quotas by namespace, and by the resources that they count.
pub fn index(quotas: &Informer<ResourceQuota>) {
    quotas.add_index(NAMESPACE, |quota| quota.metadata.namespace.clone().into_iter().collect());
    quotas.add_index(RESOURCE, |quota| {
        count::resources(quota).into_keys().map(|(group, plural)| indexed(group, plural)).collect()
    });
}

/// The value of a resource in the index. No group contains a slash.
fn indexed(group: &str, plural: &str) -> String {
    format!("{group}/{plural}")
}

/// Whether an update of a pod releases usage, or adds usage that was not charged.
pub fn pod_matters(old: &Pod, new: &Pod, now: jiff::Timestamp) -> bool {
    let usage = |pod| Resource::new("", "pods").usage(Item::Pod(pod), now);
    let deadline = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
    usage(old) != usage(new) || deadline(old) != deadline(new)
}

/// Like [`pod_matters`], for a claim.
pub fn claim_matters(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    claim_status_counts(old, new) || scopes::attributes_classes(old) != scopes::attributes_classes(new)
}

/// Group and plural.
type Name = (String, String);

/// The watch of a kind. Ends when dropped.
struct Watch {
    _handler: Registration,
    _end: DropGuard,
}

/// The current watches.
pub struct Watches {
    context: Context,
    asker: Asker,
    running: HashMap<Name, Watch>,
}

/// Queues quotas to be counted.
#[derive(Clone)]
struct Asker {
    quotas: Informer<ResourceQuota>,
    queue: WorkQueue<String>,
}

impl Asker {
    /// Queues the quotas of a namespace that count a resource.
    fn ask(&self, namespace: &str, resource: &Name) {
        for key in self.counting(resource, &format!("{namespace}/")) {
            self.queue.add_after(key.to_string(), GATHER);
        }
    }

    /// Queues all quotas that count a resource.
    fn ask_all(&self, resource: &Name) {
        for key in self.counting(resource, "") {
            self.queue.add(key.to_string());
        }
    }

    /// The keys, with this prefix, of the quotas that count a resource.
    fn counting(&self, (group, plural): &Name, prefix: &str) -> Vec<Arc<str>> {
        self.quotas.indexed_keys(RESOURCE, &indexed(group, plural), prefix)
    }

    /// Whether a namespace has any quotas.
    fn has(&self, namespace: &str) -> bool {
        self.quotas.has_indexed(NAMESPACE, namespace)
    }

    /// A handler for changes of a resource's objects; `matters` decides whether an update requires a count.
    fn handler<K: Object>(
        &self,
        resource: &Name,
        matters: impl Fn(&K, &K) -> bool + Send + Sync + 'static,
    ) -> impl Fn(&Change<K>) + Send + Sync + 'static {
        let (asker, resource) = (self.clone(), resource.clone());
        move |change| {
            let namespace = split_key(change.key()).0;
            if !asker.has(namespace) {
                return;
            }
            let gone = change.gone_uid().is_some();
            let changed = || match (change.old(), change.new.as_deref()) {
                (Some(old), Some(new)) => matters(old, new),
                (Some(_), None) | (None, _) => false,
            };
            if gone || changed() {
                asker.ask(namespace, &resource);
            }
        }
    }
}

impl Watches {
    /// Creates an instance without watches.
    pub fn new(context: &Context, quotas: Informer<ResourceQuota>, queue: WorkQueue<String>) -> Self {
        Self { context: context.clone(), asker: Asker { quotas, queue }, running: HashMap::new() }
    }

    /// Watches the kinds that the quotas count, until `shutdown`; `changed` reports changes of the quotas.
    pub async fn follow(mut self, listing: Listing, changed: Arc<Notify>, shutdown: CancellationToken) {
        loop {
            let complete = self.arrange(&listing).await;
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = changed.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN), if !complete => {}
            }
        }
    }

    /// Starts missing watches and ends unneeded ones. Returns false if a quota counts a kind that the server does not
    /// serve.
    async fn arrange(&mut self, listing: &Listing) -> bool {
        let values = self.asker.quotas.indexed_values(RESOURCE);
        let name = |value: &String| {
            value.split_once('/').map(|(group, plural)| (group.to_owned(), plural.to_owned()))
        };
        let wanted: BTreeSet<Name> = values.iter().filter_map(name).collect();
        self.running.retain(|name, _| wanted.contains(name));
        let mut complete = true;
        let mut looked = Looked::default();
        let missing: Vec<Name> = wanted.into_iter().filter(|name| !self.running.contains_key(name)).collect();
        for (number, name) in missing.into_iter().enumerate() {
            if number % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            match self.start(&name, listing, &mut looked).await {
                Some(watch) => drop(self.running.insert(name, watch)),
                None => complete = false,
            }
        }
        complete
    }

    async fn start(&self, name: &Name, listing: &Listing, looked: &mut Looked) -> Option<Watch> {
        let resource = Resource::new(&name.0, &name.1);
        let end = self.context.shutdown.child_token();
        let informers: &Informers = &self.context.informers;
        let clock = self.context.clock;
        let (synced, handler): (BoxFuture<'static, ()>, Registration) = match resource.rule() {
            Rule::Pods => self.attach(
                informers.pods(),
                self.asker.handler(name, move |old, new| pod_matters(old, new, clock.now())),
            ),
            Rule::Claims => self.attach(informers.claims(), self.asker.handler(name, claim_matters)),
            Rule::Services | Rule::Count => {
                let kind = listing.served(resource, looked).await?;
                let informer = Informer::<Meta>::trimmed(trim);
                let api = Api::all_with(self.context.client.clone(), &kind.resource);
                let (running, until) = (informer.clone(), end.clone());
                tokio::spawn(async move { running.run(api, until).await });
                // A Service may change its type; for all other kinds, only deletions matter.
                let always = resource.rule() == Rule::Services;
                self.attach(informer, self.asker.handler(name, move |_, _| always))
            }
        };
        // Neither the count nor the watch sees a deletion between them, so count again after the watch has synced.
        let (asker, name, until) = (self.asker.clone(), name.clone(), end.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = until.cancelled() => {}
                () = synced => asker.ask_all(&name),
            }
        });
        Some(Watch { _handler: handler, _end: end.drop_guard() })
    }

    fn attach<K: Object>(
        &self,
        informer: Informer<K>,
        handler: impl Fn(&Change<K>) + Send + Sync + 'static,
    ) -> (BoxFuture<'static, ()>, Registration) {
        let handler = informer.add_handler(handler);
        (Box::pin(async move { informer.synced().await }), handler)
    }
}

/// Removes everything but the metadata that identifies the object and its version.
fn trim(object: &mut Meta) {
    let meta = std::mem::take(&mut object.metadata);
    object.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        ..ObjectMeta::default()
    };
}
