//! Lists the objects that a quota counts, in their current state, and adds up their usage.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use kube::Client;
use kube::api::ListParams;
use kube::core::{DynamicObject, PartialObjectMeta};
use orlop_apimachinery::quantity::Quantity;
use orlop_apimachinery::quota::amounts::{self, Amounts};
use orlop_apimachinery::quota::{Item, Resource, Rule, scopes};
use orlop_client::api::{Api, Object};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::count::resources;
use crate::gc::discovery::{Served, discover};
use orlop_client::client::message_of;
use orlop_client::time_slice::TimeSlice;

/// Objects per page.
const PAGE: u32 = 500;
/// How long a count relies on the last complete discovery for the kinds that the server does not serve. The watches discover
/// sooner when a quota changes, and have the quotas of a new kind counted again.
const FRESH: Duration = Duration::from_secs(10);
/// The number of resources after which a count yields to other tasks.
const TURN: usize = 256;

/// The counted usage, and the resources that could not be counted.
#[derive(Debug, Default)]
pub struct Counted {
    /// The usage, by the names of the quota's limits.
    pub used: Amounts,
    /// The resources that could not be listed, with the cause.
    pub failures: Vec<String>,
}

/// The served kinds that a quota may count.
#[derive(Default)]
struct Kinds {
    /// By group and plural.
    known: HashMap<(String, String), Arc<Served>>,
    /// When the last complete discovery ended.
    complete: Option<Instant>,
}

/// Whether an operation has discovered the kinds: it does so at most once, however many kinds are missing.
#[derive(Debug, Default)]
pub struct Looked(bool);

/// Lists objects. Clones share the discovered kinds.
#[derive(Clone)]
pub struct Listing {
    client: Client,
    kinds: Arc<Mutex<Kinds>>,
}

impl Listing {
    /// Creates a listing with no discovered kinds.
    pub fn new(client: Client) -> Self {
        Self { client, kinds: Arc::default() }
    }

    /// The served kind of a resource; `None` if the server has no such namespaced kind or discovery fails. A missing
    /// kind is discovered again, because the server may serve it by now.
    pub async fn served(&self, resource: Resource<'_>, looked: &mut Looked) -> Option<Arc<Served>> {
        let key = (resource.group.to_owned(), resource.plural.to_owned());
        if let Some(kind) = self.kinds.lock().known.get(&key) {
            return Some(Arc::clone(kind));
        }
        if std::mem::replace(&mut looked.0, true) {
            return None;
        }
        // Without the lock: other quotas do not wait.
        let found = discover(&self.client).await;
        let mut kinds = self.kinds.lock();
        if found.failures.is_empty() {
            kinds.complete = Some(Instant::now());
        }
        let counted = found.served.into_iter();
        let counted = counted.filter(|kind| kind.namespaced && kind.can("list") && kind.can("watch"));
        let by_name =
            |kind: Served| ((kind.resource.group.clone(), kind.resource.plural.clone()), Arc::new(kind));
        kinds.known.extend(counted.map(by_name));
        kinds.known.get(&key).cloned()
    }

    fn is_fresh(&self) -> bool {
        self.kinds.lock().complete.is_some_and(|complete| complete.elapsed() < FRESH)
    }

    /// Counts the usage for the limits of a quota.
    pub async fn count(&self, quota: &ResourceQuota, namespace: &str, now: Timestamp) -> Counted {
        let mut counted = Counted::default();
        let Some(spec) = &quota.spec else { return counted };
        let mut looked = Looked(self.is_fresh());
        for (number, ((group, plural), names)) in resources(quota).into_iter().enumerate() {
            if number % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            let resource = Resource::new(group, plural);
            let mut used: Amounts = names.into_iter().map(|name| (name.to_owned(), Quantity::ZERO)).collect();
            let result = {
                let mut add = |item: Item<'_>| {
                    if scopes::is_in(spec, item) {
                        let usage = resource.usage(item, now);
                        let wanted = amounts::mask(&usage, |name| used.contains_key(name));
                        amounts::add(&mut used, &wanted);
                    }
                };
                self.each(resource, namespace, &mut looked, &mut add).await
            };
            match result {
                Ok(true) => amounts::add(&mut counted.used, &used),
                // The server does not serve the resource, so its usage is not reported.
                Ok(false) => {}
                Err(error) => {
                    let name = resource.count_name();
                    counted.failures.push(format!("{name}: {}", message_of(&error)));
                    // An incomplete sum is not reported.
                    for name in used.into_keys() {
                        counted.used.remove(&name);
                    }
                }
            }
        }
        counted
    }

    /// Passes each object of a resource to `add`. Returns false if the server does not serve the resource.
    async fn each(
        &self,
        resource: Resource<'_>,
        namespace: &str,
        looked: &mut Looked,
        add: &mut (dyn FnMut(Item<'_>) + Send),
    ) -> kube::Result<bool> {
        let client = self.client.clone();
        match resource.rule() {
            Rule::Pods => {
                let api: Api<Pod> = Api::namespaced(client, namespace);
                pages(&api, &mut |pod| add(Item::Pod(&pod))).await?;
            }
            Rule::Claims => {
                let api: Api<PersistentVolumeClaim> = Api::namespaced(client, namespace);
                pages(&api, &mut |claim| add(Item::Claim(&claim))).await?;
            }
            Rule::Services => {
                if self.served(resource, looked).await.is_none() {
                    return Ok(false);
                }
                let api: Api<Service> = Api::namespaced(client, namespace);
                pages(&api, &mut |service| add(Item::Service(&service))).await?;
            }
            Rule::Count => {
                let Some(kind) = self.served(resource, looked).await else { return Ok(false) };
                let api: Api<PartialObjectMeta<DynamicObject>> =
                    Api::namespaced_with(client, namespace, &kind.resource);
                pages(&api, &mut |_| add(Item::Other)).await?;
            }
        }
        Ok(true)
    }
}

/// Reads a list page by page, and decodes one object at a time. All pages are from the same revision.
fn pages<'a, K>(api: &'a Api<K>, add: &'a mut (dyn FnMut(K) + Send)) -> BoxFuture<'a, kube::Result<()>>
where
    K: Object,
{
    Box::pin(async move {
        let (mut parameters, mut slice) = (ListParams::default().limit(PAGE), TimeSlice::start());
        loop {
            let (list, objects) = slice.wait(api.list_lazily(&parameters)).await?;
            for object in objects {
                add(object?);
                slice.yield_if_over().await;
            }
            match list.continue_ {
                Some(token) if !token.is_empty() => parameters = parameters.continue_token(&token),
                Some(_) | None => return Ok(()),
            }
        }
    })
}
