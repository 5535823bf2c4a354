//! `/scale` subresource: the number of replicas of an object, in the same form for every kind.
//!
//! A write changes the object itself, under the object's own rules. A Scale carries the version, the replicas and
//! the managed fields of its object. [`Kind::scale`](crate::registry::Kind::scale) specifies which kinds support
//! it and where they store the number.

use std::sync::Arc;

use axum::response::Response;
use orlop_store::Record;

use crate::encode::answer::{self, Written};
use crate::encode::negotiate::{Endpoint, RequestedEncoding};
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::scale::{self as scales, NAMES, Scale};
use crate::registry::{Kind as _, KindRef, NameRule, ScalePaths};
use crate::verbs::attempts::attempts;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::revision::{parse_revision, wait_for};
use crate::verbs::update::{self, Change, check_name};
use crate::verbs::write::{self, Part, StoreError};
use crate::verbs::{apply, patch};
use orlop_api::object::{Object, show_time};
use orlop_api::status::{ApiError, Details};
use orlop_api::validate::FieldErrors;
use orlop_api::validate::meta::validate_meta;
use orlop_codec::decode::decode_named;
use orlop_codec::managed_fields::{self, Writer};
use orlop_codec::patch::PatchKind;

/// Returns the current and the desired number of replicas.
pub(crate) async fn get(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let at_least = parse_revision(request.query.text("resourceVersion")).map_err(ApiError::plain_internal)?;
    if let Some(revision) = at_least {
        wait_for(&*request.server.store, revision).await?;
    }
    let record = request.record(&request.head())?;
    let object = stored::decode_as(request.kind(), &record)?;
    show(request, &object, wanted, &[])
}

/// Replaces the Scale.
pub(crate) async fn update(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let media = request.media()?;
    let options = WriteOptions::parse("UpdateOptions", &request.query)?;
    let decoded = decode_named(&NAMES, media, &request.body, options.validation)?;
    let given = decoded.object;
    check_name(request, &given)?;
    let manager = request.manager(&options);
    let make = |live: &Object, _: &mut Vec<String>| {
        let mut scale = given.clone();
        track(request, &manager, live, &mut scale);
        Ok(scale)
    };
    write(request, &options, decoded.warnings, wanted, make).await
}

/// Patches the Scale, with any of the patch types.
pub(crate) async fn patch(request: &Request) -> Result<Response, ApiError> {
    let patch_kind = patch::patch_kind(request)?;
    let wanted = request.wanted(Endpoint::Single)?;
    if patch_kind == PatchKind::Apply {
        let options = WriteOptions::parse_apply(&request.query)?;
        let (config, duplicates) = apply::read(&request.body)?;
        let now = show_time(request.now());
        let make = |live: &Object, warnings: &mut Vec<String>| {
            let writer = writer(request, &options.field_manager, now.as_str().unwrap_or_default());
            let scale = managed_fields::apply(&writer, Some(live), config.clone(), options.force)?;
            apply::note_duplicates(options.validation, &duplicates, warnings)?;
            Ok(scale)
        };
        return write(request, &options, Vec::new(), wanted, make).await;
    }
    let options = WriteOptions::parse("PatchOptions", &request.query)?;
    let manager = request.manager(&options);
    let make = |live: &Object, warnings: &mut Vec<String>| {
        let (mut scale, found) =
            patch::patched(&NAMES, None, &request.body, patch_kind, live, options.validation)?;
        warnings.extend(found);
        track(request, &manager, live, &mut scale);
        Ok(scale)
    };
    write(request, &options, Vec::new(), wanted, make).await
}

/// Applies the Scale that `make` derives from the current one to the object. Retries on conflict, unless the
/// client specified a version.
async fn write(
    request: &Request,
    options: &WriteOptions,
    warnings: Vec<String>,
    wanted: RequestedEncoding,
    make: impl Fn(&Object, &mut Vec<String>) -> Result<Object, ApiError>,
) -> Result<Response, ApiError> {
    let kind = request.kind();
    let paths = paths(request)?;
    for _ in 0..attempts(request, &request.resource.name) {
        let mut warnings = warnings.clone();
        let record = request.record(&request.head())?;
        let old = stored::decode_as(kind, &record)?;
        let mut live = scales::to_change(&old, &paths).map_err(ApiError::internal)?;
        managed_fields::scale::to_scale(kind, &old, &paths.replicas, &mut live);
        let mut scale = make(&live, &mut warnings)?;
        check_name(request, &scale)?;
        write::settle_namespace(request, &mut scale)?;
        match change(request, &record, &old, &scale, options.dry_run, &mut warnings).await {
            Ok(Written::Record(record)) => {
                return show(request, &stored::decode_as(kind, &record)?, wanted, &warnings);
            }
            Ok(Written::Object(object)) => return show(request, &object, wanted, &warnings),
            Err(StoreError::Api(error)) => return Err(error.with_warnings(&warnings)),
            Err(StoreError::Moved(_)) => {}
        }
    }
    Err(ApiError::conflict(request.names(), &request.resource.name))
}

async fn change(
    request: &Request,
    record: &Arc<Record<Projection>>,
    old: &Object,
    scale: &Object,
    dry_run: bool,
    warnings: &mut Vec<String>,
) -> Result<Written, StoreError> {
    let kind = request.kind();
    let paths = paths(request)?;
    let mut errors = FieldErrors::new();
    validate_meta(scale, NameRule::Subdomain, true, &mut errors);
    // A custom kind validates the replicas in its object.
    if !kind.is_custom() {
        Scale.validate(scale, &mut errors);
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid(NAMES.kind, NAMES.group, old.name(), &errors).into());
    }
    if !scale.uid().is_empty() && scale.uid() != old.uid() {
        return Err(other_uid(request, scale.uid(), old).into());
    }
    let mut object = old.clone();
    managed_fields::scale::to_object(kind, &mut object, &paths.replicas, scale);
    scales::put_into(scale, &mut object, &paths);
    write::check_version(kind, &object, old, true)?;
    let change = Change { part: Part::Main, old, record, manager: None, dry_run };
    update::apply(request, object, change, warnings).await
}

fn paths(request: &Request) -> Result<ScalePaths<'_>, ApiError> {
    request.kind().scale().ok_or_else(ApiError::no_such_resource)
}

fn writer<'a>(request: &'a Request, manager: &'a str, now: &'a str) -> Writer<'a> {
    Writer { kind: &Scale, subresource: &request.resource.subresource, manager, now }
}

fn track(request: &Request, manager: &str, live: &Object, scale: &mut Object) {
    let now = show_time(request.now());
    managed_fields::track(&writer(request, manager, now.as_str().unwrap_or_default()), Some(live), scale);
}

fn other_uid(request: &Request, given: &str, old: &Object) -> ApiError {
    let names = request.names();
    let resource = format!("{}/{}", names.plural, NAMES.singular);
    let shown = if names.group.is_empty() { resource.clone() } else { format!("{resource}.{}", names.group) };
    let details = Details {
        name: old.name().to_owned(),
        group: names.group.to_owned(),
        kind: resource,
        ..Details::default()
    };
    let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {}", old.uid());
    ApiError::conflict_because(&shown, details, &why)
}

fn show(
    request: &Request,
    object: &Object,
    wanted: RequestedEncoding,
    warnings: &[String],
) -> Result<Response, ApiError> {
    let scale = scales::of(object, &paths(request)?).map_err(ApiError::internal)?;
    let mut response =
        answer::object(&KindRef::Builtin(&Scale), 200, scale, wanted, &request.query, request.now())?;
    answer::add_warnings(response.headers_mut(), warnings);
    Ok(response)
}
