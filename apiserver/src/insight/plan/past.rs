//! Past versions of an object that the store still knows, for the verbs that restore objects.

use orlop_store::{Event, Key, ReadError, Revision, Snapshot};
use std::sync::Arc;

use super::cluster_view::mentions;
use super::model::PlanRefusal;
use super::stoppable::{self, Stop};
use crate::dispatch;
use crate::encode::stored;
use crate::insight::past::read_error;
use crate::insight::remains;
use crate::projection::Projection;
use crate::registry::{Kind, by_storage_prefix};
use crate::state::Inner;
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// The maximum number of writes to examine.
const MOST: usize = 1000;
/// The number of writes to read at a time.
const STEP: usize = 8;

/// A past state of an object.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// The revision that wrote this state.
    pub(crate) revision: u64,
    /// The revision that deleted the object in this state, if any.
    pub(crate) deleted: Option<u64>,
    pub(crate) object: Object,
}

/// The newest version of a key up to a snapshot that is `wanted`. Without one, the newest version, if any is retained.
pub(super) async fn newest_version(
    server: &Inner,
    kind: &dyn Kind,
    snapshot: &Snapshot<Projection>,
    key: &str,
    wanted: impl Fn(&Version) -> bool,
) -> Result<Option<Version>, ApiError> {
    let key = Key::new(key);
    let (mut newest, mut next) = (None, snapshot.revision().next());
    for _ in 0..MOST / STEP {
        let events = server.store.history_before(&key, next, STEP).await.map_err(read_error)?;
        let Some(last) = events.last() else { break };
        next = last.revision;
        for version in from_events(kind, snapshot.revision(), &events) {
            if wanted(&version) {
                return Ok(Some(version));
            }
            newest.get_or_insert(version);
        }
    }
    Ok(newest)
}

/// The last version of a deleted key, and its version at a revision, if one is requested.
pub(super) async fn last_version(
    server: &Inner,
    kind: &dyn Kind,
    snapshot: &Snapshot<Projection>,
    key: &str,
    at: Option<u64>,
) -> Result<Vec<Version>, ApiError> {
    let key = Key::new(key);
    let head = snapshot.revision();
    let asked = at.map(|at| Revision(at.saturating_add(1)).min(head.next()));
    let mut events = Vec::new();
    for before in [Some(head.next()), asked].into_iter().flatten() {
        events.extend(server.store.history_before(&key, before, 1).await.map_err(read_error)?);
    }
    Ok(from_events(kind, head, &events))
}

fn from_events(kind: &dyn Kind, head: Revision, events: &[Arc<Event<Projection>>]) -> Vec<Version> {
    let mut found: Vec<Version> = Vec::new();
    let mut add = |record: &orlop_store::Record<Projection>, deleted: Option<u64>| {
        let is_known = found.iter().any(|version| version.revision == record.mod_revision.0);
        if is_known {
            return;
        }
        // A version that cannot be read cannot be restored.
        let Ok(object) = stored::decode_as(kind, record) else { return };
        found.push(Version { revision: record.mod_revision.0, deleted, object });
    };
    for event in events.iter().filter(|event| event.revision <= head) {
        match (&event.record, &event.prev) {
            (Some(record), prev) => {
                add(record, None);
                // The log may end here, but the previous version is known.
                if let Some(prev) = prev {
                    add(prev, None);
                }
            }
            (None, Some(prev)) => add(prev, Some(event.revision.0)),
            (None, None) => {}
        }
    }
    found
}

/// The version of an object at a revision, or the last one.
///
/// # Errors
/// A refusal if there was none, none is known, or it is no longer retained.
pub(super) fn version_at(
    versions: &[Version],
    at: Option<u64>,
    oldest: u64,
) -> Result<&Version, PlanRefusal> {
    let found = match at {
        None => versions.first(),
        Some(at) => {
            let newest = versions.iter().find(|version| version.revision <= at);
            newest.filter(|version| version.deleted.is_none_or(|end| end > at))
        }
    };
    match (found, at) {
        (Some(found), _) => Ok(found),
        // If nothing was compacted, the object never existed; otherwise this cannot be determined.
        (None, None) => Err(PlanRefusal::Unknown(format!(
            "there is no such object, and nothing is known of an earlier one; the oldest retained revision is {oldest}"
        ))),
        (None, Some(at)) if at >= oldest && versions.is_empty() => Err(PlanRefusal::Unknown(format!(
            "there was no such object at revision {at}, and nothing is known of one at another time; the oldest \
             revision that is kept is {oldest}"
        ))),
        (None, Some(at)) if at >= oldest => Err(PlanRefusal::State(format!(
            "there was no such object at revision {at}; its history shows when it existed"
        ))),
        (None, Some(_)) => Err(PlanRefusal::Expired(format!(
            "the store no longer contains it; the oldest revision is {oldest}"
        ))),
    }
}

/// An object that was deleted after its owner.
pub(super) struct Dependent {
    pub(super) kind: &'static dyn Kind,
    /// Empty for an object of the cluster.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Dependent {
    /// `RESOURCE NAMESPACE/NAME`.
    pub(super) fn text(&self) -> String {
        let Dependent { kind, namespace, name } = self;
        let place = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
        format!("{} {place}", kind.names().plural)
    }
}

/// The dependents that were deleted after their owner: those of `owner`, which was deleted at `deleted`. Empty if that state is no longer known.
pub(super) async fn dependents(
    server: &Inner,
    snapshot: &Snapshot<Projection>,
    owner: &str,
    deleted: u64,
) -> Result<Vec<Dependent>, ApiError> {
    if owner.is_empty() {
        return Ok(Vec::new());
    }
    let before = Revision(deleted.saturating_sub(1));
    let then = match server.store.at(before, "/registry/").await {
        Ok(then) => then,
        Err(ReadError::Expired { .. } | ReadError::Future { .. }) => return Ok(Vec::new()),
        Err(error @ (ReadError::OutOfMemory(_) | ReadError::Damaged(_))) => return Err(read_error(error)),
    };
    let (owner, snapshot) = (owner.to_owned(), snapshot.clone());
    // Scans all objects of that revision.
    stoppable::run(move |stop| owned(&then, &snapshot, &owner, &stop)).await
}

/// The objects that had this owner in `then` and no longer exist.
fn owned(
    then: &Snapshot<Projection>,
    snapshot: &Snapshot<Projection>,
    owner: &str,
    stop: &Stop,
) -> Vec<Dependent> {
    let mut found = Vec::new();
    let records = then.range("/registry/", None).take_while(|_| !stop.is_requested());
    for record in records.filter(|record| mentions(record, owner)) {
        let object = remains::of(record);
        let owners = object.at(&["metadata", "ownerReferences"]).and_then(serde_json::Value::as_array);
        let is_owned = owners.into_iter().flatten().any(|one| one.get("uid").is_some_and(|uid| uid == owner));
        let same = |there: &Arc<orlop_store::Record<Projection>>| remains::of(there).uid() == object.uid();
        if !is_owned || snapshot.get(record.key.as_str()).is_some_and(same) {
            continue;
        }
        if let Some(kind) = by_storage_prefix(record.key.topic()) {
            let (namespace, name) = dispatch::key_names(kind, record.key.as_str());
            found.push(Dependent { kind, namespace: namespace.to_owned(), name: name.to_owned() });
        }
    }
    found
}
