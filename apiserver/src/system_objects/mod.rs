//! Objects that the server itself creates and restores: the bootstrap objects of flow control, the published addresses of Services,
//! the local APIServices, and the date since which the server records the use of tokens in Secrets.

pub(crate) mod addresses;
pub(crate) mod api_services;
mod flow_control;
mod legacy_tokens;
mod repair;

use std::sync::Arc;

use orlop_store::{Expect, Key, Op, Record, Snapshot, Write};

use self::repair::Checked;
use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::Kind;
use crate::state::Inner;
use crate::verbs::write::first_generation;
use orlop_api::object::{Object, show_time};

/// What the last rounds have checked.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    addresses: Checked,
    flow_control: flow_control::Progress,
}

/// Creates and restores all of these objects. `at_start` also restores those that the server maintains only then. Errors are only
/// logged.
pub(crate) async fn keep(server: &Arc<Inner>, progress: &mut Progress, at_start: bool) {
    // On a full disk the remaining space is reserved for deletes; the next round tries again.
    if server.store.usage().full {
        return;
    }
    if let Err(error) = flow_control::keep(server, &mut progress.flow_control).await {
        tracing::warn!(error, "cannot restore the objects of flow control");
    }
    if let Err(error) = addresses::keep(server, &mut progress.addresses).await {
        tracing::warn!(error, "cannot publish the addresses of Services");
    }
    if let Err(error) = api_services::keep(server, at_start).await {
        tracing::warn!(error, "cannot restore the APIServices");
    }
    if let Err(error) = legacy_tokens::keep(server).await {
        tracing::warn!(error, "cannot restore the ConfigMap of the use of tokens in Secrets");
    }
}

/// Updates the conditions of flow schemas after a change. Errors are only logged.
pub(crate) async fn keep_flow_conditions(server: &Arc<Inner>, progress: &mut Progress) {
    if server.store.usage().full {
        return;
    }
    if let Err(error) = flow_control::keep_conditions(server, &mut progress.flow_control).await {
        tracing::warn!(error, "cannot write the conditions of flow schemas");
    }
}

/// The write that creates a cluster-wide object of the server.
fn creation(server: &Inner, kind: &dyn Kind, mut object: Object) -> Write<Projection> {
    object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
    object.set(&["metadata", "creationTimestamp"], show_time(server.now()));
    kind.defaults(&mut object);
    first_generation(kind, &mut object);
    kind.prepare_create(&mut object, server.now());
    let (value, view) = stored::encode(kind, &object);
    let key = Key::from(dispatch::key(kind, "", object.name()));
    Write { key, expect: Expect::Absent, op: Op::Put { value, view } }
}

/// The write that replaces a stored object.
fn replacement(kind: &dyn Kind, record: &Record<Projection>, mut object: Object) -> Write<Projection> {
    object.meta().remove("resourceVersion");
    let (value, view) = stored::encode(kind, &object);
    let expect = Expect::Revision(record.mod_revision);
    Write { key: record.key.clone(), expect, op: Op::Put { value, view } }
}

/// The write that deletes a stored object.
fn removal(record: &Record<Projection>) -> Write<Projection> {
    Write { key: record.key.clone(), expect: Expect::Revision(record.mod_revision), op: Op::Delete }
}

/// The stored objects of a kind that can be read, one at a time. Others stay unchanged: to find out whether an object exists, look up
/// its key.
fn readable<'a>(
    head: &'a Snapshot<Projection>,
    kind: &'a dyn Kind,
) -> impl Iterator<Item = (&'a Arc<Record<Projection>>, Object)> {
    let records = head.range(kind.storage_prefix(), None);
    records.filter_map(|record| Some((record, stored::decode(record).ok()?)))
}
