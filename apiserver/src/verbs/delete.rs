//! DELETE on an item: preconditions, grace period, finalizers, and the removal itself.

use std::sync::Arc;

use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use orlop_store::Record;
use serde_json::{Map, Value, json};

use crate::encode::negotiate::Endpoint;
use crate::encode::{answer, stored};
use crate::projection::Projection;
use crate::registry::{DeleteAnswer, Names};
use crate::verbs::attempts::attempts;
use crate::verbs::delete_options::{DeleteOptions, Propagation};
use crate::verbs::request::Request;
use crate::verbs::unsafe_delete;
use crate::verbs::write::{self, StoreError};
use orlop_api::object::{Object, show_time};
use orlop_api::status::{ApiError, Details};

/// The result of a delete.
pub(crate) enum Deleted {
    /// The object is removed; this is its last state.
    Gone(Object),
    /// The object is terminating; finalizers or its grace period delay the removal.
    Held(Object),
}

/// Deletes the named object.
pub(crate) async fn delete(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let options = DeleteOptions::parse(request)?;
    if options.ignores_read_error {
        return unsafe_delete::delete(request, wanted).await;
    }
    let mut warnings = options.warnings(request.kind());
    let deleted = delete_named(request, &request.resource.name, &options, &mut warnings).await;
    let deleted = deleted.map_err(|error| error.with_warnings(&warnings))?;
    let kind = request.kind();
    let (object, gone) = match deleted {
        Deleted::Gone(object) => (object, true),
        Deleted::Held(object) => (object, false),
    };
    if gone && kind.policy().delete_answer == DeleteAnswer::Status {
        let mut response = answer::value_answer(200, wanted, &success(request.names(), &object))?;
        answer::add_warnings(response.headers_mut(), &warnings);
        return Ok(response);
    }
    // 202 is for clients that request background deletion with the legacy option `orphanDependents`.
    let code = if !gone && options.orphan_dependents == Some(false) { 202 } else { 200 };
    let mut response =
        answer::object(request.kind_ref(), code, object, wanted, &request.query, request.now())?;
    answer::add_warnings(response.headers_mut(), &warnings);
    Ok(response)
}

fn success(names: &Names, object: &Object) -> Value {
    let mut details = Map::new();
    details.insert("name".to_owned(), object.name().into());
    if !names.group.is_empty() {
        details.insert("group".to_owned(), names.group.into());
    }
    details.insert("kind".to_owned(), names.plural.into());
    details.insert("uid".to_owned(), object.uid().into());
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Deletes an object of the request's collection.
pub(crate) async fn delete_named(
    request: &Request,
    name: &str,
    options: &DeleteOptions,
    warnings: &mut Vec<String>,
) -> Result<Deleted, ApiError> {
    let mut attempts = attempts(request, name);
    loop {
        attempts -= 1;
        let record = request
            .found(&request.head(), name)?
            .ok_or_else(|| ApiError::not_found(request.names(), name))?;
        let old = stored::decode_as(request.kind(), &record)?;
        write::admit_delete(request, &old, options.dry_run, warnings).await?;
        check_preconditions(request, options, &old)?;
        match delete_record(request, &record, old, options).await {
            Ok(deleted) => return Ok(deleted),
            Err(StoreError::Api(error)) => return Err(error),
            Err(StoreError::Moved(_)) if attempts == 0 => {
                return Err(ApiError::conflict(request.names(), name));
            }
            Err(StoreError::Moved(_)) => {}
        }
    }
}

/// Checks the preconditions of a delete.
pub(crate) fn check_preconditions(
    request: &Request,
    options: &DeleteOptions,
    old: &Object,
) -> Result<(), ApiError> {
    let names = request.names();
    // Upstream names the kind here where everything else names the resource.
    let kind = if names.group.is_empty() {
        names.kind.to_owned()
    } else {
        format!("{}.{}", names.kind, names.group)
    };
    let details = Details {
        name: old.name().to_owned(),
        group: names.group.to_owned(),
        kind: names.kind.to_owned(),
        ..Details::default()
    };
    if let Some(uid) = &options.uid
        && uid != old.uid()
    {
        if names.plural == "namespaces" {
            let details = Details { kind: names.plural.to_owned(), ..details };
            let why =
                format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", old.uid());
            return Err(ApiError::conflict_because(names.plural, details, &why));
        }
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have \
             been deleted and then recreated",
            old.uid()
        );
        return Err(ApiError::conflict_because(&kind, details, &why));
    }
    let version = old.str_at(&["metadata", "resourceVersion"]);
    if let Some(wanted) = &options.resource_version
        && wanted != version
    {
        if names.plural == "namespaces" {
            let details = Details { kind: names.plural.to_owned(), ..details };
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: \
                 {version}"
            );
            return Err(ApiError::conflict_because(names.plural, details, &why));
        }
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(ApiError::conflict_because(&kind, details, &why));
    }
    Ok(())
}

/// The effect of a delete on the object.
struct Plan {
    object: Object,
    /// The object is removed immediately.
    goes: bool,
    /// The object is marked before its removal, as pods are, so that watchers see the mark.
    marked: bool,
}

fn plan(request: &Request, old: &Object, options: &DeleteOptions) -> Plan {
    let kind = request.kind();
    let now = request.now();
    let mut object = old.clone();
    if kind.has_dependents() {
        settle_finalizers(&mut object, options.propagation(), kind.orphans_by_default());
    }
    if let Some(finalizer) = kind.deletion_finalizer()
        && !old.is_terminating()
    {
        object.add_finalizer(finalizer);
    }
    let grace = kind.grace_period(&object, options.grace_period_seconds);
    let held = object.finalizers().next().is_some() || kind.is_held(&object);
    if old.is_terminating() {
        shorten(&mut object, old, grace);
        let left =
            object.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
        // A repeated delete of a terminating object changes nothing, unless it ends the grace period.
        let goes = !held && left == 0 && (grace.is_some() || !kind.is_held(&object));
        return Plan { goes, marked: goes && object != *old, object };
    }
    let grace_or_none = grace.unwrap_or(0);
    if !held && grace_or_none == 0 {
        let marked = grace.is_some();
        if marked {
            write::mark_deleted(kind, &mut object, now, Some(0));
        }
        return Plan { object, goes: true, marked };
    }
    let at = now.checked_add(SignedDuration::from_secs(grace_or_none)).unwrap_or(now);
    // Namespaces have no grace period.
    let shown = if kind.is_held(&object) { grace } else { Some(grace_or_none) };
    write::mark_deleted(kind, &mut object, at, shown);
    Plan { object, goes: false, marked: false }
}

/// Shortens the grace period of a terminating object. The grace period is never extended.
fn shorten(object: &mut Object, old: &Object, grace: Option<i64>) {
    let Some(wanted) = grace else { return };
    let left = old.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
    if wanted >= left {
        return;
    }
    let Ok(at) = old.str_at(&["metadata", "deletionTimestamp"]).parse::<Timestamp>() else { return };
    let at = at.checked_sub(SignedDuration::from_secs(left - wanted)).unwrap_or(at);
    object.set(&["metadata", "deletionTimestamp"], show_time(at));
    object.set(&["metadata", "deletionGracePeriodSeconds"], wanted);
}

/// Sets the garbage collector's finalizers according to the propagation policy.
fn settle_finalizers(object: &mut Object, propagation: Option<Propagation>, orphans_by_default: bool) {
    const ORPHAN: &str = "orphan";
    const FOREGROUND: &str = "foregroundDeletion";
    let add = match propagation {
        // The policy of an earlier delete remains.
        None if !orphans_by_default
            || object.finalizers().any(|finalizer| finalizer == ORPHAN || finalizer == FOREGROUND) =>
        {
            return;
        }
        None => Some(ORPHAN),
        Some(Propagation::Background) => None,
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
    };
    let mut finalizers: Vec<String> = object
        .finalizers()
        .filter(|finalizer| Some(*finalizer) == add || (*finalizer != ORPHAN && *finalizer != FOREGROUND))
        .map(str::to_owned)
        .collect();
    if let Some(add) = add
        && !finalizers.iter().any(|finalizer| finalizer == add)
    {
        finalizers.push(add.to_owned());
    }
    if finalizers.is_empty() {
        object.meta().remove("finalizers");
    } else {
        object.set(&["metadata", "finalizers"], finalizers);
    }
}

async fn delete_record(
    request: &Request,
    record: &Arc<Record<Projection>>,
    old: Object,
    options: &DeleteOptions,
) -> Result<Deleted, StoreError> {
    let kind = request.kind();
    let plan = plan(request, &old, options);
    if options.dry_run {
        return Ok(if plan.goes { Deleted::Gone(plan.object) } else { Deleted::Held(plan.object) });
    }
    if !plan.goes {
        if plan.object == old {
            return Ok(Deleted::Held(old));
        }
        let held = write::put(request, record, plan.object).await?;
        return Ok(Deleted::Held(stored::decode_as(kind, &held)?));
    }
    // The mark is a separate write, so that watchers see it before the removal. If the removal fails, the object is
    // left with a grace period of 0, and the next delete removes it.
    let last = if plan.marked { write::put(request, record, plan.object).await? } else { record.clone() };
    let removed = write::remove(request, &last).await;
    let mut object = stored::decode_as(kind, &last)?;
    let revision = match removed {
        Ok(revision) => revision,
        // A watcher of the mark, such as the kubelet of a pod, has removed the object already. Upstream: ignoreNotFound in
        // `registry/generic/registry/store.go`.
        Err(StoreError::Moved(current)) if plan.marked && !is_same(&last, current.as_deref()) => {
            return Ok(Deleted::Gone(object));
        }
        Err(error) => return Err(error),
    };
    // A removed object is returned with the revision of its deletion, as in the watch event.
    object.set(&["metadata", "resourceVersion"], revision.to_string());
    Ok(Deleted::Gone(object))
}

/// Whether the current record of a key, if there is one, is a version of the same object.
fn is_same(last: &Record<Projection>, current: Option<&Record<Projection>>) -> bool {
    current.is_some_and(|current| current.create_revision == last.create_revision)
}
