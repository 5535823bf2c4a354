//! POST on a collection.

use axum::response::Response;
use futures::FutureExt as _;

use crate::admission::Operation;
use crate::encode::answer::{self, Written};
use crate::encode::head::ObjectHead;
use crate::encode::negotiate::Endpoint;
use crate::generated_name::generated_name;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::write::{self, StoreError};
use orlop_api::object::{Object, show_time};
use orlop_api::registry::Requester;
use orlop_api::status::ApiError;
use orlop_codec::decode::decode_object;

const GENERATE_ATTEMPTS: usize = 8;

/// The maximum number of CustomResourceDefinitions. Discovery, the OpenAPI documents and the check of names visit all of them
/// after each change.
const MAX_DEFINITIONS: usize = 1000;

/// Rejects an object of a kind of which there are enough.
fn check_count(request: &Request, name: &str, max: usize) -> Result<(), ApiError> {
    let count = request.head().range(&request.resource.prefix(), None).take(max).count();
    if count < max {
        return Ok(());
    }
    let why = format!("this server stores at most {max} objects of this kind");
    Err(ApiError::forbidden(request.names(), name, &why))
}

/// Creates an object.
pub(crate) async fn create(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let media = request.media()?;
    let options = WriteOptions::parse("CreateOptions", &request.query)?;
    let decoded = decode_object(request.kind(), media, &request.body, options.validation)?;
    request.audit_names(&decoded.object);
    let mut warnings = decoded.warnings;
    let written = create_object(request, decoded.object, &options, &mut warnings)
        .await
        .map_err(|error| error.with_warnings(&warnings))?;
    answer::written(request.kind_ref(), 201, &written, wanted, &warnings, &request.query, request.now())
}

/// Creates a decoded object; also used by a PUT of a missing object.
pub(crate) async fn create_object(
    request: &Request,
    mut object: Object,
    options: &WriteOptions,
    warnings: &mut Vec<String>,
) -> Result<Written, ApiError> {
    write::settle_namespace(request, &mut object)?;
    write::strip_metadata(&mut object, warnings);
    request.kind().defaults(&mut object);
    write::track(request, &request.manager(options), None, &mut object);
    create_tracked(request, object, options.dry_run, warnings).await
}

/// Checks that the server accepts new objects of the kind.
///
/// # Errors
/// 405 if the definition of the kind is being deleted, 403 if there are too many objects of the kind.
pub(crate) fn check_kind(request: &Request, name: &str) -> Result<(), ApiError> {
    if request.kind().is_terminating() {
        return Err(terminating_definition());
    }
    if request.names().plural == "customresourcedefinitions" {
        check_count(request, name, MAX_DEFINITIONS)?;
    }
    Ok(())
}

/// Sets what only the server sets in a new object that has passed the mutating admission: policies and webhooks may have set it, too.
/// The requester of a certificate is always the user of this request, also if a former object is restored.
///
/// # Errors
/// 400 if the namespace is not that of the request.
pub(crate) fn settle_new(request: &Request, object: &mut Object, uid: String) -> Result<(), ApiError> {
    let kind = request.kind();
    remove_server_metadata(object);
    write::settle_namespace(request, object)?;
    object.set(&["metadata", "uid"], uid);
    object.set(&["metadata", "creationTimestamp"], show_time(request.now()));
    write::first_generation(kind, object);
    kind.prepare_create(object, request.now());
    let user = &request.user;
    let requester =
        Requester { username: &user.username, uid: &user.uid, groups: &user.groups, extra: &user.extra };
    kind.set_requester(object, &requester);
    Ok(())
}

/// Removes the metadata that only the server sets.
fn remove_server_metadata(object: &mut Object) {
    let meta = object.meta();
    for name in
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"]
    {
        meta.remove(name);
    }
}

/// Creates a complete object that already has its managed fields.
pub(crate) async fn create_tracked(
    request: &Request,
    mut object: Object,
    dry_run: bool,
    warnings: &mut Vec<String>,
) -> Result<Written, ApiError> {
    let kind = request.kind();
    check_kind(request, object.name())?;
    let given_version = object.str_at(&["metadata", "resourceVersion"]).to_owned();
    remove_server_metadata(&mut object);
    write::admit(request, Operation::Create, &mut object, None, warnings).await?;
    settle_new(request, &mut object, uuid::Uuid::new_v4().to_string())?;

    let base = object.str_at(&["metadata", "generateName"]).to_owned();
    let generated = object.name().is_empty() && !base.is_empty();
    for attempt in 1..=GENERATE_ATTEMPTS {
        if generated {
            object.set(&["metadata", "name"], generated_name(&base));
            request.audit_names(&object);
        }
        if attempt == 1 {
            write::validate_new(kind, &object, Some(request))?;
            warnings.extend(kind.warnings(&object, None));
            write::admit_validated(request, Operation::Create, &mut object, None, warnings).await?;
            if !given_version.is_empty() {
                return Err(ApiError::plain_internal(
                    "resourceVersion should not be set on objects to be created",
                ));
            }
        }
        let name = object.name().to_owned();
        // Only generated names are retried.
        let again = generated && attempt < GENERATE_ATTEMPTS;
        let body = if again { object.clone() } else { std::mem::take(&mut object) };
        let taken = match store(request, body, dry_run).await {
            Ok(written) => return Ok(written),
            Err(StoreError::Api(error)) => return Err(error),
            Err(StoreError::Moved(taken)) => taken,
        };
        if again {
            continue;
        }
        let terminating = taken
            .and_then(|record| ObjectHead::of(&record).ok())
            .is_some_and(|object| object.deletion_timestamp().is_some());
        // The text depends on `generateName`, also if the client chose the name.
        let error = match base.is_empty() {
            true => ApiError::already_exists(request.names(), &name),
            false => ApiError::no_unique_name(request.names(), &name),
        };
        return Err(if terminating { error.being_deleted() } else { error });
    }
    Err(ApiError::no_unique_name(request.names(), object.name()))
}

async fn store(request: &Request, object: Object, dry_run: bool) -> Result<Written, StoreError> {
    if !dry_run {
        return settled(request, write::store_new(request, object).await?).await;
    }
    match request.head().get(&request.resource.key(object.name())) {
        Some(taken) => Err(StoreError::Moved(Some(taken.clone()))),
        None => Ok(Written::Object(object)),
    }
}

/// The error for a create while the definition is being deleted.
fn terminating_definition() -> ApiError {
    let message = "create not allowed while custom resource definition is terminating".to_owned();
    ApiError { message, ..ApiError::method_not_allowed() }
}

/// Removes an object that was created while its definition was terminating or after it was deleted. The kind is
/// resolved when a request begins, and the body may arrive after the last check for remaining objects; nothing
/// else would ever remove the object.
async fn settled(request: &Request, written: Written) -> Result<Written, StoreError> {
    let (Some(definition), Written::Record(record)) = (request.kind().definition(), &written) else {
        return Ok(written);
    };
    let error = match request.server.kinds.is_terminating(definition) {
        Some(false) => return Ok(written),
        Some(true) => terminating_definition(),
        None => ApiError::no_such_resource(),
    };
    match write::remove(request, record).boxed().await {
        // The object is removed, or another writer has changed it.
        Ok(_) | Err(StoreError::Moved(_)) => Err(error.into()),
        Err(StoreError::Api(why)) => Err(why.into()),
    }
}
