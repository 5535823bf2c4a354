//! Server-side apply: PATCH with `application/apply-patch+yaml`, on an item or its status. A missing object is
//! created.

use axum::response::Response;
use serde_json::{Map, Value};

use crate::authorization;
use crate::encode::answer::{self, Written};
use crate::encode::negotiate::RequestedEncoding;
use crate::encode::stored;
use crate::verbs::attempts::attempts;
use crate::verbs::create::create_tracked;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::update::{self, Change, check_name};
use crate::verbs::write::{self, Part, StoreError};
use orlop_api::object::{Object, show_time};
use orlop_api::status::ApiError;
use orlop_codec::decode::{FieldValidation, read_yaml};
use orlop_codec::managed_fields;

/// Applies the request body.
pub(crate) async fn apply(
    request: &Request,
    part: Part,
    wanted: RequestedEncoding,
) -> Result<Response, ApiError> {
    let options = WriteOptions::parse_apply(&request.query)?;
    let (config, duplicates) = read(&request.body)?;
    let attempts = attempts(request, &request.resource.name);
    for attempt in 1..=attempts {
        let mut warnings = Vec::new();
        let (code, result) = match once(request, part, &options, &config, &duplicates, &mut warnings).await {
            Ok((code, written)) => (code, Ok(written)),
            Err(StoreError::Moved(_)) if attempt < attempts => continue,
            Err(StoreError::Moved(_)) => {
                (409, Err(ApiError::conflict(request.names(), &request.resource.name)))
            }
            Err(StoreError::Api(error)) => (error.code, Err(error)),
        };
        let written = result.map_err(|error| error.with_warnings(&warnings))?;
        let (kind, query, now) = (request.kind_ref(), &request.query, request.now());
        return answer::written(kind, code, &written, wanted, &warnings, query, now);
    }
    Err(ApiError::conflict(request.names(), &request.resource.name))
}

/// Applies the configuration to the current object, and returns the status code.
async fn once(
    request: &Request,
    part: Part,
    options: &WriteOptions,
    config: &Map<String, Value>,
    duplicates: &[String],
    warnings: &mut Vec<String>,
) -> Result<(u16, Written), StoreError> {
    let kind = request.kind();
    let record = request.found(&request.head(), &request.resource.name)?;
    let live = record.as_ref().map(|record| stored::decode_as(kind, record)).transpose()?;
    if let Some(live) = &live {
        write::check_target(request, live)?;
    }
    let now = show_time(request.now());
    let writer = write::writer(request, &options.field_manager, &now);
    let mut object = managed_fields::apply(&writer, live.as_ref(), config.clone(), options.force)?;
    note_duplicates(options.validation, duplicates, warnings)?;
    if live.is_none() && !object.uid().is_empty() {
        let name = &request.resource.name;
        return Err(ApiError::no_such_uid(request.names(), name, object.uid()).into());
    }
    check_name(request, &object)?;
    write::settle_namespace(request, &mut object)?;
    write::strip_metadata(&mut object, warnings);
    let (Some(record), Some(old)) = (record, live) else {
        if part != Part::Main {
            return Err(ApiError::not_found(request.names(), &request.resource.name).into());
        }
        authorization::may_create(request).await?;
        return create(request, object, options.dry_run, warnings).await.map(|written| (201, written));
    };
    write::check_version(kind, &object, &old, true)?;
    let change = Change { part, old: &old, record: &record, manager: None, dry_run: options.dry_run };
    update::apply(request, object, change, warnings).await.map(|written| (200, written))
}

/// Creates a missing object. If another writer creates it first, the apply is retried on that object.
async fn create(
    request: &Request,
    mut object: Object,
    dry_run: bool,
    warnings: &mut Vec<String>,
) -> Result<Written, StoreError> {
    request.kind().defaults(&mut object);
    // The object does not exist yet, so no version can match.
    object.meta().remove("resourceVersion");
    create_tracked(request, object, dry_run, warnings).await.map_err(|error| match error.reason {
        "AlreadyExists" => StoreError::Moved(None),
        _ => StoreError::Api(error),
    })
}

/// Parses the document of the body; an empty body and `null` are empty documents.
pub(crate) fn read(body: &[u8]) -> Result<(Map<String, Value>, Vec<String>), ApiError> {
    let refuse = |why: &str| ApiError::bad_request(format!("error decoding YAML: {why}"));
    let (document, duplicates) =
        read_yaml(body).map_err(|why| refuse(&format!("error converting YAML to JSON: {why}")))?;
    let found = match document {
        Value::Object(map) => return Ok((map, duplicates)),
        Value::Null => return Ok((Map::new(), duplicates)),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Err(refuse(&format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type \
         map[string]interface {{}}"
    )))
}

/// Handles duplicate keys: the last one counts with a warning, or the request is rejected.
pub(crate) fn note_duplicates(
    validation: FieldValidation,
    duplicates: &[String],
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    match validation {
        FieldValidation::Strict if !duplicates.is_empty() => Err(ApiError::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
            duplicates.join("\n  ")
        ))),
        FieldValidation::Warn => {
            warnings.extend_from_slice(duplicates);
            Ok(())
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
    }
}
