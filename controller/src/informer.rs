//! A cache of one kind, kept current by list and watch, with string indexes and change handlers.
//!
//! The initial list is applied at once and handed to the handlers before [`Informer::synced`] ends. A deletion that was
//! missed while the server was away shows up as a delete after the next list. There is no periodic resync.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::status_of;
use crate::clock::Backoff;
use crate::lean::Lean;
use crate::worker::panic_text;

/// What happened to one object. `old` is what the cache held (on a deletion: the last state there was), `new` what it
/// holds now. Under one key the UIDs may differ, when a deletion and a creation were seen as one step.
#[derive(Debug)]
pub struct Change<K> {
    /// Before; none for a new object.
    pub old: Option<Arc<K>>,
    /// After; none for a deleted object.
    pub new: Option<Arc<K>>,
}

impl<K: Resource> Change<K> {
    /// The cache key of the object, see [`key_of`].
    pub fn key(&self) -> Option<String> {
        self.new.as_deref().or(self.old.as_deref()).map(key_of)
    }

    /// Old and new are different objects of one name.
    pub fn replaced(&self) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => old.meta().uid != new.meta().uid,
            (Some(_) | None, None) | (None, Some(_)) => false,
        }
    }
}

/// The key of an object: `namespace/name`, or `name` for a cluster-scoped one.
pub fn key_of<K: Resource>(object: &K) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    match meta.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        Some(_) | None => name.to_owned(),
    }
}

/// Splits a key into namespace (empty for a cluster-scoped object) and name.
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// Index values of an object.
pub type IndexFn<K> = fn(&K) -> Vec<String>;

type Handler<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

/// The informer of one kind. Clones share it.
pub struct Informer<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<K> {
    store: RwLock<Store<K>>,
    /// Also orders deliveries: held while a change is applied and handed out.
    handlers: Mutex<Handlers<K>>,
    synced: watch::Sender<bool>,
}

struct Handlers<K> {
    next: u64,
    list: Vec<(u64, Handler<K>)>,
}

struct Store<K> {
    objects: BTreeMap<Arc<str>, Arc<K>>,
    indexes: HashMap<&'static str, Index<K>>,
}

struct Index<K> {
    values: IndexFn<K>,
    keys: HashMap<String, BTreeSet<Arc<str>>>,
}

/// Keeps a handler attached; dropping it detaches the handler.
#[must_use = "dropping this detaches the handler"]
pub struct Registration {
    _detach: Box<dyn Send + Sync>,
}

struct Detach<K> {
    shared: Weak<Shared<K>>,
    id: u64,
}

impl<K> Drop for Detach<K> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared
                .handlers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .list
                .retain(|(id, _)| *id != self.id);
        }
    }
}

impl<K: Resource + Send + Sync + 'static> Default for Informer<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Resource + Send + Sync + 'static> Informer<K> {
    /// An empty informer. It does nothing until [`run`](Self::run); decisions can also be tested by filling it with
    /// [`apply`](Self::apply).
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                store: RwLock::new(Store { objects: BTreeMap::new(), indexes: HashMap::new() }),
                handlers: Mutex::new(Handlers { next: 0, list: Vec::new() }),
                synced: watch::Sender::new(false),
            }),
        }
    }

    /// Adds an index under `name`, over what is cached too. An index of this name that exists already is kept.
    pub fn add_index(&self, name: &'static str, values: IndexFn<K>) {
        let mut store = self.write();
        if store.indexes.contains_key(name) {
            return;
        }
        let mut index = Index { values, keys: HashMap::new() };
        for (key, object) in &store.objects {
            index.insert(key, object);
        }
        store.indexes.insert(name, index);
    }

    /// Calls `handler` for every change from now on, in order, after it was applied to the cache. What is cached is
    /// handed over first, as additions. A handler must be quick (put a key into a queue) and must not register others.
    pub fn add_handler(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) -> Registration {
        let mut handlers = self.handlers();
        let handler: Handler<K> = Arc::new(handler);
        for object in self.list() {
            deliver(&handler, &Change { old: None, new: Some(object) });
        }
        handlers.next += 1;
        let id = handlers.next;
        handlers.list.push((id, handler));
        Registration { _detach: Box::new(Detach { shared: Arc::downgrade(&self.shared), id }) }
    }

    /// The cached object of this key.
    pub fn get(&self, key: &str) -> Option<Arc<K>> {
        self.read().objects.get(key).cloned()
    }

    /// Everything cached, by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    /// How many objects are cached.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects with this value in the index `name`, by key. An index that was never added is empty.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<K>> {
        let store = self.read();
        let Some(keys) = store.indexes.get(name).and_then(|index| index.keys.get(value)) else {
            return Vec::new();
        };
        keys.iter().filter_map(|key| store.objects.get(key).cloned()).collect()
    }

    /// The first list is applied and was handed to the handlers.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits for [`has_synced`](Self::has_synced).
    pub async fn synced(&self) {
        let mut synced = self.shared.synced.subscribe();
        // The sender lives as long as self, so this cannot fail.
        let _ = synced.wait_for(|done| *done).await;
    }

    /// Puts an object into the cache and tells the handlers.
    pub fn apply(&self, object: K) {
        let handlers = self.handlers();
        let change = self.write().put(Arc::new(object));
        deliver_all(&handlers, &change);
    }

    /// Takes an object out of the cache and tells the handlers. `last` is its final state.
    pub fn remove(&self, last: K) {
        let handlers = self.handlers();
        let known = self.write().take(&key_of(&last)).is_some();
        if known {
            deliver_all(&handlers, &Change { old: Some(Arc::new(last)), new: None });
        }
    }

    /// Makes the cache equal to a complete list: handlers learn of what is new, changed and gone.
    pub fn replace(&self, list: Vec<K>) {
        let handlers = self.handlers();
        let listed: BTreeSet<String> = list.iter().map(key_of).collect();
        let gone: Vec<Arc<str>> =
            self.read().objects.keys().filter(|key| !listed.contains(key.as_ref())).cloned().collect();
        for key in gone {
            let old = self.write().take(&key);
            deliver_all(&handlers, &Change { old, new: None });
        }
        for object in list {
            let change = {
                let mut store = self.write();
                match store.objects.get(key_of(&object).as_str()) {
                    Some(old) if same_version(old.as_ref(), &object) => continue,
                    Some(_) | None => store.put(Arc::new(object)),
                }
            };
            deliver_all(&handlers, &change);
        }
        self.shared.synced.send_replace(true);
    }

    fn handlers(&self) -> MutexGuard<'_, Handlers<K>> {
        self.shared.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Store<K>> {
        self.shared.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store<K>> {
        self.shared.store.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Informer<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Lists and watches until `shutdown`. When the server is away it tries again after 100 ms, doubling up to 10 s.
    pub async fn run(&self, api: Api<Lean<K>>, shutdown: CancellationToken) {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        loop {
            let delay = tokio::select! {
                () = shutdown.cancelled() => return,
                delay = self.follow(&api, &mut backoff) => delay,
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    /// Lists and watches until the version to go on from is too old, then returns the time to wait before a new list.
    async fn follow(&self, api: &Api<Lean<K>>, backoff: &mut Backoff) -> Duration {
        let stream = watcher(api.clone(), watcher::Config::default());
        pin_mut!(stream);
        let mut listed = Vec::new();
        let began = Instant::now();
        while let Some(event) = stream.next().await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(object)) => listed.push(object.0),
                Ok(watcher::Event::InitDone) => {
                    backoff.reset();
                    self.replace(std::mem::take(&mut listed));
                }
                Ok(watcher::Event::Apply(object)) => {
                    backoff.reset();
                    self.apply(object.0);
                }
                Ok(watcher::Event::Delete(object)) => {
                    backoff.reset();
                    self.remove(object.0);
                }
                // kube's watcher would ask for the same version for ever if the request itself is refused.
                Err(error) if is_expired(&error) => {
                    tracing::debug!(
                        url = api.resource_url(),
                        "the version to watch from is too old, listing again"
                    );
                    // After a watch that went well for a while the next list need not wait.
                    let at_once = began.elapsed() > Duration::from_secs(1);
                    return if at_once { Duration::ZERO } else { backoff.advance() };
                }
                Err(error) => {
                    let delay = backoff.advance();
                    tracing::debug!(url = api.resource_url(), %error, delay_ms = delay.as_millis(), "watch failed");
                    tokio::time::sleep(delay).await;
                }
            }
        }
        backoff.advance()
    }
}

fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(e) | watcher::Error::WatchFailed(e) => {
            status_of(e).is_some_and(|status| status.code == 410)
        }
        watcher::Error::WatchError(status) => status.code == 410,
        watcher::Error::InitialListFailed(_) | watcher::Error::NoResourceVersion => false,
    }
}

impl<K: Resource> Store<K> {
    fn put(&mut self, object: Arc<K>) -> Change<K> {
        let key: Arc<str> = key_of(object.as_ref()).into();
        let old = self.take(&key);
        for index in self.indexes.values_mut() {
            index.insert(&key, &object);
        }
        self.objects.insert(key, Arc::clone(&object));
        Change { old, new: Some(object) }
    }

    fn take(&mut self, key: &str) -> Option<Arc<K>> {
        let old = self.objects.remove(key)?;
        for index in self.indexes.values_mut() {
            index.remove(key, &old);
        }
        Some(old)
    }
}

impl<K> Index<K> {
    fn insert(&mut self, key: &Arc<str>, object: &K) {
        for value in (self.values)(object) {
            self.keys.entry(value).or_default().insert(Arc::clone(key));
        }
    }

    fn remove(&mut self, key: &str, object: &K) {
        for value in (self.values)(object) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}

fn same_version<K: Resource>(a: &K, b: &K) -> bool {
    let (a, b) = (a.meta(), b.meta());
    a.uid == b.uid && a.resource_version.is_some() && a.resource_version == b.resource_version
}

fn deliver_all<K>(handlers: &Handlers<K>, change: &Change<K>) {
    for (_, handler) in &handlers.list {
        deliver(handler, change);
    }
}

/// A handler that panics loses this change; the informer and the other handlers go on (I12).
fn deliver<K>(handler: &Handler<K>, change: &Change<K>) {
    if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| handler(change))) {
        tracing::error!(panic = panic_text(panic.as_ref()), "a change handler panicked");
    }
}

#[cfg(test)]
mod tests;
