//! Conditional writes: an object replaces the record that it is based on, or nothing is written. The object's
//! allocations and quota charges are part of the same commit.

use std::sync::Arc;

use orlop_store::{Committed, Expect, Key, Op, Record, Revision, Write};

use super::error::{StoreError, commit_error_of};
use super::may_go;
use crate::allocation;
use crate::encode::answer::Written;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::Kind;
use crate::system_objects::addresses;
use crate::verbs::quota_commit;
use crate::verbs::request::Request;
use orlop_api::object::Object;

/// Stores a new object, given in the form of its kind.
pub(crate) async fn store_new(request: &Request, object: Object) -> Result<Written, StoreError> {
    let kind = request.kind();
    let key = request.resource.key(object.name());
    let mut object = kind.to_stored(object);
    object.meta().remove("resourceVersion");
    let writes = || {
        let head = request.head();
        let mut writes = allocation::writes(kind, &key, None, Some(&object), &head);
        writes.extend(addresses::writes(&request.server, kind, None, Some(&object), &head));
        let (value, view) = stored::encode_new(kind, &object);
        let op = Op::Put { value, view };
        writes.push(Write { key: Key::from(key.as_str()), expect: Expect::Absent, op });
        writes
    };
    let stored = quota_commit::commit(request, None, &object, writes).await?;
    request.audit_revision(stored.mod_revision);
    Ok(Written::Record(stored))
}

/// Stores a changed object in place of `record`. Nothing is written if the object is unchanged, and a terminating
/// object is removed if this change removes its last finalizer or grace period.
pub(crate) async fn store_changed(
    request: &Request,
    record: &Arc<Record<Projection>>,
    object: Object,
) -> Result<Written, StoreError> {
    let kind = request.kind();
    if may_go(kind, &object) {
        remove(request, record).await?;
        let mut object = object;
        object.set(&["metadata", "resourceVersion"], record.mod_revision.to_string());
        return Ok(Written::Object(object));
    }
    put(request, record, object).await.map(Written::Record)
}

/// Replaces `record` with an object, given in the form of its kind, if it differs, or if it would be stored in another form, for
/// example encrypted with another key.
pub(crate) async fn put(
    request: &Request,
    record: &Arc<Record<Projection>>,
    object: Object,
) -> Result<Arc<Record<Projection>>, StoreError> {
    put_as(request, request.kind(), record, object).await
}

/// The same for an object of a kind other than the request's.
pub(crate) async fn put_as(
    request: &Request,
    kind: &dyn Kind,
    record: &Arc<Record<Projection>>,
    object: Object,
) -> Result<Arc<Record<Projection>>, StoreError> {
    let mut object = kind.to_stored(object);
    object.meta().remove("resourceVersion");
    let (value, view) = stored::encode(kind, &object);
    if value == record.value && !request.server.store.is_stale(record) {
        return Ok(record.clone());
    }
    let mut first = Some((value, view));
    let before = kind.reserves().then(|| stored::decode(record)).transpose()?;
    let writes = || {
        let (value, view) = first.take().unwrap_or_else(|| stored::encode(kind, &object));
        let mut writes = match &before {
            Some(old) => {
                let head = request.head();
                let mut writes =
                    allocation::writes(kind, record.key.as_str(), Some(old), Some(&object), &head);
                writes.extend(addresses::writes(&request.server, kind, Some(old), Some(&object), &head));
                writes
            }
            None => Vec::new(),
        };
        let expect = Expect::Revision(record.mod_revision);
        writes.push(Write { key: record.key.clone(), expect, op: Op::Put { value, view } });
        writes
    };
    let stored = quota_commit::commit(request, Some(record), &object, writes).await?;
    request.audit_revision(stored.mod_revision);
    Ok(stored)
}

/// Removes a record and returns the revision of the removal.
pub(crate) async fn remove(
    request: &Request,
    record: &Arc<Record<Projection>>,
) -> Result<Revision, StoreError> {
    let expect = Expect::Revision(record.mod_revision);
    let kind = request.kind();
    let mut writes = if kind.reserves() {
        let (old, head) = (stored::decode(record)?, request.head());
        let mut writes = allocation::writes(kind, record.key.as_str(), Some(&old), None, &head);
        writes.extend(addresses::writes(&request.server, kind, Some(&old), None, &head));
        writes
    } else {
        Vec::new()
    };
    writes.push(Write { key: record.key.clone(), expect, op: Op::Delete });
    let committed = commit(request, record.key.as_str(), writes).await?;
    request.audit_revision(committed.revision());
    Ok(committed.revision())
}

/// Commits the writes together; the write of the object itself comes last.
async fn commit(
    request: &Request,
    own: &str,
    writes: Vec<Write<Projection>>,
) -> Result<Committed<Projection>, StoreError> {
    request.server.store.commit(writes).await.map_err(|error| commit_error_of(own, error))
}
