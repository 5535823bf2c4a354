//! A cache of one kind, kept up to date by list and watch, with string indexes and change handlers.
//!
//! The initial list is applied and delivered to the handlers before [`Informer::synced`] ends. A deletion that was
//! missed during an interruption is delivered after the next list. There is no periodic resync.
//!
//! An object that cannot be decoded is set aside (see [`Informer::find`]).
//!
//! Objects that have not changed recently are packed (see [`crate::packed_object`]), and lists are read page by page, with each
//! object added as it arrives: all objects are never in memory in decoded form.

mod change;
mod list;
mod set_aside;
mod store;
#[cfg(test)]
mod tests;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, Object};
use crate::failing::SetAside;
pub use crate::object_key::{key_of, split_key};
use crate::packed_object::PackedObject;
use crate::time_slice::TimeSlice;
use crate::watcher::{Event, Selection, Undecodable, WatcherError, sized_watcher};
use crate::worker::panic_text;
use orlop_apimachinery::clock::Backoff;

pub use change::Change;
use list::Listed;
pub use store::IndexFn;
use store::{Store, contained};

type Handler<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

/// Removes the unused fields of an object before it is cached.
pub type Trim<K> = fn(&mut K);

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
    /// Also orders deliveries: locked while a change is applied and delivered.
    handlers: Mutex<Handlers<K>>,
    synced: watch::Sender<bool>,
    /// Objects whose current version cannot be decoded.
    set_aside: Mutex<BTreeMap<Arc<str>, Undecodable>>,
    /// Reports them.
    reporter: OnceLock<SetAside>,
    trim: Option<Trim<K>>,
}

struct Handlers<K> {
    next: u64,
    list: Vec<(u64, Handler<K>)>,
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
            shared.handlers.lock().list.retain(|(id, _)| *id != self.id);
        }
    }
}

impl<K: Object> Default for Informer<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object> Informer<K> {
    /// Creates an empty informer. It does nothing until [`run`](Self::run). Tests of decisions can fill it with
    /// [`apply`](Self::apply).
    pub fn new() -> Self {
        Self::with_trim(None)
    }

    /// An informer whose objects are trimmed before they are cached and delivered.
    pub fn trimmed(trim: Trim<K>) -> Self {
        Self::with_trim(Some(trim))
    }

    fn with_trim(trim: Option<Trim<K>>) -> Self {
        let store = Store::default();
        Self {
            shared: Arc::new(Shared {
                store: RwLock::new(store),
                handlers: Mutex::new(Handlers { next: 0, list: Vec::new() }),
                synced: watch::Sender::new(false),
                set_aside: Mutex::default(),
                reporter: OnceLock::new(),
                trim,
            }),
        }
    }

    /// Reports the objects that cannot be decoded here. The first call decides.
    pub fn report_to(&self, reporter: SetAside) {
        self.shared.reporter.get_or_init(|| reporter);
    }

    /// Adds an index under `name`, including cached objects. An existing index with this name stays.
    pub fn add_index(&self, name: &'static str, values: IndexFn<K>) {
        self.write().add_index(name, values);
    }

    /// Calls `handler` for every later change, in order, after the change was applied to the cache. Cached objects are
    /// delivered first, as additions. A handler must be quick (add a key to a queue) and must not register others.
    pub fn add_handler(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) -> Registration {
        self.add_shared_handler(Arc::new(handler))
    }

    fn add_shared_handler(&self, handler: Handler<K>) -> Registration {
        let mut handlers = self.handlers();
        for kept in self.kept() {
            if let Some(object) = decoded(&kept) {
                deliver(&handler, &Change::added(&kept, object));
            }
        }
        handlers.next += 1;
        let id = handlers.next;
        handlers.list.push((id, handler));
        Registration { _detach: Box::new(Detach { shared: Arc::downgrade(&self.shared), id }) }
    }

    /// The cached object with this key.
    pub fn get(&self, key: &str) -> Option<Arc<K>> {
        self.get_kept(key).map(|kept| kept.get())
    }

    /// Like `get`, in the cached form.
    pub fn get_kept(&self, key: &str) -> Option<PackedObject<K>> {
        self.read().objects.get(key).map(|slot| slot.kept.clone())
    }

    /// All cached objects, by key. Decoded, they are many times larger than the cache; see [`kept`](Self::kept).
    pub fn list(&self) -> Vec<Arc<K>> {
        self.kept().iter().map(PackedObject::get).collect()
    }

    /// All cached objects in their cached form, by key.
    pub fn kept(&self) -> Vec<PackedObject<K>> {
        self.read().objects.values().map(|slot| slot.kept.clone()).collect()
    }

    /// At most `most` objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str, most: usize) -> Vec<Arc<K>> {
        self.kept_in_namespace(namespace, most).iter().map(PackedObject::get).collect()
    }

    /// The objects of a namespace, by name. Decodes each object only when the iterator reaches it.
    pub fn each_in_namespace(&self, namespace: &str) -> impl Iterator<Item = Arc<K>> + use<K> {
        self.kept_in_namespace(namespace, usize::MAX).into_iter().map(|kept| kept.get())
    }

    fn kept_in_namespace(&self, namespace: &str, most: usize) -> Vec<PackedObject<K>> {
        let prefix = format!("{namespace}/");
        let store = self.read();
        let below = store.objects.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        let inside = below.take_while(|(key, _)| key.starts_with(&prefix));
        inside.take(most).map(|(_, slot)| slot.kept.clone()).collect()
    }

    /// The number of cached objects.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether no object is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects with this value in the index `name`, ordered by key. Empty if the index does not exist.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<K>> {
        self.each_by_index(name, value).collect()
    }

    /// As [`by_index`](Self::by_index), but decodes each object only when the iterator reaches it. Decoded objects need many times the
    /// memory of packed ones, so this reduces the memory of a caller that processes many objects one after the other.
    pub fn each_by_index(&self, name: &str, value: &str) -> impl Iterator<Item = Arc<K>> + use<K> {
        let found: Vec<PackedObject<K>> = {
            let store = self.read();
            let keys = store.keys(name, value);
            keys.filter_map(|key| store.objects.get(key)).map(|slot| slot.kept.clone()).collect()
        };
        found.into_iter().map(|kept| kept.get())
    }

    /// The keys of the objects with this value in the index `name` that begin with `prefix`, in order. Decodes nothing.
    pub fn indexed_keys(&self, name: &str, value: &str, prefix: &str) -> Vec<Arc<str>> {
        self.read().keys_below(name, value, prefix).cloned().collect()
    }

    /// The values in the index `name`, in order. Decodes nothing.
    pub fn indexed_values(&self, name: &str) -> BTreeSet<String> {
        self.read().values(name).map(str::to_owned).collect()
    }

    /// Whether an object with this value exists in the index `name`.
    pub fn has_indexed(&self, name: &str, value: &str) -> bool {
        self.read().keys(name, value).next().is_some()
    }

    /// Whether the first list was applied and delivered to the handlers.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits for [`has_synced`](Self::has_synced).
    pub async fn synced(&self) {
        let mut synced = self.shared.synced.subscribe();
        // Cannot fail: the sender lives as long as `self`.
        let _ = synced.wait_for(|done| *done).await;
    }

    /// Adds an object to the cache and calls the handlers.
    pub fn apply(&self, object: K) {
        let bytes = json_len(&object);
        self.apply_sized(object, bytes);
    }

    fn apply_sized(&self, object: K, bytes: usize) {
        let kept = self.keep(object);
        let object = kept.get();
        self.apply_kept(kept, object, bytes);
    }

    fn apply_kept(&self, kept: PackedObject<K>, object: Arc<K>, bytes: usize) {
        let key = Arc::clone(kept.key());
        let handlers = self.handlers();
        let (change, cold) = {
            let mut store = self.write();
            (store.put(kept, object, bytes), store.cold())
        };
        deliver_all(&handlers, &change);
        // Only now: an object that is no longer set aside is in the cache and in the tables of the handlers.
        self.take_back(&key);
        drop((change, handlers));
        cold.iter().filter(|kept| !kept.is_last()).for_each(PackedObject::pack);
    }

    /// Removes an object from the cache and calls the handlers. `last` is its final state.
    pub fn remove(&self, last: K) {
        let last = self.keep(last);
        self.forget_aside(last.key());
        let handlers = self.handlers();
        let Some(change) = self.write().take(last.key(), Some(&last)) else { return };
        deliver_all(&handlers, &change);
    }

    /// Makes the cache equal to a complete list: handlers receive new, changed and deleted objects.
    pub fn replace(&self, list: Vec<K>) {
        let mut listed = Listed::default();
        for object in list {
            let bytes = json_len(&object);
            self.collect(&mut listed, object, bytes);
        }
        for change in self.changes(listed) {
            self.settle(change);
        }
        self.shared.synced.send_replace(true);
    }

    /// Trims the object and reuses its cached key, if any.
    fn keep(&self, mut object: K) -> PackedObject<K> {
        if let Some(trim) = self.shared.trim {
            trim(&mut object);
        }
        let key = key_of(&object);
        let known = self.read().objects.get_key_value(key.as_str()).map(|(key, _)| Arc::clone(key));
        PackedObject::with_key(known.unwrap_or_else(|| key.into()), Arc::new(object))
    }

    fn handlers(&self) -> MutexGuard<'_, Handlers<K>> {
        self.shared.handlers.lock()
    }

    fn read(&self) -> RwLockReadGuard<'_, Store<K>> {
        self.shared.store.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store<K>> {
        self.shared.store.write()
    }
}

impl<K: Object> Informer<K> {
    /// Lists and watches until `shutdown` is cancelled. If the server is unreachable, retries after 100 ms, doubling
    /// up to 10 s.
    pub async fn run(&self, api: Api<K>, shutdown: CancellationToken) {
        self.run_selected(api, Selection::default(), shutdown).await;
    }

    /// Like [`run`](Self::run), for the selected objects only.
    pub async fn run_selected(&self, api: Api<K>, selection: Selection, shutdown: CancellationToken) {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        loop {
            let followed = tokio::select! {
                () = shutdown.cancelled() => return,
                followed = AssertUnwindSafe(self.follow(&api, &selection, &mut backoff)).catch_unwind() => followed,
            };
            // A cache that ended silently would be out of date for the life of the process.
            let delay = followed.unwrap_or_else(|panic| {
                let panic = panic_text(panic.as_ref());
                tracing::error!(url = api.resource_url(), panic, "the watch panicked, listing again");
                backoff.advance()
            });
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    /// Lists and watches until a new list is required, then returns the delay before it.
    async fn follow(&self, api: &Api<K>, selection: &Selection, backoff: &mut Backoff) -> Duration {
        let mut stream = sized_watcher(api, selection);
        let mut listed = Listed::default();
        let (began, mut slice) = (Instant::now(), TimeSlice::start());
        while let Some(event) = slice.wait(stream.next()).await {
            match event {
                Ok(Event::Init) => listed = Listed::default(),
                Ok(Event::InitApply((Ok(object), bytes))) => self.collect(&mut listed, object, bytes),
                Ok(Event::InitApply((Err(object), _))) => self.collect_undecodable(&mut listed, object),
                Ok(Event::InitDone) => {
                    backoff.reset();
                    slice.wait(self.complete(std::mem::take(&mut listed))).await;
                }
                Ok(Event::Apply((object, bytes))) => {
                    backoff.reset();
                    match object {
                        Ok(object) => {
                            contained("change", &key_of(&object), || self.apply_sized(object, bytes));
                        }
                        Err(object) => self.put_aside(&object.key.as_str().into(), object),
                    }
                }
                Ok(Event::Delete((object, _))) => {
                    backoff.reset();
                    match object {
                        Ok(object) => drop(contained("deletion", &key_of(&object), || self.remove(object))),
                        Err(object) => self.delete(&object.key.as_str().into()),
                    }
                }
                Err(error) => match after_error(api.resource_url(), &error, began, backoff) {
                    AfterError::ListAgain(delay) => return delay,
                    AfterError::Resume(delay) => slice.wait(tokio::time::sleep(delay)).await,
                },
            }
            // A page of a list has many objects, and events may arrive faster than they are applied.
            slice.yield_if_over().await;
        }
        backoff.advance()
    }
}

/// The reaction to a failed list or watch.
enum AfterError {
    /// List again after this delay.
    ListAgain(Duration),
    /// Continue with the same stream after this delay.
    Resume(Duration),
}

/// Decides on the failure of a watch that began at `began`.
fn after_error(url: &str, error: &WatcherError, began: Instant, backoff: &mut Backoff) -> AfterError {
    if error.is_expired() {
        tracing::debug!(url, "the version to watch from is too old, listing again");
        // The next list is not delayed if the watch lasted longer than 1 s.
        let lasted = began.elapsed() > Duration::from_secs(1);
        return AfterError::ListAgain(if lasted { Duration::ZERO } else { backoff.advance() });
    }
    // Continuing would delete the object from the cache, because it would be missing from the list.
    if matches!(error, WatcherError::Item(_)) {
        tracing::warn!(url, %error, "cannot read the list");
        return AfterError::ListAgain(backoff.advance());
    }
    let delay = backoff.advance();
    tracing::debug!(url, %error, delay_ms = delay.as_millis(), "watch failed");
    AfterError::Resume(delay)
}

fn deliver_all<K>(handlers: &Handlers<K>, change: &Change<K>) {
    for (_, handler) in &handlers.list {
        deliver(handler, change);
    }
}

/// Delivers a change. A handler that panics loses this change; the informer and the other handlers continue
/// (I12).
fn deliver<K>(handler: &Handler<K>, change: &Change<K>) {
    contained("change handler", change.key(), || handler(change));
}

/// The length of the object's JSON in bytes.
fn json_len<K: Object>(object: &K) -> usize {
    object.encode().map_or(0, |json| json.len())
}

/// The object; `None` if it cannot be decoded.
fn decoded<K: Object>(kept: &PackedObject<K>) -> Option<Arc<K>> {
    contained("decoding", kept.key(), || kept.get())
}
