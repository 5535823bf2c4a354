//! HTTP responses: one object, an error or a Status, with warnings, in the negotiated form.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use orlop_store::Record;
use serde_json::Value;

use crate::encode::negotiate::{Media, RequestedEncoding, Transform};
use crate::encode::table::{IncludeObject, Table, record_metadata, single_metadata};
use crate::encode::{pretty, shape, stored};
use crate::projection::Projection;
use crate::registry::KindRef;
use orlop_api::object::Object;
use orlop_api::query::Query;
use orlop_api::status::ApiError;
use orlop_auth::audit::ResponseStatus;

/// The result of a write.
pub(crate) enum Written {
    /// A record of the store.
    Record(Arc<Record<Projection>>),
    /// An object that is not (or no longer) in the store: a dry run, or the last step of a
    /// deletion.
    Object(Object),
}

/// Returns the response to a write.
pub(crate) fn written(
    kind: &KindRef,
    code: u16,
    written: &Written,
    wanted: RequestedEncoding,
    warnings: &[String],
    query: &Query,
    now: Timestamp,
) -> Result<Response, ApiError> {
    let mut response = match written {
        Written::Record(found) => record(kind, code, found, wanted, query, now)?,
        Written::Object(shown) => object(kind, code, shown.clone(), wanted, query, now)?,
    };
    add_warnings(response.headers_mut(), warnings);
    Ok(response)
}

/// Returns one record: a copy of its bytes, unless another form is negotiated.
pub(crate) fn record(
    kind: &KindRef,
    code: u16,
    found: &Record<Projection>,
    wanted: RequestedEncoding,
    query: &Query,
    now: Timestamp,
) -> Result<Response, ApiError> {
    if let Transform::Table(version) = wanted.transform {
        stored::readable(found)?;
        let table = Table::new(kind.clone(), version, IncludeObject::parse(query)?, now);
        let record = stored::at(found, found.mod_revision);
        let value = table.build_stored(record_metadata(record.revision), [record], true);
        return value_answer(code, wanted, &value);
    }
    if wanted.transform != Transform::Object || wanted.media != Media::Json {
        return object(kind, code, stored::decode_as(&**kind, found)?, wanted, query, now);
    }
    let mut out = Vec::with_capacity(found.value.len() + 128);
    stored::write_object(&mut out, &**kind, found, found.mod_revision)?;
    Ok(json_bytes(code, wanted, out))
}

/// Returns one object in the negotiated form.
pub(crate) fn object(
    kind: &KindRef,
    code: u16,
    shown: Object,
    wanted: RequestedEncoding,
    query: &Query,
    now: Timestamp,
) -> Result<Response, ApiError> {
    let value = match wanted.transform {
        Transform::Object => shape::with_kind(&**kind, shown),
        Transform::Metadata(version) => shape::metadata_only(&**kind, version, &shown),
        Transform::MetadataList(_) => return Err(shape::not_a_list(&**kind)),
        Transform::Table(version) => {
            let table = Table::new(kind.clone(), version, IncludeObject::parse(query)?, now);
            table.build(single_metadata(&shown), vec![shown], true)
        }
    };
    value_answer(code, wanted, &value)
}

/// Returns any JSON value in the negotiated form.
pub(crate) fn value_answer(
    code: u16,
    wanted: RequestedEncoding,
    value: &Value,
) -> Result<Response, ApiError> {
    match wanted.media {
        Media::Json => Ok(json_bytes(code, wanted, value.to_string().into_bytes())),
        Media::Yaml => Ok(body(code, wanted.content_type(), yaml(value)?)),
        Media::Protobuf => {
            let bytes = crate::encode::protobuf::encode(value).map_err(ApiError::not_acceptable)?;
            Ok(body(code, wanted.content_type(), bytes))
        }
    }
}

/// Returns JSON text in the negotiated layout.
pub(crate) fn json_bytes(code: u16, wanted: RequestedEncoding, mut json: Vec<u8>) -> Response {
    if wanted.pretty {
        json = pretty::indent(&json);
    } else {
        json.push(b'\n');
    }
    body(code, "application/json", json)
}

fn yaml(value: &Value) -> Result<Vec<u8>, ApiError> {
    serde_saphyr::to_string(value).map(String::into_bytes).map_err(ApiError::internal)
}

/// The error of a response, in its extensions, for the audit log.
#[derive(Clone)]
pub(crate) struct AnsweredError(pub(crate) Box<ResponseStatus>);

/// Returns an error response.
pub(crate) fn error(error: &ApiError, media: Media, pretty: bool) -> Response {
    let status = error.to_status();
    let wanted = RequestedEncoding { media, pretty, ..RequestedEncoding::JSON };
    let mut response = value_answer(error.code, wanted, &status)
        .unwrap_or_else(|_| json_bytes(error.code, RequestedEncoding::JSON, status.to_string().into_bytes()));
    add_warnings(response.headers_mut(), &error.warnings);
    response.extensions_mut().insert(AnsweredError(Box::new(ResponseStatus::of_error(error))));
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Returns a plain-text response, as for health checks and unknown paths.
pub(crate) fn text(code: u16, text: impl Into<Vec<u8>>) -> Response {
    let mut response = body(code, "text/plain; charset=utf-8", text.into());
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns a response with bytes of a content type.
pub(crate) fn body(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(bytes.into()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Maximum total length of all warnings before they are truncated, characters.
const WARNINGS_BUDGET: usize = 4096;
const WARNING_CUT: usize = 256;

/// Adds one `Warning` header per distinct text, within upstream's budget.
pub(crate) fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let mut seen = HashSet::new();
    let texts: Vec<&String> = warnings.iter().filter(|warning| seen.insert(*warning)).collect();
    let total: usize = texts.iter().map(|text| text.chars().count()).sum();
    let mut left = WARNINGS_BUDGET;
    for text in texts {
        let text: String =
            if total > WARNINGS_BUDGET { text.chars().take(WARNING_CUT).collect() } else { text.clone() };
        let length = text.chars().count();
        if length > left {
            return;
        }
        left -= length;
        let escaped: String = text
            .chars()
            .filter(|c| !c.is_control())
            .flat_map(|c| match c {
                '"' | '\\' => vec!['\\', c],
                c => vec![c],
            })
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}
