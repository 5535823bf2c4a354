//! `GET OBJECT/diff`: the changes of an object between two revisions.

use std::sync::Arc;

use orlop_api::query::Query;
use orlop_api::status::ApiError;
use orlop_store::{Record, Revision};
use serde_json::{Value, json};

use super::changes::changes;
use super::past::{moment_of, state_at, time_text};
use super::{API_VERSION, ObjectTarget, bad_parameter, redact, remains, was_not_there};
use crate::encode::shape;
use crate::projection::Projection;
use crate::state::Inner;

/// `GET OBJECT/diff?from=REV&to=REV`: revisions or times; without `to`, compares with the current state.
pub(super) async fn diff(server: &Inner, target: &ObjectTarget, query: &Query) -> Result<Value, ApiError> {
    let Some(from) = moment_of(server, query, "from").await? else {
        return Err(bad_parameter("from", "", "must be the revision or the time to compare from"));
    };
    let to = moment_of(server, query, "to").await?.unwrap_or_else(|| server.store.head().revision());
    let key = target.key();
    let (old, new) = (state_at(server, &key, from).await?, state_at(server, &key, to).await?);
    if old.is_none() && new.is_none() {
        return Err(was_not_there(target, &format!(" at revision {from}, nor at {to}")));
    }
    let uid = new.as_ref().or(old.as_ref()).map(|record| remains::of(record).uid().to_owned());
    let side = |revision: Revision, record: &Option<Arc<Record<Projection>>>| {
        let mut side = json!({"revision": revision.to_string(), "exists": record.is_some()});
        if let Some(record) = record {
            side["written"] = json!({
                "revision": record.mod_revision.to_string(), "time": time_text(record.time_ms),
            });
        }
        side
    };
    let shown = |record: &Option<Arc<Record<Projection>>>| {
        let object = record.as_ref().map(|record| remains::shown(&*target.kind, record));
        object.map_or_else(|| json!({}), |object| shape::with_kind(&*target.kind, object))
    };
    let mut list = changes(target.kind.clone(), &shown(&old), &shown(&new));
    if redact::is_secret(&*target.kind) {
        redact::changes(&mut list);
    }
    Ok(json!({
        "kind": "Diff", "apiVersion": API_VERSION,
        "object": target.reference_with(uid.as_deref().unwrap_or_default()),
        "from": side(from, &old), "to": side(to, &new), "changes": list,
    }))
}
