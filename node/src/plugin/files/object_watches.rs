//! Tracks the API objects that volumes use: ConfigMaps and Secrets, each with one watch while a volume uses it,
//! and tokens. A volume is notified when one of its objects may have changed. Immutable objects are read once.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Client;
use kube::core::NamespaceResourceScope;
use orlop_apimachinery::clock::Clock;
use orlop_client::api::Object;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::tokens::{self, Token, TokenKey};
use crate::objects::object_watch::{ObjectWatch, ObjectWatches, Observed};
use crate::plugin::Place;

/// The set-up fails when an object is not known after this time; the volume is notified when it becomes known.
const PATIENCE: Duration = Duration::from_secs(10);
/// A wait for a wall-clock time is split, because clocks are set and machines sleep.
const PART: Duration = Duration::from_secs(300);
/// The shortest time between two attempts to renew a token.
const LEAST: SignedDuration = SignedDuration::from_secs(30);

/// Volumes with possibly changed content, which must be set up again. For one reader; clones share the queue.
#[derive(Clone, Default)]
pub struct Changes {
    waiting: Arc<ChangedVolumes>,
}

#[derive(Default)]
struct ChangedVolumes {
    places: Mutex<BTreeSet<Place>>,
    notify: Notify,
}

impl Changes {
    /// Waits for the next volume. Several changes of a volume are reported as one.
    pub async fn next(&self) -> Place {
        loop {
            let notified = self.waiting.notify.notified();
            let next = self.waiting.places.lock().pop_first();
            if let Some(place) = next {
                return place;
            }
            notified.await;
        }
    }

    fn forget(&self, place: &Place) {
        self.waiting.places.lock().remove(place);
    }

    fn tell(&self, place: &Place) {
        self.waiting.places.lock().insert(place.clone());
        self.waiting.notify.notify_one();
    }
}

/// The objects that one volume of one pod uses.
#[derive(Default)]
pub(super) struct VolumeUse {
    maps: HashMap<String, UsedObject<ConfigMap>>,
    secrets: HashMap<String, UsedObject<Secret>>,
    tokens: HashMap<TokenKey, Token>,
    renewal: Option<DropGuard>,
}

enum UsedObject<K> {
    /// Mutable: watched.
    Followed { object: ObjectWatch<K>, _guard: DropGuard },
    /// Immutable: read once.
    Kept(Arc<K>),
}

/// The uses of all volumes. A volume has only one set-up at a time.
pub(super) struct VolumeUses {
    client: Client,
    shutdown: CancellationToken,
    maps: ObjectWatches<ConfigMap>,
    secrets: ObjectWatches<Secret>,
    changes: Changes,
    used: Mutex<HashMap<Place, Arc<tokio::sync::Mutex<VolumeUse>>>>,
}

impl VolumeUses {
    pub(super) fn new(client: Client, shutdown: CancellationToken) -> Self {
        Self {
            maps: ObjectWatches::namespaced(client.clone(), shutdown.clone()),
            secrets: ObjectWatches::namespaced(client.clone(), shutdown.clone()),
            client,
            shutdown,
            changes: Changes::default(),
            used: Mutex::default(),
        }
    }

    pub(super) fn changes(&self) -> Changes {
        self.changes.clone()
    }

    /// The uses of a volume; empty at first.
    pub(super) fn of(&self, place: &Place) -> Arc<tokio::sync::Mutex<VolumeUse>> {
        let mut used = self.used.lock();
        Arc::clone(used.entry(place.clone()).or_default())
    }

    /// Forgets a removed volume, with its watches and tokens.
    pub(super) fn forget(&self, place: &Place) {
        self.used.lock().remove(place);
        self.changes.forget(place);
    }

    pub(super) fn reader<'a>(&'a self, place: &'a Place, namespace: &'a str) -> Reader<'a> {
        Reader { uses: self, place, namespace }
    }

    /// Schedules a notification of a volume for the renewal of a token.
    pub(super) fn remind(
        &self,
        used: &mut VolumeUse,
        place: &Place,
        renewal: Option<Timestamp>,
        clock: Clock,
    ) {
        let Some(renewal) = renewal else {
            used.renewal = None;
            return;
        };
        let soon = clock.now().saturating_add(LEAST).unwrap_or(Timestamp::MAX);
        let due = renewal.max(soon);
        let (end, changes, place) = (self.shutdown.child_token(), self.changes.clone(), place.clone());
        used.renewal = Some(end.clone().drop_guard());
        tokio::spawn(async move {
            loop {
                let left = Duration::try_from(due.duration_since(clock.now())).unwrap_or_default();
                tokio::select! {
                    () = end.cancelled() => return,
                    () = tokio::time::sleep(left.min(PART)) => {}
                }
                if clock.now() >= due {
                    return changes.tell(&place);
                }
            }
        });
    }
}

/// Reads objects for one volume.
pub(super) struct Reader<'a> {
    uses: &'a VolumeUses,
    place: &'a Place,
    namespace: &'a str,
}

impl Reader<'_> {
    /// Reads a ConfigMap; none when it does not exist.
    ///
    /// # Errors
    /// The server does not answer.
    pub(super) async fn config_map(
        &self,
        used: &mut VolumeUse,
        name: &str,
    ) -> Result<Option<Arc<ConfigMap>>, String> {
        let is_immutable = |map: &ConfigMap| map.immutable == Some(true);
        let known = self.look(&mut used.maps, &self.uses.maps, name, is_immutable).await;
        known.ok_or_else(|| late("configmap"))
    }

    /// Reads a Secret; none when it does not exist.
    ///
    /// # Errors
    /// The server does not answer.
    pub(super) async fn secret(
        &self,
        used: &mut VolumeUse,
        name: &str,
    ) -> Result<Option<Arc<Secret>>, String> {
        let is_immutable = |secret: &Secret| secret.immutable == Some(true);
        let known = self.look(&mut used.secrets, &self.uses.secrets, name, is_immutable).await;
        known.ok_or_else(|| late("secret"))
    }

    /// A token of the pod.
    ///
    /// # Errors
    /// There is no valid token.
    pub(super) async fn token(
        &self,
        used: &mut VolumeUse,
        pod: &Pod,
        key: &TokenKey,
        now: Timestamp,
    ) -> Result<Token, String> {
        let token = tokens::fetch(&self.uses.client, pod, key, used.tokens.get(key), now).await?;
        used.tokens.insert(key.clone(), token.clone());
        Ok(token)
    }

    /// None: the object is not known.
    async fn look<K>(
        &self,
        held: &mut HashMap<String, UsedObject<K>>,
        follow: &ObjectWatches<K>,
        name: &str,
        is_immutable: impl Fn(&K) -> bool,
    ) -> Option<Option<Arc<K>>>
    where
        K: Object<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let seen = match held.get(name) {
            Some(UsedObject::Kept(object)) => return Some(Some(Arc::clone(object))),
            Some(UsedObject::Followed { object, .. }) => {
                let mut object = object.clone();
                tokio::time::timeout(PATIENCE, object.known()).await.unwrap_or(Observed::Unknown)
            }
            None => {
                let mut object = follow.follow(self.namespace, name);
                let seen = tokio::time::timeout(PATIENCE, object.known()).await.unwrap_or(Observed::Unknown);
                // Every change after the version just read is reported.
                let (kept, end) = (object.clone(), self.uses.shutdown.child_token());
                let (changes, place) = (self.uses.changes.clone(), self.place.clone());
                let guard = end.clone().drop_guard();
                tokio::spawn(async move {
                    loop {
                        let is_changed = tokio::select! {
                            () = end.cancelled() => false,
                            is_changed = object.changed() => is_changed,
                        };
                        if !is_changed {
                            return;
                        }
                        changes.tell(&place);
                    }
                });
                held.insert(name.to_owned(), UsedObject::Followed { object: kept, _guard: guard });
                seen
            }
        };
        match seen {
            Observed::Unknown => None,
            Observed::Absent => Some(None),
            Observed::There(object) => {
                if is_immutable(&object) {
                    held.insert(name.to_owned(), UsedObject::Kept(Arc::clone(&object)));
                }
                Some(Some(object))
            }
        }
    }
}

fn late(kind: &str) -> String {
    format!("failed to sync {kind} cache: timed out waiting for the condition")
}
