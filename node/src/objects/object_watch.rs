//! Watches single objects of any kind, each for as long as it has users. Users of the same object share a watch.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Weak};

use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use orlop_client::api::Api;
use orlop_client::api::Object;
use orlop_client::informer::Informer;
use orlop_client::watcher::Selection;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The known state of an object.
#[derive(Debug)]
pub enum Observed<K> {
    /// Not known yet.
    Unknown,
    /// The object does not exist.
    Absent,
    /// The object exists.
    There(Arc<K>),
}

impl<K> Clone for Observed<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Absent => Self::Absent,
            Self::There(object) => Self::There(Arc::clone(object)),
        }
    }
}

/// Watches objects of one kind. Clones share the watches.
pub struct ObjectWatches<K> {
    shared: Arc<WatchTable<K>>,
}

/// The API of the kind in a namespace.
type ApiOf<K> = Box<dyn Fn(&str) -> Api<K> + Send + Sync>;
/// Watches by namespace and name.
type ByName<K> = HashMap<(String, String), Weak<WatchedObject<K>>>;

struct WatchTable<K> {
    api: ApiOf<K>,
    followed: Mutex<ByName<K>>,
    shutdown: CancellationToken,
}

struct WatchedObject<K> {
    seen: watch::Receiver<Observed<K>>,
    _end: DropGuard,
}

/// A user of a watched object; dropping the last clone ends the watch.
pub struct ObjectWatch<K> {
    one: Arc<WatchedObject<K>>,
    seen: watch::Receiver<Observed<K>>,
}

impl<K> Clone for ObjectWatches<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> Clone for ObjectWatch<K> {
    fn clone(&self) -> Self {
        Self { one: Arc::clone(&self.one), seen: self.one.seen.clone() }
    }
}

impl<K> ObjectWatch<K> {
    /// The state known now.
    pub fn get(&self) -> Observed<K> {
        self.seen.borrow().clone()
    }

    /// Waits until the state is known.
    pub async fn known(&mut self) -> Observed<K> {
        match self.seen.wait_for(|seen| !matches!(seen, Observed::Unknown)).await {
            Ok(seen) => seen.clone(),
            Err(_) => Observed::Unknown,
        }
    }

    /// Returns when the object has changed since the last [`known`](Self::known) or `changed`; false when its watch
    /// has ended.
    pub async fn changed(&mut self) -> bool {
        self.seen.changed().await.is_ok()
    }
}

impl<K> ObjectWatches<K>
where
    K: Object<DynamicType = ()>,
{
    /// Watches a namespaced kind. All watches end with `shutdown`.
    pub fn namespaced(client: Client, shutdown: CancellationToken) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self::of(move |namespace| Api::namespaced(client.clone(), namespace), shutdown)
    }

    fn of(api: impl Fn(&str) -> Api<K> + Send + Sync + 'static, shutdown: CancellationToken) -> Self {
        Self { shared: Arc::new(WatchTable { api: Box::new(api), followed: Mutex::default(), shutdown }) }
    }

    /// Watches an object, which need not exist.
    pub fn follow(&self, namespace: &str, name: &str) -> ObjectWatch<K> {
        let key = (namespace.to_owned(), name.to_owned());
        let mut followed = self.followed();
        followed.retain(|_, one| one.strong_count() > 0);
        let one = followed.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let one = Arc::new(self.begin(namespace, name));
            followed.insert(key, Arc::downgrade(&one));
            one
        });
        let seen = one.seen.clone();
        ObjectWatch { one, seen }
    }

    fn begin(&self, namespace: &str, name: &str) -> WatchedObject<K> {
        let (sender, seen) = watch::channel(Observed::Unknown);
        let end = self.shared.shutdown.child_token();
        let (api, selected) =
            ((self.shared.api)(namespace), Selection::fields(&format!("metadata.name={name}")));
        let token = end.clone();
        tokio::spawn(async move {
            let informer = Informer::<K>::new();
            let sender = Arc::new(sender);
            let changes = Arc::clone(&sender);
            let _handler = informer.add_handler(move |change| {
                changes.send_replace(change.new.clone().map_or(Observed::Absent, Observed::There));
            });
            let synced = async {
                informer.synced().await;
                sender.send_if_modified(|seen| {
                    let unknown = matches!(seen, Observed::Unknown);
                    if unknown {
                        *seen = Observed::Absent;
                    }
                    unknown
                });
            };
            tokio::join!(informer.run_selected(api, selected, token.clone()), async {
                tokio::select! {
                    () = token.cancelled() => {}
                    () = synced => {}
                }
            });
        });
        WatchedObject { seen, _end: end.drop_guard() }
    }

    fn followed(&self) -> MutexGuard<'_, ByName<K>> {
        self.shared.followed.lock()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::api::core::v1::ConfigMap;
    use orlop_test_support::FakeApi;
    use serde_json::{Value, json};

    use super::*;

    fn map(name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name}, "data": {"k": value}})
    }

    fn value(seen: &Observed<ConfigMap>) -> String {
        match seen {
            Observed::Unknown => "unknown".to_owned(),
            Observed::Absent => "absent".to_owned(),
            Observed::There(map) => {
                map.data.as_ref().and_then(|data| data.get("k")).cloned().unwrap_or_default()
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn object_is_watched_before_it_exists_until_its_last_user() {
        let api = FakeApi::new();
        api.seed(map("other", "no"));
        let shutdown = CancellationToken::new();
        let follow: ObjectWatches<ConfigMap> = ObjectWatches::namespaced(api.client(), shutdown.clone());
        let mut first = follow.follow("ns", "m");
        assert_eq!(value(&first.get()), "unknown");
        assert_eq!(value(&first.known().await), "absent");
        let second = follow.follow("ns", "m");
        api.settle().await;
        let watches = || api.requests().iter().filter(|request| request.contains("configmaps")).count();
        let before = watches();
        api.create(map("m", "1"));
        assert!(first.changed().await);
        assert_eq!((value(&first.get()), value(&second.get())), ("1".to_owned(), "1".to_owned()));
        api.patch("configmaps", "ns/m", "", json!({"data": {"k": "2"}}));
        assert!(first.changed().await);
        assert_eq!(value(&first.get()), "2");
        assert_eq!(watches(), before, "both share a watch");
        api.delete("configmaps", "ns/m");
        assert!(first.changed().await);
        assert_eq!(value(&first.get()), "absent");
        drop((first, second));
        api.settle().await;
        api.disconnect(false);
        api.settle().await;
        assert_eq!(watches(), before, "nothing is asked for any more");
    }
}
