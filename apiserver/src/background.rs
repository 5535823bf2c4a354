//! Background tasks: creating the system namespaces and priority classes, expiring Events, following the pods of nodes, and measuring memory.

use std::sync::Arc;
use std::time::Duration;

use orlop_store::{CommitError, Expect, Key, Kv, Op, Record, Write};

use crate::dispatch;
use crate::encode::stored;
use crate::extension_authentication;
use crate::kubernetes_service;
use crate::projection::Projection;
use crate::registry::priority_class::SYSTEM_CLASSES;
use crate::registry::{Kind, by_resource};
use crate::state::Inner;
use crate::system_objects;
use crate::verbs::write::first_generation;
use orlop_api::object::{Object, show_time};

const SYSTEM_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];
const KEEP_EVERY: Duration = Duration::from_secs(60);
/// Minimum time between two updates of the conditions of flow schemas.
const CONDITIONS_EVERY: Duration = Duration::from_millis(200);
const EXPIRE_EVERY: Duration = Duration::from_secs(30);
/// Maximum number of Events that one commit removes.
const EXPIRE_AT_ONCE: usize = 500;

/// Creates missing system namespaces.
pub(crate) async fn create_system_namespaces(server: &Inner) -> Result<(), String> {
    let Some(kind) = by_resource("", "v1", "namespaces") else { return Ok(()) };
    for name in SYSTEM_NAMESPACES {
        let mut namespace = Object::default();
        namespace.set(&["metadata", "name"], *name);
        create_missing(server, kind, "", namespace).await?;
    }
    Ok(())
}

/// Creates missing system priority classes.
pub(crate) async fn create_system_priority_classes(server: &Inner) -> Result<(), String> {
    let Some(kind) = by_resource("scheduling.k8s.io", "v1", "priorityclasses") else { return Ok(()) };
    for class in &SYSTEM_CLASSES {
        create_missing(server, kind, "", class.object()).await?;
    }
    Ok(())
}

/// Creates an object of the server, unless an object with that name exists.
async fn create_missing(
    server: &Inner,
    kind: &'static dyn Kind,
    namespace: &str,
    mut object: Object,
) -> Result<(), String> {
    let key = Key::from(dispatch::key(kind, namespace, object.name()));
    if server.store.head().get(key.as_str()).is_some() {
        return Ok(());
    }
    object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
    object.set(&["metadata", "creationTimestamp"], show_time(server.now()));
    if !namespace.is_empty() {
        object.set(&["metadata", "namespace"], namespace);
    }
    kind.defaults(&mut object);
    first_generation(kind, &mut object);
    kind.prepare_create(&mut object, server.now());
    let (value, view) = stored::encode(kind, &object);
    let write = Write { key, expect: Expect::Absent, op: Op::Put { value, view } };
    match server.store.commit(vec![write]).await {
        // On a conflict, another writer has created the object.
        Ok(_) | Err(CommitError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Maintains the Service that points to this server. Errors are only logged.
pub(crate) async fn keep_kubernetes_service(server: &Inner) {
    if let Err(error) = kubernetes_service::keep(server).await {
        tracing::warn!(error, "cannot keep the service of this server");
    }
}

/// Maintains the ConfigMap from which other API servers read how to authenticate clients. Errors are only logged.
pub(crate) async fn keep_extension_authentication(server: &Inner) {
    if let Err(error) = extension_authentication::keep(server).await {
        tracing::warn!(error, "cannot update the ConfigMap kube-system/extension-apiserver-authentication");
    }
}

/// Restores the system namespaces, the Service of this server, the ConfigMap for other API servers, and the objects of
/// [`system_objects`].
pub(crate) async fn keep_system_objects(server: Arc<Inner>) {
    let mut progress = system_objects::Progress::default();
    let mut authorities = server.config.auth.client_authorities.as_ref().map(|current| current.changes());
    loop {
        let changed = async {
            let Some(changes) = &mut authorities else { return std::future::pending().await };
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = server.closing.cancelled() => return,
            () = changed => {}
            () = tokio::time::sleep(KEEP_EVERY) => {}
        }
        keep_extension_authentication(&server).await;
        if let Err(error) = create_system_namespaces(&server).await {
            tracing::warn!(error, "cannot create the system namespaces");
        }
        keep_kubernetes_service(&server).await;
        system_objects::keep(&server, &mut progress, false).await;
    }
}

/// Reports in each flow schema whether its priority level exists, after each change of these objects.
pub(crate) async fn keep_flow_conditions(server: Arc<Inner>) {
    let mut progress = system_objects::Progress::default();
    while server.closing.run_until_cancelled(server.limits.flow_objects_changed()).await.is_some() {
        system_objects::keep_flow_conditions(&server, &mut progress).await;
        // Further changes in this time need only one check.
        if server.closing.run_until_cancelled(tokio::time::sleep(CONDITIONS_EVERY)).await.is_none() {
            return;
        }
    }
}

/// Removes Events after the configured time without a write.
pub(crate) async fn expire_events(server: Arc<Inner>) {
    loop {
        tokio::select! {
            () = server.closing.cancelled() => return,
            () = tokio::time::sleep(EXPIRE_EVERY) => expire_once(&server).await,
        }
    }
}

async fn expire_once(server: &Inner) {
    let Some(kind) = by_resource("", "v1", "events") else { return };
    let ttl = i64::try_from(server.config.event_ttl.as_millis()).unwrap_or(i64::MAX);
    let before = server.store.now_ms().saturating_sub(ttl);
    let head = server.store.head();
    let expired: Vec<_> =
        head.range(kind.storage_prefix(), None).filter(|record| record.time_ms < before).collect();
    for group in expired.chunks(EXPIRE_AT_ONCE) {
        if let Err(error) = expire(&*server.store, group.to_vec()).await {
            tracing::warn!(%error, "cannot remove expired Events");
            return;
        }
    }
}

/// Removes Events, except those that are written in the meantime.
async fn expire(
    store: &dyn Kv<Projection>,
    mut records: Vec<&Arc<Record<Projection>>>,
) -> Result<(), CommitError<Projection>> {
    while !records.is_empty() {
        let writes = records.iter().map(|record| Write {
            key: record.key.clone(),
            expect: Expect::Revision(record.mod_revision),
            op: Op::Delete,
        });
        match store.commit(writes.collect()).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { key, .. }) => {
                let count = records.len();
                records.retain(|record| record.key != key);
                if records.len() == count {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the keys of service account tokens again when their file changes, until shutdown.
pub(crate) async fn keep_signing_keys_current(server: Arc<Inner>) {
    let _ = server.closing.run_until_cancelled(server.accounts.keep_keys_current()).await;
}

/// Keeps the relations between nodes and objects up to date until shutdown.
pub(crate) async fn keep_authorizer_current(server: Arc<Inner>) {
    let _ = server.closing.run_until_cancelled(server.authorizer.keep_current()).await;
}

/// Counts the memory of old states until shutdown.
pub(crate) async fn measure_old_states(server: Arc<Inner>) {
    let measuring = server.limits.old_states.keep_measuring(&*server.store);
    let _ = server.closing.run_until_cancelled(measuring).await;
}

#[cfg(test)]
mod tests {
    use orlop_store::memory::Memory;

    use super::*;

    #[tokio::test]
    async fn concurrently_written_event_does_not_stop_the_expiry_of_others() {
        let store = Memory::<Projection>::new();
        let put = async |name: &str, expect: Expect| {
            let op = Op::Put { value: "{}".into(), view: Projection::default() };
            let write = Write { key: Key::from(format!("/registry/events/{name}")), expect, op };
            store.commit(vec![write]).await.expect("it is written").revision()
        };
        put("a", Expect::Absent).await;
        let revision = put("b", Expect::Absent).await;
        put("c", Expect::Absent).await;
        let head = store.head();
        put("b", Expect::Revision(revision)).await;
        let records = head.range("/registry/events/", None).collect();
        assert!(expire(&store, records).await.is_ok());
        let left = store.head();
        let left: Vec<&str> =
            left.range("/registry/events/", None).map(|record| record.key.as_str()).collect();
        assert_eq!(left, ["/registry/events/b"]);
    }
}
