//! One informer per kind, shared by all controllers and started by its first user.

use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttributesClass};
use kube::Client;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{Api, Object};
use crate::failing::{Failing, SetAside};
use crate::informer::Informer;

/// The informers of a process. Clones share them.
#[derive(Clone)]
pub struct Informers {
    client: Client,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    threads: Handle,
    failing: Failing,
    started: Arc<Mutex<HashMap<TypeId, Entry>>>,
}

struct Entry {
    informer: Box<dyn Any + Send + Sync>,
    synced: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Informers {
    /// Creates a set without any running informer. All informers end when `shutdown` is cancelled. They run on the threads of the runtime
    /// that calls this, whichever thread asks for a kind first.
    ///
    /// # Panics
    /// The caller is not in a runtime.
    pub fn new(client: Client, shutdown: CancellationToken) -> Self {
        let (tasks, threads) = (TaskTracker::new(), Handle::current());
        Self { client, shutdown, tasks, threads, failing: Failing::default(), started: Arc::default() }
    }

    /// Reports the objects that cannot be decoded in this register.
    pub fn reporting_to(self, failing: Failing) -> Self {
        Self { failing, ..self }
    }

    /// The client that lists and watches. The caches of a single controller use it too, so that its own user needs no right to list.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The informer of a kind, in all namespaces.
    pub fn of<K>(&self) -> Informer<K>
    where
        K: Object<DynamicType = ()>,
    {
        let mut started = self.started.lock();
        let known = started.get(&TypeId::of::<K>()).and_then(|e| e.informer.downcast_ref::<Informer<K>>());
        if let Some(informer) = known {
            return informer.clone();
        }
        let informer = Informer::<K>::new();
        informer.report_to(SetAside::of::<K>(&self.failing));
        let (running, api, shutdown) =
            (informer.clone(), Api::all(self.client.clone()), self.shutdown.clone());
        self.tasks.spawn_on(async move { running.run(api, shutdown).await }, &self.threads);
        let waiting = informer.clone();
        let synced = move || -> BoxFuture<'static, ()> {
            let informer = waiting.clone();
            Box::pin(async move { informer.synced().await })
        };
        let entry = Entry { informer: Box::new(informer.clone()), synced: Box::new(synced) };
        started.insert(TypeId::of::<K>(), entry);
        informer
    }

    /// PersistentVolumes.
    pub fn volumes(&self) -> Informer<PersistentVolume> {
        self.of()
    }

    /// PersistentVolumeClaims.
    pub fn claims(&self) -> Informer<PersistentVolumeClaim> {
        self.of()
    }

    /// StorageClasses.
    pub fn classes(&self) -> Informer<StorageClass> {
        self.of()
    }

    /// VolumeAttributesClasses.
    pub fn attributes_classes(&self) -> Informer<VolumeAttributesClass> {
        self.of()
    }

    /// Pods.
    pub fn pods(&self) -> Informer<Pod> {
        self.of()
    }

    /// Nodes.
    pub fn nodes(&self) -> Informer<Node> {
        self.of()
    }

    /// Namespaces.
    pub fn namespaces(&self) -> Informer<Namespace> {
        self.of()
    }

    /// Waits until every requested informer has its first complete list. A controller must wait for all of its informers before its
    /// workers start: acting on half of the cluster causes lasting damage. A controller that must not wait for kinds that it does not
    /// use waits for its own with [`Informer::synced`].
    pub async fn wait_synced(&self) {
        let waits: Vec<_> = {
            let started = self.started.lock();
            started.values().map(|entry| (entry.synced)()).collect()
        };
        join_all(waits).await;
    }

    /// Waits until all informers have ended, after `shutdown` was cancelled.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
