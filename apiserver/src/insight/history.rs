//! Lists all known writes of an object, newest first: when each happened, which manager made it, and what it
//! changed.

use std::collections::HashMap;
use std::sync::Arc;

use orlop_apimachinery::steps::{OutOfSteps, Steps};
use orlop_store::{Event, Key, Record, Revision};
use serde_json::{Map, Value, json};

use super::changes::{Change, changes};
use super::past::{read_error, time_text};
use super::{API_VERSION, ObjectTarget, bad_parameter, limit, redact, remains, was_not_there};
use crate::encode::shape;
use crate::projection::Projection;
use crate::registry::{Kind, KindRef};
use crate::state::Inner;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// The default and the maximum number of writes per response.
const USUAL: usize = 50;
const MOST: usize = 500;

/// The maximum size of the objects per response, in bytes: an object may have 2 MiB, and a write includes two.
const BYTES: usize = 16 << 20;
/// The number of writes per read; small, so that their size is known early.
const STEP: usize = 32;

/// `GET OBJECT/history?limit=&continue=`. With `objects=true` every item includes the whole object.
pub(super) async fn history(server: &Inner, target: &ObjectTarget, query: &Query) -> Result<Value, ApiError> {
    let limit = limit(query, USUAL, MOST)?;
    let before = match query.text("continue") {
        "" => Revision(u64::MAX),
        text => Revision(text.parse().map_err(|_| {
            bad_parameter("continue", text, "must be the metadata.continue of an earlier response")
        })?),
    };
    let key = Key::new(target.key());
    let (events, has_more) = writes(server, &key, before, limit).await?;
    if events.is_empty() && before == Revision(u64::MAX) {
        return Err(was_not_there(target, ": it is not there, and nothing is known of one that was"));
    }
    let mut metadata = json!({"resourceVersion": server.store.head().revision().to_string()});
    if let Some(last) = events.last().filter(|_| has_more) {
        metadata["continue"] = last.revision.to_string().into();
    }
    let (kind, whole) = (target.kind.clone(), query.flag("objects"));
    // Decodes up to [`BYTES`], hence the blocking thread.
    let decode = move || events.iter().map(|event| item(&kind, event, whole)).collect();
    let items: Vec<Value> = tokio::task::spawn_blocking(decode).await.map_err(ApiError::internal)?;
    let uid = items.first().and_then(|item| item["uid"].as_str()).unwrap_or_default().to_owned();
    Ok(json!({
        "kind": "History", "apiVersion": API_VERSION, "metadata": metadata,
        "object": target.reference_with(&uid), "oldest": server.store.oldest().to_string(), "items": items,
    }))
}

/// The writes of a key before a revision, newest first, and whether there are more. Returns at most `limit`
/// writes, and at least one if any exist.
async fn writes(
    server: &Inner,
    key: &Key,
    before: Revision,
    limit: usize,
) -> Result<(Vec<Arc<Event<Projection>>>, bool), ApiError> {
    let (mut found, mut bytes) = (Vec::<Arc<Event<Projection>>>::new(), 0);
    loop {
        let next = found.last().map_or(before, |event| event.revision);
        // One extra write shows whether there are more.
        let step = STEP.min(limit + 1 - found.len());
        let events = server.store.history_before(key, next, step).await.map_err(read_error)?;
        // A step may be shorter because its objects are large.
        let is_end = events.is_empty();
        for event in events {
            let records = [&event.record, &event.prev];
            bytes += records.into_iter().flatten().map(|record| record.value.len()).sum::<usize>();
            if found.len() == limit || !found.is_empty() && bytes > BYTES {
                return Ok((found, true));
            }
            found.push(event);
        }
        if is_end {
            return Ok((found, false));
        }
    }
}

/// The object of a record as responses show it.
fn shown(kind: &dyn Kind, record: &Record<Projection>) -> Value {
    shape::with_kind(kind, remains::shown(kind, record))
}

fn item(kind: &KindRef, event: &Event<Projection>, whole: bool) -> Value {
    let old = event.prev.as_ref().map(|record| shown(&**kind, record));
    let new = event.record.as_ref().map(|record| shown(&**kind, record));
    let created = event.record.as_ref().is_some_and(|record| record.create_revision == event.revision);
    let ty = match (&new, created) {
        (None, _) => "DELETED",
        (Some(_), true) => "ADDED",
        (Some(_), false) => "MODIFIED",
    };
    let mut list = match (&old, &new) {
        (Some(old), Some(new)) => changes(kind.clone(), old, new),
        (Some(_), None) | (None, Some(_)) | (None, None) => Vec::new(),
    };
    let writer = new.as_ref().and_then(|new| writer(old.as_ref(), new, &list));
    let is_secret = redact::is_secret(&**kind);
    if is_secret {
        redact::changes(&mut list);
    }
    let mut item = json!({
        "revision": event.revision.to_string(), "time": time_text(event.time_ms), "type": ty,
    });
    if let Some(writer) = &writer {
        for member in ["manager", "operation", "subresource"] {
            if let Some(text) = writer.get(member).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                item[member] = text.into();
            }
        }
    }
    // Without a previous or a new state there are no changes to list; the object is included instead.
    let tells_object = whole || old.is_none() || new.is_none();
    let object = new.or(old);
    if let Some(uid) = object.as_ref().and_then(|object| object.pointer("/metadata/uid")) {
        item["uid"] = uid.clone();
    }
    item["changes"] = json!(list);
    if let Some(mut object) = object.filter(|_| tells_object) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        if is_secret {
            redact::object(&mut object);
        }
        item["object"] = object;
    }
    item
}

/// The managed-fields entry of the writer: the entry that is new or changed, the latest if there are several. A
/// second write of a manager within one second does not change its entry; in this case, the owner of the changed
/// fields.
fn writer(old: Option<&Value>, new: &Value, list: &[Change]) -> Option<Map<String, Value>> {
    // By manager: an object may have thousands of entries, each with many fields.
    let mut before: HashMap<[&str; 4], Vec<&Value>> = HashMap::new();
    for entry in old.into_iter().flat_map(entries) {
        before.entry(author(entry)).or_default().push(entry);
    }
    let is_new = |entry: &&Value| {
        before.get(&author(entry)).is_none_or(|same| !same.iter().take(SAME).any(|other| other == entry))
    };
    let time = |entry: &&Value| entry["time"].as_str().unwrap_or_default().to_owned();
    let found = entries(new).filter(is_new).max_by_key(time);
    let found = found.or_else(|| owners(new, list).unwrap_or_default().into_iter().max_by_key(time));
    found.and_then(Value::as_object).cloned()
}

/// The maximum number of entries of one manager, operation, subresource and version that are compared. There is one,
/// unless a client wrote the managed fields itself.
const SAME: usize = 16;
/// The steps of the search for the owner of the changed fields: entries, times changes, times items of lists. The writer is
/// unknown if they do not suffice.
const STEPS: u64 = 1_000_000;

/// Identifies the manager of an entry.
fn author(entry: &Value) -> [&str; 4] {
    ["manager", "operation", "subresource", "apiVersion"].map(|name| entry[name].as_str().unwrap_or_default())
}

fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    list.into_iter().flatten()
}

/// The entries that own one of the changed fields.
///
/// # Errors
/// The search needs more than [`STEPS`].
fn owners<'v>(object: &'v Value, list: &[Change]) -> Result<Vec<&'v Value>, OutOfSteps> {
    let steps = Steps::new(STEPS);
    let mut found = Vec::new();
    for entry in entries(object) {
        let Some(fields) = entry.get("fieldsV1") else { continue };
        for change in list {
            if owns(fields, &change.path, &steps)? {
                found.push(entry);
                break;
            }
        }
    }
    Ok(found)
}

/// Whether the set includes everything below.
fn is_whole(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

/// Whether a set of fields (`{"f:spec": {"f:size": {}}}`) contains a path or one of its ancestors.
///
/// # Errors
/// The search needs more steps than are left.
fn owns(fields: &Value, path: &[String], steps: &Steps) -> Result<bool, OutOfSteps> {
    steps.take(1)?;
    let Some((first, rest)) = path.split_first() else { return Ok(true) };
    let Some(members) = fields.as_object() else { return Ok(false) };
    if first.starts_with('[') {
        // An item of a list; any item will do, because only the owner is of interest.
        for (name, below) in members {
            steps.take(1)?;
            let is_item = !name.starts_with("f:") && name != ".";
            if is_item && (is_whole(below) || owns(below, rest, steps)?) {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    // The name is as long as the path of the change.
    steps.take(first.len() / 64)?;
    match members.get(&format!("f:{first}")) {
        Some(below) => Ok(is_whole(below) || owns(below, rest, steps)?),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insight::changes::Op;

    fn change(path: &[&str]) -> Change {
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        Change { path, op: Op::Replace, from: None, to: None }
    }

    #[test]
    fn search_for_the_writer_is_bounded() {
        // Entries without the changed fields: each is searched for each change.
        let object = |count: usize| {
            let entry = |at: usize| json!({"manager": format!("m{at}"), "fieldsV1": {"f:spec": {"f:b": {}}}});
            json!({"metadata": {"managedFields": (0..count).map(entry).collect::<Vec<_>>()}})
        };
        let list: Vec<Change> = (0..20_000).map(|at| change(&["spec", &format!("a{at}")])).collect();
        let object = object(5_000);
        let time = orlop_apimachinery::thread_time::ThreadTime::start();
        assert_eq!(writer(Some(&object), &object, &list), None);
        assert!(time.spent() < std::time::Duration::from_secs(2), "{:?}", time.spent());
    }

    #[test]
    fn comparing_the_entries_is_linear() {
        let object = |count: usize| {
            let entry = |at: usize| json!({"manager": format!("m{at}"), "fieldsV1": {"f:spec": {"f:b": {}}}});
            json!({"metadata": {"managedFields": (0..count).map(entry).collect::<Vec<_>>()}})
        };
        orlop_apimachinery::thread_time::assert_linear("entries", 500, object, |object| {
            assert_eq!(writer(Some(object), object, &[]), None);
        });
    }

    #[test]
    fn writer_is_the_manager_whose_entry_changed() {
        let entry = |manager: &str, time: &str, fields: Value| json!({"manager": manager, "time": time, "fieldsV1": fields});
        let object = |entries: &[&Value]| json!({"metadata": {"managedFields": entries}});
        let early = entry("early", "2026-01-01T00:00:00Z", json!({"f:spec": {"f:a": {}}}));
        let shrunk = entry("early", "2026-01-01T00:00:00Z", json!({"f:spec": {}}));
        let late = entry(
            "late",
            "2026-01-01T00:00:09Z",
            json!({"f:status": {"f:conditions": {"k:{\"type\":\"A\"}": {}}}}),
        );
        let spec = change(&["spec", "a"]);
        let condition = change(&["status", "conditions", "[type=A]", "reason"]);
        for (case, old, new, changes, want) in [
            ("1 created", None, object(&[&early]), vec![], Some("early")),
            ("2 a new entry", Some(object(&[&early])), object(&[&early, &late]), vec![], Some("late")),
            (
                "3 taken from another",
                Some(object(&[&early])),
                object(&[&shrunk, &late]),
                vec![],
                Some("late"),
            ),
            (
                "4 an entry changed",
                Some(object(&[&early, &late])),
                object(&[&shrunk, &late]),
                vec![],
                Some("early"),
            ),
            (
                "5 same second",
                Some(object(&[&early, &late])),
                object(&[&early, &late]),
                vec![spec.clone()],
                Some("early"),
            ),
            (
                "6 same second, in a list",
                Some(object(&[&early, &late])),
                object(&[&early, &late]),
                vec![condition],
                Some("late"),
            ),
            ("7 without an owner", Some(object(&[&late])), object(&[&late]), vec![spec], None),
            ("8 no entries", None, json!({"metadata": {}}), vec![], None),
        ] {
            let found = writer(old.as_ref(), &new, &changes);
            let found = found.as_ref().and_then(|entry| entry["manager"].as_str());
            assert_eq!(found, want, "{case}");
        }
    }
}
