//! Writes that count toward resource quotas: the commit that stores an object also charges its usage.
//!
//! The records of the quota and of the object are written in one commit with a condition on each. Concurrent
//! writes therefore cannot exceed a quota together, and a crash leaves both records or neither. Writes that
//! charge quotas of the same namespace are serialized, since each has to see the charges of the previous one. All
//! other writes pay for one lookup in an ordered map, which finds no quota.

use std::sync::Arc;

use orlop_apimachinery::quota::Resource;
use orlop_store::{CommitError, Committed, Expect, Guard, Key, Op, Record, Revision, Snapshot, Write};

use crate::admission::quota::{Charge, Counted, QUOTA_PLUGIN, charges, may_count, with_used};
use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{self, Kind, Names};
use crate::verbs::attempts;
use crate::verbs::request::Request;
use crate::verbs::write::error::{StoreError, commit_error_of};
use orlop_api::object::{Object, show_time};
use orlop_api::status::ApiError;
use orlop_codec::managed_fields::{self, Writer};

/// The field manager of the usage (upstream).
const MANAGER: &str = "kube-apiserver";

/// Commits an object, given in its stored form, and charges its usage. `old` is the record that it replaces;
/// `writes` creates the write of the object for each attempt, preceded by those of its allocations.
pub(crate) async fn commit(
    request: &Request,
    old: Option<&Arc<Record<Projection>>>,
    object: &Object,
    mut writes: impl FnMut() -> Vec<Write<Projection>> + Send,
) -> Result<Arc<Record<Projection>>, StoreError> {
    let Some(kind) = counting(request, old.is_some(), object) else {
        return commit_all(request, writes()).await;
    };
    let head = request.head();
    let namespace = &request.resource.namespace;
    let names = request.names();
    // Only quotas need the previous object.
    let old = old.filter(|_| has_quotas(&head, kind, namespace)).map(|record| stored::decode(record));
    let old = old.transpose()?;
    let counted = Counted {
        resource: Resource::new(names.group, names.plural),
        subresource: &request.resource.subresource,
        object,
        old: old.as_ref(),
        now: request.now(),
    };
    let look = |head: &Snapshot<Projection>| QuotaView::of(quotas(head, kind, namespace), &counted, names);
    // Most writes use no limited resource and need no lock.
    if look(&head)?.charges.is_empty() {
        let record = commit_all(request, writes()).await?;
        touch_late(request, kind, head.revision(), &counted).await;
        return Ok(record);
    }
    let _turn = request.server.quota_locks.of(namespace).lock().await;
    let mut moved = String::new();
    // Besides these writes, only users and the controller change a quota. Each attempt reads all quotas.
    let bytes = quotas(&head, kind, namespace).iter().map(|record| record.value.len()).sum();
    for _ in 0..2 * attempts::for_size(bytes) {
        let mut all = look(&request.head())?.writes(request, kind);
        let quotas: Vec<Key> = all.iter().map(|write| write.key.clone()).collect();
        // The object comes last, so that any reader that sees it also sees its charge.
        all.extend(writes());
        let own = own_key(&all);
        match request.server.store.commit(all).await {
            Err(CommitError::Conflict { key, .. }) if quotas.contains(&key) => {
                moved = dispatch::key_names(kind, key.as_str()).1.to_owned();
            }
            Err(error) => return Err(commit_error_of(&own, error)),
            Ok(committed) => return Ok(last(committed)),
        }
    }
    Err(ApiError::conflict(kind.names(), &moved).into())
}

/// The quotas of a namespace in a snapshot, and the charges of a write.
struct QuotaView {
    records: Vec<Arc<Record<Projection>>>,
    objects: Vec<Object>,
    charges: Vec<Charge>,
}

impl QuotaView {
    /// Computes the charges of a write of an object of this kind.
    ///
    /// # Errors
    /// 403 if the write exceeds a quota; 500 if a quota cannot be read.
    fn of(
        records: Vec<Arc<Record<Projection>>>,
        write: &Counted<'_>,
        names: &Names,
    ) -> Result<Self, ApiError> {
        let objects: Vec<Object> =
            records.iter().map(|record| stored::decode(record)).collect::<Result<_, _>>()?;
        let charges =
            charges(&objects, write).map_err(|why| ApiError::forbidden(names, write.object.name(), &why))?;
        Ok(QuotaView { records, objects, charges })
    }

    fn writes(&self, request: &Request, kind: &'static dyn Kind) -> Vec<Write<Projection>> {
        let write = |charge: &Charge| {
            charged(request, kind, &self.records[charge.at], &self.objects[charge.at], charge)
        };
        self.charges.iter().map(write).collect()
    }
}

/// The kind ResourceQuota, if this write may count toward a quota.
fn counting(request: &Request, updates: bool, object: &Object) -> Option<&'static dyn Kind> {
    if request.resource.namespace.is_empty() {
        return None;
    }
    let names = request.names();
    let resource = Resource::new(names.group, names.plural);
    let may = may_count(resource, &request.resource.subresource, updates);
    // A terminating object uses nothing more, and a quota must not prevent its removal.
    if !may || object.is_terminating() {
        return None;
    }
    let kind = registry::by_resource("", "v1", "resourcequotas")?;
    request.server.admission.has(QUOTA_PLUGIN).then_some(kind)
}

fn has_quotas(head: &Snapshot<Projection>, kind: &dyn Kind, namespace: &str) -> bool {
    head.range(&dispatch::prefix(kind, namespace), None).next().is_some()
}

/// Touches quotas that were created or changed between the lookup and the commit, because their usage may not
/// include this object. The touch makes the controller count again. If the server stops before the touch, the
/// controller counts when it starts.
async fn touch_late(request: &Request, kind: &'static dyn Kind, seen: Revision, write: &Counted<'_>) {
    for _ in 0..attempts::for_size(0) {
        let late = quotas(&request.head(), kind, &request.resource.namespace).into_iter();
        let touches: Vec<Write<Projection>> = late
            .filter(|record| record.mod_revision > seen)
            .filter(|record| {
                let look = QuotaView::of(vec![record.clone()], write, request.names());
                !look.is_ok_and(|look| look.charges.is_empty())
            })
            // The controller counts an unreadable quota when it can be read again.
            .filter_map(|record| {
                let (value, view) = stored::encode(kind, &bare(stored::decode(&record).ok()?));
                let expect = Expect::Revision(record.mod_revision);
                Some(Write { key: record.key.clone(), expect, op: Op::Put { value, view } })
            })
            .collect();
        if touches.is_empty() {
            return;
        }
        match request.server.store.commit(touches).await {
            Err(CommitError::Conflict { .. }) => {}
            Ok(_) => return,
            Err(error) => return tracing::warn!("a new quota could not be touched: {error}"),
        }
    }
}

/// The writes that charge the quotas of a namespace for a new object, for a commit of several objects based on
/// `head`, and the guard against quotas that are created in the meantime.
pub(crate) fn charged_writes(
    request: &Request,
    head: &Snapshot<Projection>,
    object: &Object,
) -> Result<(Vec<Write<Projection>>, Option<Guard>), ApiError> {
    let Some(kind) = counting(request, false, object) else { return Ok((Vec::new(), None)) };
    let namespace = &request.resource.namespace;
    let names = request.names();
    let counted = Counted {
        resource: Resource::new(names.group, names.plural),
        subresource: "",
        object,
        old: None,
        now: request.now(),
    };
    let look = QuotaView::of(quotas(head, kind, namespace), &counted, names)?;
    let guard = Guard::range(head, &dispatch::prefix(kind, namespace));
    Ok((look.writes(request, kind), Some(guard)))
}

/// The stored form of an object.
fn bare(mut object: Object) -> Object {
    object.meta().remove("resourceVersion");
    object
}

fn quotas(head: &Snapshot<Projection>, kind: &dyn Kind, namespace: &str) -> Vec<Arc<Record<Projection>>> {
    head.range(&dispatch::prefix(kind, namespace), None).cloned().collect()
}

/// The write of a quota with its new usage.
fn charged(
    request: &Request,
    kind: &'static dyn Kind,
    record: &Record<Projection>,
    quota: &Object,
    charge: &Charge,
) -> Write<Projection> {
    let mut next = with_used(quota, &charge.used);
    let now = show_time(request.now());
    let writer =
        Writer { kind, subresource: "status", manager: MANAGER, now: now.as_str().unwrap_or_default() };
    managed_fields::track(&writer, Some(quota), &mut next);
    let (value, view) = stored::encode(kind, &bare(next));
    let expect = Expect::Revision(record.mod_revision);
    Write { key: record.key.clone(), expect, op: Op::Put { value, view } }
}

/// Commits all writes and returns the record of the last one.
async fn commit_all(
    request: &Request,
    writes: Vec<Write<Projection>>,
) -> Result<Arc<Record<Projection>>, StoreError> {
    let own = own_key(&writes);
    let committed = request.server.store.commit(writes).await;
    committed.map(last).map_err(|error| commit_error_of(&own, error))
}

/// The key of the object, which is written last.
fn own_key(writes: &[Write<Projection>]) -> String {
    writes.last().map(|write| write.key.as_str().to_owned()).unwrap_or_default()
}

fn last(committed: Committed<Projection>) -> Arc<Record<Projection>> {
    let record = committed.events.into_iter().next_back().and_then(|event| event.record.clone());
    record.expect("the last write is a put, and the event of a put has its record")
}
