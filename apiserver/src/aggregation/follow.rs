//! Follows the APIServices and the objects that lead to their servers, publishes and checks the servers, and writes the condition
//! `Available`.
//!
//! Changes are published as soon as they are read. [`Schedule`] decides when a server is checked; checks and writes run beside this.
//!
//! Upstream: kube-aggregator `pkg/controllers/status`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use orlop_api::object::Object;
use orlop_store::{Key, Record, Snapshot, Watcher};
use tokio::time::{Instant, sleep, sleep_until};

use super::check;
use super::condition::{self, Availability, Checked, ServicePort};
use super::resolve::{FollowedKinds, Target, resolve};
use super::schedule::{CHECK_EVERY, Schedule};
use super::{RemoteService, Remotes, write};
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::Kind;
use crate::state::Inner;

/// The time for which changes of Services and EndpointSlices are collected.
const COLLECT: Duration = Duration::from_millis(500);
/// The delay before a watch that has ended is opened again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// An APIService of another server, or one of this server whose condition is wrong.
struct Entry {
    object: Object,
    /// `None` until it is resolved for the first time.
    target: Option<Target>,
}

/// A completed step of a check.
enum Step {
    Checked(Key, Target, Checked),
    Written(Key),
}

/// The APIServices, and the checks of their servers.
struct Follower {
    server: Arc<Inner>,
    kinds: FollowedKinds,
    entries: BTreeMap<Key, Entry>,
    /// The APIServices that are new, or whose server may have changed.
    unresolved: BTreeSet<Key>,
    schedule: Schedule,
    steps: FuturesUnordered<BoxFuture<'static, Step>>,
}

/// Publishes the servers until this one closes.
pub(crate) async fn follow(server: Arc<Inner>) {
    let Some(kinds) = FollowedKinds::registered() else { return };
    let closing = server.closing.clone();
    let mut follower = Follower {
        server: server.clone(),
        kinds,
        entries: BTreeMap::new(),
        unresolved: BTreeSet::new(),
        schedule: Schedule::default(),
        steps: FuturesUnordered::new(),
    };
    let following = async {
        loop {
            if let Err(error) = follower.watch().await {
                tracing::debug!(error, "the watch of APIServices is restarted");
            }
            sleep(AGAIN_AFTER).await;
        }
    };
    tokio::select! {
        () = closing.cancelled() => {}
        () = following => {}
        () = refresh_identity(&server) => {}
    }
}

/// Reads changed files of the certificate of this server.
async fn refresh_identity(server: &Inner) {
    let Some(identity) = &server.aggregation.identity else { return std::future::pending().await };
    loop {
        sleep(CHECK_EVERY).await;
        let identity = identity.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || identity.refresh()).await {
            tracing::error!("the previous certificate stays in use: {error}");
        }
    }
}

/// Watches of the Services and EndpointSlices.
type Cluster = [Watcher<Projection>; 2];

impl Follower {
    /// Follows the objects until a watch ends.
    async fn watch(&mut self) -> Result<(), String> {
        let head = self.server.store.head();
        let mut changes = self.open(self.kinds.api_services, &head)?;
        self.read_all(&head);
        drop(head);
        // Open while there are other servers.
        let mut cluster: Option<Cluster> = None;
        let mut collected_at: Option<Instant> = None;
        loop {
            if !self.entries.values().any(Entry::is_remote) {
                (cluster, collected_at) = (None, None);
            } else if cluster.is_none() {
                let head = self.server.store.head();
                let watches = [self.open(self.kinds.services, &head)?, self.open(self.kinds.slices, &head)?];
                cluster = Some(watches);
                self.unresolved.extend(self.entries.keys().cloned());
            }
            self.resolve().await;
            self.publish();
            self.start_checks();
            tokio::select! {
                changed = changes.next() => {
                    let mut changed = Some(changed);
                    while let Some(events) = changed {
                        for event in events.map_err(|error| error.to_string())? {
                            self.note(&event.key, event.record.as_ref());
                        }
                        changed = changes.next().now_or_never();
                    }
                }
                changed = any(&mut cluster), if collected_at.is_none() => {
                    changed?;
                    collected_at = Some(Instant::now() + COLLECT);
                }
                () = until(collected_at) => {
                    drain(&mut cluster)?;
                    collected_at = None;
                    self.unresolved.extend(self.entries.keys().cloned());
                }
                Some(step) = self.steps.next() => self.proceed(step),
                () = until(self.schedule.next()) => {}
            }
        }
    }

    fn open(&self, kind: &dyn Kind, head: &Snapshot<Projection>) -> Result<Watcher<Projection>, String> {
        let watcher = self.server.store.watch(kind.storage_prefix(), head.revision());
        watcher.map_err(|error| error.to_string())
    }

    /// Records all APIServices. Those that have not changed since the last watch are not checked again.
    fn read_all(&mut self, head: &Snapshot<Projection>) {
        let mut removed: BTreeSet<Key> = self.entries.keys().cloned().collect();
        for record in head.range(self.kinds.api_services.storage_prefix(), None) {
            removed.remove(&record.key);
            self.note(&record.key, Some(record));
        }
        for key in removed {
            self.note(&key, None);
        }
    }

    /// Records the new state of an APIService.
    fn note(&mut self, key: &Key, record: Option<&Arc<Record<Projection>>>) {
        let object = record.and_then(|record| stored::decode(record).ok());
        let needs_attention =
            |object: &Object| RemoteService::of(object).is_some() || condition::is_wrong_for_local(object);
        match object.filter(needs_attention) {
            Some(object) => {
                let target = self.entries.remove(key).and_then(|entry| entry.target);
                self.entries.insert(key.clone(), Entry { object, target });
                self.unresolved.insert(key.clone());
            }
            None => {
                self.entries.remove(key);
                self.unresolved.remove(key);
                self.schedule.remove(key);
            }
        }
    }

    /// Finds the servers of new and changed APIServices, and requests their checks.
    async fn resolve(&mut self) {
        let of_key = |key: Key| {
            let entry = self.entries.get(&key)?;
            Some((key, entry.object.clone(), entry.target.clone()))
        };
        let unresolved: Vec<_> =
            std::mem::take(&mut self.unresolved).into_iter().filter_map(of_key).collect();
        if unresolved.is_empty() {
            return;
        }
        let (head, kinds) = (self.server.store.head(), self.kinds);
        let resolved = tokio::task::spawn_blocking(move || {
            let of = |(key, object, former): (Key, Object, Option<Target>)| {
                (key, resolve(&head, kinds, &object, former.as_ref().and_then(Target::remote)))
            };
            unresolved.into_iter().map(of).collect::<Vec<_>>()
        });
        let Ok(resolved) = resolved.await else { return };
        let now = Instant::now();
        for (key, target) in resolved {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if !entry.target.as_ref().is_some_and(|former| former.is_same(&target)) {
                self.schedule.changed(&key, now);
            }
            entry.target = Some(target);
        }
    }

    /// Publishes the servers, unless they are the same.
    fn publish(&self) {
        let targets = self.entries.values().filter_map(|entry| entry.target.as_ref());
        let remotes = Remotes::of(targets.filter_map(Target::remote).cloned());
        let aggregation = &self.server.aggregation;
        if remotes != *aggregation.now() {
            aggregation.current.store(Arc::new(remotes));
        }
    }

    fn start_checks(&mut self) {
        for key in self.schedule.start(Instant::now()) {
            let target = self.entries.get(&key).and_then(|entry| entry.target.clone());
            let Some(target) = target else {
                self.schedule.finished(&key);
                continue;
            };
            let server = self.server.clone();
            self.steps.push(
                async move {
                    let checked = match &target {
                        Target::Local => Checked::without_resources(Availability::Local),
                        Target::WithoutAddress(_, why) => Checked::without_resources(why.clone()),
                        Target::WithAddress(remote) => check::check(remote, &server.aggregation).await,
                    };
                    Step::Checked(key, target, checked)
                }
                .boxed(),
            );
        }
    }

    /// Publishes the result of a check and begins to write the condition. If the server has changed since the check began, the result
    /// is obsolete, and the schedule has another check.
    fn proceed(&mut self, step: Step) {
        let (key, checked_target, checked) = match step {
            Step::Written(key) => return self.schedule.finished(&key),
            Step::Checked(key, target, checked) => (key, target, checked),
        };
        let entry = self.entries.get_mut(&key);
        let Some(Entry { object, target: Some(target) }) =
            entry.filter(|entry| entry.target.as_ref().is_some_and(|target| target.is_same(&checked_target)))
        else {
            return self.schedule.finished(&key);
        };
        let availability = checked.availability.clone();
        let service = match target {
            Target::WithoutAddress(remote, _) | Target::WithAddress(remote) => {
                let next = remote.checked(checked);
                if **remote != next {
                    *remote = Arc::new(next);
                }
                remote.service.clone()
            }
            Target::Local => ServicePort::default(),
        };
        let spec = object.at(&["spec"]).cloned().unwrap_or_default();
        let (server, kind) = (self.server.clone(), self.kinds.api_services);
        self.steps.push(
            async move {
                write::condition(&server, kind, &key, &spec, &availability.condition(&service)).await;
                Step::Written(key)
            }
            .boxed(),
        );
    }
}

impl Entry {
    fn is_remote(&self) -> bool {
        RemoteService::of(&self.object).is_some()
    }
}

/// Waits until a time; without one, for ever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for a change that a watcher reports.
async fn any(cluster: &mut Option<Cluster>) -> Result<(), String> {
    let Some([services, slices]) = cluster else { return std::future::pending().await };
    tokio::select! {
        changed = services.next() => changed.map(drop),
        changed = slices.next() => changed.map(drop),
    }
    .map_err(|error| error.to_string())
}

fn drain(cluster: &mut Option<Cluster>) -> Result<(), String> {
    for watcher in cluster.iter_mut().flatten() {
        while let Some(changed) = watcher.next().now_or_never() {
            changed.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
