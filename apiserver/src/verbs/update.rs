//! PUT on an item or its status, and the update steps that PATCH shares.

use std::sync::Arc;

use axum::response::Response;
use futures::FutureExt as _;
use orlop_store::Record;

use crate::admission::Operation;
use crate::authorization;
use crate::encode::answer::{self, Written};
use crate::encode::negotiate::Endpoint;
use crate::encode::stored;
use crate::projection::Projection;
use crate::verbs::attempts::attempts;
use crate::verbs::create::create_object;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::write::{self, Part, StoreError};
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_codec::decode::decode_object;
use orlop_codec::managed_fields;

/// Replaces an object.
pub(crate) async fn update(request: &Request, part: Part) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let media = request.media()?;
    let options = WriteOptions::parse("UpdateOptions", &request.query)?;
    let decoded = decode_object(request.kind(), media, &request.body, options.validation)?;
    request.audit_names(&decoded.object);
    let mut warnings = decoded.warnings;
    let mut object = decoded.object;
    check_name(request, &object)?;
    write::settle_namespace(request, &mut object)?;
    write::strip_metadata(&mut object, &mut warnings);
    let kind = request.kind();
    let manager = request.manager(&options);
    let given_uid = object.uid().to_owned();
    let unconditional = object.str_at(&["metadata", "resourceVersion"]).is_empty();
    let mut attempts = if unconditional { attempts(request, &request.resource.name) } else { 1 };
    loop {
        attempts -= 1;
        let key = request.resource.key(&request.resource.name);
        let Some(record) = request.found(&request.head(), &request.resource.name)? else {
            if !object.uid().is_empty() {
                return Err(write::uid_conflict(kind, &key, object.uid(), ""));
            }
            if !kind.policy().create_on_update || part != Part::Main {
                return Err(ApiError::not_found(request.names(), &request.resource.name));
            }
            authorization::may_create(request).boxed().await?;
            let mut new = object.clone();
            new.meta().remove("resourceVersion");
            let written = match create_object(request, new, &options, &mut warnings).boxed().await {
                Ok(written) => written,
                // Another writer has created the object in the meantime, so this is an update.
                Err(error) if error.reason == "AlreadyExists" && attempts > 0 => continue,
                Err(error) => return Err(error.with_warnings(&warnings)),
            };
            return answer::written(
                request.kind_ref(),
                201,
                &written,
                wanted,
                &warnings,
                &request.query,
                request.now(),
            );
        };
        let old = stored::decode_as(kind, &record)?;
        write::check_target(request, &old)?;
        if !object.uid().is_empty() && object.uid() != old.uid() {
            return Err(write::uid_conflict(kind, &key, object.uid(), old.uid()));
        }
        let free = kind.policy().unconditional_update || part != Part::Main;
        write::check_version(kind, &object, &old, free)?;
        let mut attempt_warnings = warnings.clone();
        let dry_run = options.dry_run;
        let change = Change { part, old: &old, record: &record, manager: Some(&manager), dry_run };
        let body = if attempts == 0 { std::mem::take(&mut object) } else { object.clone() };
        match apply(request, body, change, &mut attempt_warnings).await {
            Ok(written) => {
                return answer::written(
                    request.kind_ref(),
                    200,
                    &written,
                    wanted,
                    &attempt_warnings,
                    &request.query,
                    request.now(),
                );
            }
            Err(StoreError::Api(error)) => return Err(error.with_warnings(&attempt_warnings)),
            // The object was deleted in the meantime: return the error of an update that starts after the delete.
            Err(StoreError::Moved(None)) if attempts == 0 && !kind.policy().create_on_update => {
                return Err(if given_uid.is_empty() {
                    ApiError::not_found(request.names(), &request.resource.name)
                } else {
                    write::uid_conflict(kind, &key, &given_uid, "")
                });
            }
            Err(StoreError::Moved(_)) if attempts == 0 => {
                return Err(ApiError::conflict(request.names(), &request.resource.name));
            }
            Err(StoreError::Moved(_)) => {}
        }
    }
}

/// An update: the part, the previous object and its record.
pub(crate) struct Change<'a> {
    pub(crate) part: Part,
    pub(crate) old: &'a Object,
    pub(crate) record: &'a Arc<Record<Projection>>,
    /// The field manager; `None` if the object's managed fields are already updated.
    pub(crate) manager: Option<&'a str>,
    pub(crate) dry_run: bool,
}

/// Applies defaults, admission, server-managed metadata and validation to a changed object, then writes it
/// conditionally.
pub(crate) async fn apply(
    request: &Request,
    mut object: Object,
    change: Change<'_>,
    warnings: &mut Vec<String>,
) -> Result<Written, StoreError> {
    let kind = request.kind();
    let Change { part, old, record, manager, dry_run } = change;
    kind.defaults(&mut object);
    if let Part::Named(subresource) = part {
        object = write::only_part(kind, subresource, &object, old);
    }
    if let Some(manager) = manager {
        write::track(request, manager, Some(old), &mut object);
    }
    write::admit(request, Operation::Update, &mut object, Some(old), warnings).await?;
    // Policies and webhooks may have changed more.
    if let Part::Named(subresource) = part {
        object = write::only_part(kind, subresource, &object, old);
    }
    managed_fields::keep_times(&mut object, old);
    write::settle_update(request, part, &mut object, old);
    write::validate_changed(kind, part, &object, old, request, warnings)?;
    warnings.extend(kind.warnings(&object, Some(old)));
    write::admit_validated(request, Operation::Update, &mut object, Some(old), warnings).await?;
    if dry_run {
        object.set(&["metadata", "resourceVersion"], record.mod_revision.to_string());
        return Ok(Written::Object(object));
    }
    write::store_changed(request, record, object).await
}

/// Checks the name in the body against the name in the path.
pub(crate) fn check_name(request: &Request, object: &Object) -> Result<(), ApiError> {
    let name = &request.resource.name;
    match object.name() {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given if given != name => Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}
