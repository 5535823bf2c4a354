//! PATCH on an item or its status: JSON, merge and strategic merge patches.

use axum::response::Response;
use orlop_openapi::{OPEN_OBJECT, types};
use serde_json::{Map, Value};

use crate::encode::answer::{self, Written};
use crate::encode::negotiate::Endpoint;
use crate::encode::stored;
use crate::registry::{Kind, Names};
use crate::verbs::apply;
use crate::verbs::attempts::attempts;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::update::{self, Change, check_name};
use crate::verbs::write::{self, Part, StoreError};
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_codec::decode::{FieldValidation, conform_merged, conform_patched, conform_to, duplicate_fields};
use orlop_codec::patch::{self, PatchKind};

/// Patches an object.
pub(crate) async fn patch(request: &Request, part: Part) -> Result<Response, ApiError> {
    let patch_kind = patch_kind(request)?;
    let wanted = request.wanted(Endpoint::Single)?;
    if patch_kind == PatchKind::Apply {
        return apply::apply(request, part, wanted).await;
    }
    let options = WriteOptions::parse("PatchOptions", &request.query)?;
    match patch_existing(request, part, patch_kind, &options).await {
        Ok((written, warnings)) => answer::written(
            request.kind_ref(),
            200,
            &written,
            wanted,
            &warnings,
            &request.query,
            request.now(),
        ),
        Err(error) if request.names().is_secret() && patch::copies(patch_kind, &request.body) => {
            Err(without_reason(error, request))
        }
        Err(error) => Err(error),
    }
}

/// The type of a patch.
///
/// # Errors
/// 415 if it is unknown: from upstream's router for built-in kinds, and from the handler for custom kinds, which have no
/// strategic merge patches.
pub(crate) fn patch_kind(request: &Request) -> Result<PatchKind, ApiError> {
    let given = PatchKind::from_content_type(request.content_type.as_deref().unwrap_or_default());
    match given {
        None if !request.kind().is_custom() => {
            Err(ApiError::unsupported_media_type("415: Unsupported Media Type").with_empty_details())
        }
        Some(given) if given != PatchKind::Strategic || !request.kind().is_custom() => Ok(given),
        None | Some(_) => Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
    }
}

/// The same error without its reason. An operation can copy a value of a Secret to any field, and errors about this field contain the
/// value. Clients and the audit log record errors.
fn without_reason(mut error: ApiError, request: &Request) -> ApiError {
    if matches!(error.reason, "NotFound" | "Conflict") {
        return error;
    }
    error.message = format!(
        "the patch of Secret {:?} is rejected; the reason is not shown because the patch copies or moves values, which the \
         reason could contain; send the changed fields with their values instead",
        request.resource.name
    );
    if let Some(details) = &mut error.details {
        details.causes.clear();
    }
    error.warnings.clear();
    error
}

/// Patches the stored object; returns the result and warnings.
async fn patch_existing(
    request: &Request,
    part: Part,
    patch_kind: PatchKind,
    options: &WriteOptions,
) -> Result<(Written, Vec<String>), ApiError> {
    let kind = request.kind();
    let manager = request.manager(options);
    let mut attempts = attempts(request, &request.resource.name);
    loop {
        attempts -= 1;
        let record = request.record(&request.head())?;
        let old = stored::decode_as(kind, &record)?;
        write::check_target(request, &old)?;
        let (object, mut warnings) =
            patched(request.names(), Some(kind), &request.body, patch_kind, &old, options.validation)?;
        check_name(request, &object)?;
        let mut object = object;
        write::settle_namespace(request, &mut object)?;
        write::strip_metadata(&mut object, &mut warnings);
        write::check_version(kind, &object, &old, true)?;
        let dry_run = options.dry_run;
        let change = Change { part, old: &old, record: &record, manager: Some(&manager), dry_run };
        match update::apply(request, object, change, &mut warnings).await {
            Ok(written) => return Ok((written, warnings)),
            Err(StoreError::Api(error)) => return Err(error.with_warnings(&warnings)),
            Err(StoreError::Moved(_)) if attempts == 0 => {
                return Err(ApiError::conflict(request.names(), &request.resource.name));
            }
            Err(StoreError::Moved(_)) => {}
        }
    }
}

/// Applies the patch in `body` to the current object; returns the result and warnings about the patch. `kind` is
/// `None` if the patched object is a subresource's own representation (Scale).
pub(crate) fn patched(
    names: &Names,
    kind: Option<&dyn Kind>,
    body: &[u8],
    patch_kind: PatchKind,
    old: &Object,
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), ApiError> {
    // Only strategic merge patches depend on the type.
    let is_custom = kind.is_some_and(|kind| kind.is_custom());
    let schema = if is_custom { OPEN_OBJECT } else { names.schema };
    let Some(ty) = types().named(schema) else {
        return Err(ApiError::internal(format!("no type {schema} is known")));
    };
    let document = versioned(names, old);
    let result = patch::apply(patch_kind, document, body, ty)?;
    let mut warnings = result.warnings;
    if validation == FieldValidation::Strict && !warnings.is_empty() {
        return Err(ApiError::bad_request(format!("strict decoding error: {}", warnings.join(", "))));
    }
    // Errors contain the result. Because errors are rare, the result is recomputed for them.
    let rejected = |why: &str| {
        let again = patch::apply(patch_kind, versioned(names, old), body, ty);
        let result = again.map(|result| result.document).unwrap_or_default();
        patch::unfit_result(patch_kind, &result, body, names.is_secret(), why)
    };
    if !result.document.is_object() {
        return Err(rejected("the patch does not leave an object"));
    }
    let conformed = match (patch_kind, kind) {
        (_, Some(kind)) if is_custom => {
            same_kind(names, &result.document).and_then(|()| conform_to(kind, without_type(result.document)))
        }
        (PatchKind::Strategic, _) => conform_merged(result.document, ty),
        (PatchKind::Json | PatchKind::Merge | PatchKind::Apply, _) => conform_patched(names, result.document),
    };
    let conformed = conformed.map_err(|why| rejected(&why))?;
    let duplicates = match patch_kind {
        PatchKind::Merge | PatchKind::Strategic => duplicate_fields(body),
        PatchKind::Json | PatchKind::Apply => Vec::new(),
    };
    let mut unknown: Vec<String> =
        duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    unknown.extend(conformed.unknown.iter().map(|path| format!("unknown field {path:?}")));
    match validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            return Err(rejected(&format!("strict decoding error: {}", unknown.join(", "))));
        }
        FieldValidation::Warn => warnings.extend(unknown),
        FieldValidation::Strict => {}
        FieldValidation::Ignore => warnings.clear(),
    }
    Ok((Object(conformed.object), warnings))
}

fn versioned(names: &Names, object: &Object) -> Value {
    let mut map = Map::new();
    map.insert("kind".to_owned(), names.kind.into());
    map.insert("apiVersion".to_owned(), names.api_version().into());
    map.extend(object.0.clone());
    Value::Object(map)
}

/// A patch must not change the kind of a custom object.
fn same_kind(names: &Names, document: &Value) -> Result<(), String> {
    if document["kind"] == names.kind && document["apiVersion"] == names.api_version() {
        return Ok(());
    }
    let kind = document["kind"].as_str().unwrap_or_default();
    Err(format!("{kind} in version {} cannot be handled as a {}", document["apiVersion"], names.kind))
}

fn without_type(mut document: Value) -> Value {
    if let Value::Object(map) = &mut document {
        map.remove("kind");
        map.remove("apiVersion");
    }
    document
}
