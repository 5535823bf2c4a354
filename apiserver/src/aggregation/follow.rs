//! Follows the APIServices and the objects that lead to their servers, checks the servers, and writes the condition `Available`.
//!
//! Upstream: kube-aggregator `pkg/controllers/status`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use orlop_api::object::{Object, show_time};
use orlop_store::{Expect, Key, Op, Record, Snapshot, Watcher, Write};

use super::check::{self, Checked};
use super::condition::{Availability, ServicePort, with_condition};
use super::{RemoteService, Remotes, condition};
use crate::dispatch;
use crate::encode::stored;
use crate::encode::undecoded::UndecodedRecord;
use crate::projection::Projection;
use crate::registry::api_service::GROUP;
use crate::registry::{Kind, by_resource};
use crate::services::backend::{NoBackend, backend};
use crate::state::Inner;

/// The time between two checks of a server (upstream: the resync of the controller).
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// The time for which changes of Services and EndpointSlices are collected.
const COLLECT: Duration = Duration::from_millis(500);
/// The delay before a watch that has ended is opened again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of servers that are checked at the same time.
const AT_ONCE: usize = 16;

/// The kinds that are followed.
#[derive(Clone, Copy)]
struct FollowedKinds {
    api_services: &'static dyn Kind,
    services: &'static dyn Kind,
    slices: &'static dyn Kind,
}

/// An APIService that needs attention.
struct Entry {
    record: Arc<Record<Projection>>,
    object: Object,
    /// `None` for a version of this server.
    remote: bool,
}

/// The APIServices of other servers, and those of this server whose condition is wrong.
type Entries = BTreeMap<Key, Entry>;

/// Publishes the servers until this one closes.
pub(crate) async fn follow(server: Arc<Inner>) {
    let (Some(api_services), Some(services), Some(slices)) = (
        by_resource(GROUP, "v1", "apiservices"),
        by_resource("", "v1", "services"),
        by_resource("discovery.k8s.io", "v1", "endpointslices"),
    ) else {
        return;
    };
    let kinds = FollowedKinds { api_services, services, slices };
    loop {
        if let Err(error) = watch(&server, kinds).await {
            tracing::debug!(error, "the watch of APIServices is restarted");
        }
        tokio::select! {
            () = server.closing.cancelled() => return,
            () = tokio::time::sleep(AGAIN_AFTER) => {}
        }
    }
}

/// Follows the objects until a watch ends, or the server closes.
async fn watch(server: &Arc<Inner>, kinds: FollowedKinds) -> Result<(), String> {
    let head = server.store.head();
    let open = |kind: &dyn Kind, head: &Snapshot<Projection>| {
        let watcher = server.store.watch(kind.storage_prefix(), head.revision());
        watcher.map_err(|error| error.to_string())
    };
    let mut changes = open(kinds.api_services, &head)?;
    let mut entries = Entries::new();
    for record in head.range(kinds.api_services.storage_prefix(), None) {
        note(&mut entries, &record.key, Some(record));
    }
    // What leads to the servers, while there are any.
    let mut cluster: Option<[Watcher<Projection>; 2]> = None;
    loop {
        let has_remotes = entries.values().any(|entry| entry.remote);
        if has_remotes && cluster.is_none() {
            let head = server.store.head();
            cluster = Some([open(kinds.services, &head)?, open(kinds.slices, &head)?]);
        } else if !has_remotes {
            cluster = None;
        }
        settle(server, kinds, &entries).await;
        tokio::select! {
            () = server.closing.cancelled() => return Ok(()),
            changed = changes.next() => {
                let mut changed = Some(changed);
                while let Some(events) = changed {
                    for event in events.map_err(|error| error.to_string())? {
                        note(&mut entries, &event.key, event.record.as_ref());
                    }
                    changed = changes.next().now_or_never();
                }
            }
            changed = any(&mut cluster) => {
                changed?;
                tokio::select! {
                    () = server.closing.cancelled() => return Ok(()),
                    () = tokio::time::sleep(COLLECT) => {}
                }
                drain(&mut cluster)?;
            }
            () = tokio::time::sleep(CHECK_EVERY), if !entries.is_empty() => {}
        }
    }
}

/// Waits for a change that a watcher reports.
async fn any(cluster: &mut Option<[Watcher<Projection>; 2]>) -> Result<(), String> {
    let Some([services, slices]) = cluster else { return std::future::pending().await };
    tokio::select! {
        changed = services.next() => changed.map(drop),
        changed = slices.next() => changed.map(drop),
    }
    .map_err(|error| error.to_string())
}

fn drain(cluster: &mut Option<[Watcher<Projection>; 2]>) -> Result<(), String> {
    for watcher in cluster.iter_mut().flatten() {
        while let Some(changed) = watcher.next().now_or_never() {
            changed.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Records the new state of an APIService.
fn note(entries: &mut Entries, key: &Key, record: Option<&Arc<Record<Projection>>>) {
    let entry = record.and_then(|record| {
        let object = stored::decode(record).ok()?;
        let is_remote = RemoteService::of(&object).is_some();
        let needs_attention = is_remote || condition::is_wrong_for_local(&object);
        needs_attention.then(|| Entry { record: record.clone(), object, remote: is_remote })
    });
    match entry {
        Some(entry) => drop(entries.insert(key.clone(), entry)),
        None => drop(entries.remove(key)),
    }
}

/// Publishes the servers, checks them, and writes the conditions.
async fn settle(server: &Arc<Inner>, kinds: FollowedKinds, entries: &Entries) {
    let former = server.aggregation.now();
    let head = server.store.head();
    let objects: Vec<Object> =
        entries.values().filter(|entry| entry.remote).map(|entry| entry.object.clone()).collect();
    let resolved = tokio::task::spawn_blocking(move || {
        objects.iter().filter_map(|object| resolve(&head, kinds, object, &former)).collect::<Vec<_>>()
    });
    let Ok(found) = resolved.await else { return };
    publish(server, found.iter().map(|(remote, _)| remote.clone()));
    if let Some(identity) = server.aggregation.identity.clone() {
        match tokio::task::spawn_blocking(move || identity.refresh()).await {
            Ok(Err(error)) => tracing::error!("the previous certificate stays in use: {error}"),
            Ok(Ok(())) | Err(_) => {}
        }
    }
    let checks = found.into_iter().map(|(remote, missing)| async {
        match missing {
            Some(missing) => (remote, Checked::unavailable(missing)),
            None => {
                let checked = check::check(&remote, &server.aggregation).await;
                (remote, checked)
            }
        }
    });
    let checks = stream::iter(checks).buffer_unordered(AT_ONCE).collect::<Vec<_>>();
    let Some(checked) = server.closing.run_until_cancelled(checks).await else { return };
    let with_resources = checked.iter().map(|(remote, checked)| match &checked.resources {
        Some(resources) if *resources != *remote.resources => {
            Arc::new(remote.with_resources(resources.clone()))
        }
        Some(_) | None => remote.clone(),
    });
    publish(server, with_resources);
    let of = |entry: &Entry| {
        let name = entry.object.name();
        checked.iter().find(|(remote, _)| name == format!("{}.{}", remote.version, remote.group))
    };
    let now = show_time(server.now());
    for entry in entries.values() {
        let condition = match (entry.remote, of(entry)) {
            (false, _) => Availability::Local.condition(&ServicePort::default()),
            (true, Some((remote, checked))) => checked.availability.condition(&remote.service),
            (true, None) => continue,
        };
        if let Some(next) = with_condition(&entry.object, condition, &now) {
            write(server, kinds.api_services, &entry.record, next).await;
        }
    }
}

/// The server of an APIService with its address, or also the reason why it has none. An unchanged server is that of `former`, because
/// it has the settings of its connections.
fn resolve(
    head: &Snapshot<Projection>,
    kinds: FollowedKinds,
    object: &Object,
    former: &Remotes,
) -> Option<(Arc<RemoteService>, Option<Availability>)> {
    let mut remote = RemoteService::of(object)?;
    let key =
        format!("{}{}", dispatch::prefix(kinds.services, &remote.service.namespace), remote.service.name);
    let service = head.get(&key).and_then(|record| stored::decode(record).ok());
    let prefix = dispatch::prefix(kinds.slices, &remote.service.namespace);
    let decode = |record: &Record<Projection>| stored::decode(record).ok();
    let slices = head.range(&prefix, None).map(|record| UndecodedRecord::new(record, decode));
    let found = match service {
        Some(service) => backend(&service, remote.service.port, slices).map_err(|missing| match missing {
            NoBackend::Port => Availability::NoPort,
            NoBackend::Slices => Availability::NoEndpoints,
            NoBackend::Address { port_name } => Availability::NoAddress { port_name },
        }),
        None => Err(Availability::NoService),
    };
    let missing = found.as_ref().err().cloned();
    remote.address = found.map_err(|missing| missing.condition(&remote.service).2);
    let known = former.get(&remote.group, &remote.version);
    if let Some(known) = known {
        remote.resources = known.resources.clone();
    }
    let remote = known.filter(|known| ***known == remote).cloned().unwrap_or_else(|| Arc::new(remote));
    Some((remote, missing))
}

/// Replaces the servers, unless they are the same.
fn publish(server: &Inner, services: impl Iterator<Item = Arc<RemoteService>>) {
    let (remotes, current) = (Remotes::of(services), server.aggregation.now());
    if remotes != *current {
        server.aggregation.current.store(Arc::new(remotes));
    }
}

async fn write(server: &Inner, kind: &dyn Kind, record: &Record<Projection>, mut next: Object) {
    // On a full disk the remaining space is reserved for deletes; the next round tries again.
    if server.store.usage().full {
        return;
    }
    next.meta().remove("resourceVersion");
    let (value, view) = stored::encode(kind, &next);
    let expect = Expect::Revision(record.mod_revision);
    let write = Write { key: record.key.clone(), expect, op: Op::Put { value, view } };
    // After a conflict, the watch reports the other write.
    if let Err(error) = server.store.commit(vec![write]).await {
        tracing::debug!(%error, key = record.key.as_str(), "the condition of an APIService cannot be written now");
    }
}
