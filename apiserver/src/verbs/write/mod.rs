//! Steps that create, update, patch and the subresources share: server-managed metadata, admission and
//! validation. The conditional write is in [`store`].

mod admission;
mod attributes;
mod cluster;
mod context;
mod default_account;
pub(crate) mod error;
mod store;

use std::collections::HashSet;

use serde_json::Value;

use crate::dispatch::key_names;
use crate::registry::{self, Generation, Kind, Scope, StatusSubresource, WriteContext};
use crate::verbs::request::Request;
use orlop_api::object::{Object, show_time};
use orlop_api::status::{ApiError, Details};
use orlop_api::validate::meta::{validate_meta, validate_meta_update};
use orlop_api::validate::{FieldErrors, Path};
use orlop_codec::managed_fields::{self, Writer};

pub(crate) use super::part::Part;
pub(crate) use admission::{
    admit, admit_body, admit_delete, admit_delete_without_calls, admit_subresource, admit_validated,
    admit_validated_without_calls, admit_without_calls, check_target,
};
pub(crate) use error::{StoreError, commit_error_of};
pub(crate) use store::{put, put_as, remove, store_changed, store_new};

/// Checks the namespace in the body against the path, and sets it if it is missing.
pub(crate) fn settle_namespace(request: &Request, object: &mut Object) -> Result<(), ApiError> {
    match request.kind().scope() {
        Scope::Cluster => {
            object.meta().remove("namespace");
        }
        Scope::Namespaced => {
            let given = object.namespace();
            if given.is_empty() {
                let namespace = request.resource.namespace.clone();
                object.set(&["metadata", "namespace"], namespace);
            } else if given != request.resource.namespace {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
        }
    }
    Ok(())
}

/// Removes metadata that a client cannot set, and duplicate owners; the latter with a warning.
pub(crate) fn strip_metadata(object: &mut Object, warnings: &mut Vec<String>) {
    let metadata = object.meta();
    metadata.remove("selfLink");
    let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else { return };
    let (mut seen, mut reported) = (HashSet::new(), HashSet::new());
    let mut doubled: Vec<String> = Vec::new();
    owners.retain(|owner| {
        let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        if seen.insert(uid.clone()) {
            return true;
        }
        if reported.insert(uid.clone()) {
            doubled.push(uid);
        }
        false
    });
    if !doubled.is_empty() {
        warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            doubled.join(", ")
        ));
    }
}

/// Makes the field manager of a write the owner of the fields that it changes.
pub(crate) fn track(request: &Request, manager: &str, live: Option<&Object>, object: &mut Object) {
    managed_fields::track(&writer(request, manager, &show_time(request.now())), live, object);
}

/// The field manager, with kind and subresource; `now` is the time in the form of objects.
pub(crate) fn writer<'a>(request: &'a Request, manager: &'a str, now: &'a Value) -> Writer<'a> {
    Writer {
        kind: request.kind(),
        subresource: &request.resource.subresource,
        manager,
        now: now.as_str().unwrap_or_default(),
    }
}

/// Sets the generation of a new object.
pub(crate) fn first_generation(kind: &dyn Kind, object: &mut Object) {
    match kind.policy().generation {
        Generation::Unmanaged => {}
        Generation::Spec | Generation::SpecAndAnnotations | Generation::AllButMeta => {
            object.set(&["metadata", "generation"], 1);
        }
        Generation::SpecFromZero => {
            object.meta().remove("generation");
        }
    }
}

/// Validates a new object: metadata first, then the kind's rules. An object that the server itself creates has no
/// context.
pub(crate) fn validate_new(
    kind: &dyn Kind,
    object: &Object,
    context: Option<&dyn WriteContext>,
) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let namespaced = kind.scope() == Scope::Namespaced;
    if let Some(context) = context {
        kind.validate_in_context(object, None, context, &mut errors);
    }
    validate_meta(object, kind.policy().names, namespaced, &mut errors);
    kind.validate(object, &mut errors);
    kind.validate_create(object, &mut errors);
    finish_validation(kind, object, &errors)
}

fn finish_validation(kind: &dyn Kind, object: &Object, errors: &FieldErrors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let names = kind.names();
    // Validation applies to the stored form, and errors name its group.
    let stored = kind.is_view().then(|| registry::by_storage_prefix(kind.storage_prefix())).flatten();
    let group = stored.map_or(names.group, |stored| stored.names().group);
    Err(ApiError::invalid(names.kind, group, object.name(), errors))
}

/// The stored object with the fields that a subresource may change, and the managed fields, taken from `object`.
pub(crate) fn only_part(kind: &dyn Kind, subresource: &str, object: &Object, old: &Object) -> Object {
    let mut changed = old.clone();
    kind.take_part(subresource, object, &mut changed);
    match object.at(&["metadata", "managedFields"]) {
        Some(managed) => changed.set(&["metadata", "managedFields"], managed.clone()),
        None => drop(changed.meta().remove("managedFields")),
    }
    changed
}

/// Prepares a changed object: restores server-managed metadata and the parts that this request must not change,
/// and increments the generation.
pub(crate) fn settle_update(request: &Request, part: Part, object: &mut Object, old: &Object) {
    let kind = request.kind();
    keep_metadata(object, old);
    match (part, kind.policy().status) {
        (Part::Main, StatusSubresource::None) => {}
        (Part::Main, StatusSubresource::WithMetadata | StatusSubresource::StatusOnly) => {
            object.copy_member(old, "status");
        }
        // The fields have been selected before.
        (Part::Named(_), _) => {}
        (Part::Status, policy) => {
            let status = object.0.remove("status");
            let metadata = object.0.remove("metadata");
            let managed = metadata.as_ref().and_then(|metadata| metadata.get("managedFields")).cloned();
            object.0.clone_from(&old.0);
            match status {
                Some(status) => object.0.insert("status".to_owned(), status),
                None => object.0.remove("status"),
            };
            if let (StatusSubresource::WithMetadata, Some(metadata)) = (policy, metadata) {
                object.0.insert("metadata".to_owned(), metadata);
            } else {
                // A status update changes no metadata except the managed fields.
                match managed {
                    Some(managed) => object.set(&["metadata", "managedFields"], managed),
                    None => drop(object.meta().remove("managedFields")),
                }
            }
        }
    }
    match part {
        Part::Main => kind.prepare_update(object, old, request.now()),
        Part::Status => kind.prepare_status(object, old, request.now()),
        Part::Named(subresource) => kind.prepare_part(subresource, object, old, request.now()),
    }
    let counted = match kind.policy().generation {
        Generation::Unmanaged => false,
        Generation::Spec | Generation::SpecFromZero => object.0.get("spec") != old.0.get("spec"),
        Generation::SpecAndAnnotations => {
            let annotations = ["metadata", "annotations"];
            let main = part == Part::Main;
            main && (object.0.get("spec") != old.0.get("spec")
                || object.at(&annotations) != old.at(&annotations))
        }
        Generation::AllButMeta => {
            let has_status = kind.policy().status != StatusSubresource::None;
            let counts = |name: &str| name != "metadata" && !(has_status && name == "status");
            let (new, old) = (object.0.iter(), old.0.iter());
            !new.filter(|(name, _)| counts(name)).eq(old.filter(|(name, _)| counts(name)))
        }
    };
    if counted {
        let generation = old.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
        object.set(&["metadata", "generation"], generation + 1);
    }
}

/// Restores the metadata that only the server changes.
pub(crate) fn keep_metadata(object: &mut Object, old: &Object) {
    for name in ["creationTimestamp", "generation", "resourceVersion"] {
        match old.at(&["metadata", name]) {
            Some(value) => object.set(&["metadata", name], value.clone()),
            None => drop(object.meta().remove(name)),
        }
    }
    // Validation rejects these fields on an object that is not terminating.
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if let Some(value) = old.at(&["metadata", name]) {
            object.set(&["metadata", name], value.clone());
        }
    }
    if object.uid().is_empty() {
        object.set(&["metadata", "uid"], old.uid().to_owned());
    }
    object.set_default(&["metadata", "name"], old.name().to_owned());
}

/// Validates a changed object. Errors of unchanged values may become warnings.
pub(crate) fn validate_changed(
    kind: &dyn Kind,
    part: Part,
    object: &Object,
    old: &Object,
    context: &dyn WriteContext,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let namespaced = kind.scope() == Scope::Namespaced;
    if part == Part::Status {
        kind.validate_in_context(object, Some(old), context, &mut errors);
    }
    validate_meta_update(object, old, kind.policy().names, namespaced, &mut errors);
    match part {
        Part::Main => {
            kind.validate(object, &mut errors);
            kind.validate_update(object, old, &mut errors);
        }
        Part::Status => kind.validate_status(object, old, &mut errors),
        Part::Named(subresource) => {
            kind.validate(object, &mut errors);
            kind.validate_part(subresource, object, old, &mut errors);
        }
    }
    warnings.extend_from_slice(errors.warnings());
    finish_validation(kind, object, &errors)
}

/// Checks the resourceVersion in a body.
pub(crate) fn check_version(
    kind: &dyn Kind,
    object: &Object,
    old: &Object,
    part_may_be_unconditional: bool,
) -> Result<(), ApiError> {
    let names = kind.names();
    let given = object.str_at(&["metadata", "resourceVersion"]);
    if given.is_empty() || given == "0" {
        if part_may_be_unconditional {
            return Ok(());
        }
        let mut errors = FieldErrors::new();
        errors.invalid(&Path::new("metadata.resourceVersion"), 0, "must be specified for an update");
        // Upstream names the resource here, not the kind.
        return Err(ApiError::invalid(names.plural, names.group, old.name(), &errors));
    }
    if given.parse::<u64>().is_err() {
        return Err(ApiError::plain_internal(format!(
            "strconv.ParseUint: parsing {given:?}: invalid syntax"
        )));
    }
    if given != old.str_at(&["metadata", "resourceVersion"]) {
        return Err(ApiError::conflict(names, old.name()));
    }
    Ok(())
}

/// The error for a uid that is not the object's.
pub(crate) fn uid_conflict(kind: &dyn Kind, key: &str, given: &str, actual: &str) -> ApiError {
    precondition_failed(kind, key, "UID", given, actual)
}

/// The error for a version that is not the object's, in requests that do not contain the object itself.
pub(crate) fn version_conflict(kind: &dyn Kind, key: &str, given: &str, actual: &str) -> ApiError {
    precondition_failed(kind, key, "ResourceVersion", given, actual)
}

fn precondition_failed(kind: &dyn Kind, key: &str, what: &str, given: &str, actual: &str) -> ApiError {
    let why =
        format!("Precondition failed: {what} in precondition: {given}, {what} in object meta: {actual}");
    invalid_object(kind, key, &why)
}

/// 409 with the error of upstream's store for an object that does not have the expected form.
pub(crate) fn invalid_object(kind: &dyn Kind, key: &str, why: &str) -> ApiError {
    let names = kind.names();
    let details = Details {
        name: key_names(kind, key).1.to_owned(),
        group: names.group.to_owned(),
        kind: names.plural.to_owned(),
        ..Details::default()
    };
    let resource = if names.group.is_empty() {
        names.plural.to_owned()
    } else {
        format!("{}.{}", names.plural, names.group)
    };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    );
    ApiError::conflict_because(&resource, details, &why)
}

/// Whether a terminating object can be removed.
pub(crate) fn may_go(kind: &dyn Kind, object: &Object) -> bool {
    object.is_terminating()
        && object.finalizers().next().is_none()
        && object.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0) == 0
        && !kind.is_held(object)
}

/// Sets deletion time and grace period when the deletion of an object begins.
pub(crate) fn mark_deleted(kind: &dyn Kind, object: &mut Object, at: jiff::Timestamp, grace: Option<i64>) {
    object.set(&["metadata", "deletionTimestamp"], show_time(at));
    if kind.deletion_finalizer().is_some() {
        // As upstream, the deletion of such an object is a plain update.
        return kind.begin_delete(object);
    }
    if let Some(grace) = grace {
        object.set(&["metadata", "deletionGracePeriodSeconds"], grace);
    }
    let generation = object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
    if generation > 0 {
        object.set(&["metadata", "generation"], generation + 1);
    }
    kind.begin_delete(object);
}
