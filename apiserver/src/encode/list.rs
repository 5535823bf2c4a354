//! Responses with lists of objects.

use std::io::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, header};
use jiff::Timestamp;
use orlop_store::{Record, Revision};
use serde_json::{Map, Value, json};

use crate::encode::negotiate::{Media, RequestedEncoding, Transform};
use crate::encode::table::{IncludeObject, Table};
use crate::encode::{COMPRESS_ABOVE, LongBody, answer, shape, stored};
use crate::projection::Projection;
use crate::registry::{Kind, KindRef};
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// The records and the metadata of a list.
pub(crate) struct Listed {
    pub(crate) records: Vec<Arc<Record<Projection>>>,
    pub(crate) revision: Revision,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<u64>,
}

impl Listed {
    fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), self.revision.to_string().into());
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), token.clone().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".to_owned(), remaining.into());
        }
        metadata
    }
}

/// Bodies above this size are sent in pieces, so that a long list is never in memory twice.
const PIECE: usize = 64 * 1024;

/// Returns the response to a list request.
pub(crate) fn answer(
    kind: &KindRef,
    listed: Listed,
    wanted: RequestedEncoding,
    query: &Query,
    now: Timestamp,
) -> Result<Response, ApiError> {
    let value = match (wanted.transform, wanted.media) {
        (Transform::Object, Media::Json) => return Ok(copied(kind, listed, wanted)),
        (Transform::Object, Media::Yaml | Media::Protobuf) => {
            let names = kind.names();
            let items: Vec<Value> = listed.records.iter().map(|record| item(&**kind, record)).collect();
            json!({
                "kind": kind.list_kind(), "apiVersion": names.api_version(),
                "metadata": listed.metadata(), "items": items,
            })
        }
        (Transform::Metadata(_), _) => return Err(shape::is_a_list(&**kind)),
        (Transform::MetadataList(version), _) => {
            let items: Vec<Value> = listed
                .records
                .iter()
                .map(|record| shape::metadata_only(version, &stored::decode_as(&**kind, record)))
                .collect();
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": listed.metadata(), "items": items,
            })
        }
        (Transform::Table(version), _) => {
            let table = Table::new(kind.clone(), version, IncludeObject::parse(query)?, now);
            if wanted.media == Media::Json {
                let records = listed.records.iter().map(|record| stored::at(record, record.mod_revision));
                return Ok(answer::json_bytes(200, wanted, table.bytes(listed.metadata(), records, true)));
            }
            let objects = listed.records.iter().map(|record| stored::decode_as(&**kind, record)).collect();
            table.build(listed.metadata(), objects, true)
        }
    };
    answer::value_answer(200, wanted, &value)
}

/// Returns an item that is not a copy of stored bytes. Items of custom kinds include kind and apiVersion.
fn item(kind: &dyn Kind, record: &Record<Projection>) -> Value {
    let object = stored::decode_as(kind, record);
    if kind.is_custom() { shape::with_kind(kind, object) } else { object.into_value() }
}

/// Returns the list as copies of stored bytes.
fn copied(kind: &KindRef, listed: Listed, wanted: RequestedEncoding) -> Response {
    let names = kind.names();
    let mut head = Vec::with_capacity(PIECE);
    let metadata = Value::Object(listed.metadata());
    let _ = write!(
        head,
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.list_kind(),
        names.api_version()
    );
    let size: usize = listed.records.iter().map(|record| record.value.len() + 40).sum();
    if size <= PIECE || wanted.pretty {
        for (at, record) in listed.records.iter().enumerate() {
            if at > 0 {
                head.push(b',');
            }
            stored::write_item(&mut head, &**kind, record);
        }
        head.extend_from_slice(b"]}");
        return answer::json_bytes(200, wanted, head);
    }
    let records = listed.records;
    let kind = kind.clone();
    let pieces = stream::unfold((Some(head), 0usize), move |(piece, at)| {
        let piece = piece.map(|out| fill(&*kind, &records, out, at));
        std::future::ready(piece.map(|(out, next)| {
            let rest = (next <= records.len()).then(|| Vec::with_capacity(PIECE));
            (Ok::<_, std::convert::Infallible>(Bytes::from(out)), (rest, next))
        }))
    });
    // Fused, because the compression polls the stream once more after its end.
    let mut response = Response::new(Body::from_stream(pieces.fuse()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if size > COMPRESS_ABOVE {
        response.extensions_mut().insert(LongBody);
    }
    response
}

/// Appends items from `at` on until the piece is full. After the last item, the list is closed, and the next
/// position is past the end.
fn fill(
    kind: &dyn Kind,
    records: &[Arc<Record<Projection>>],
    mut out: Vec<u8>,
    mut at: usize,
) -> (Vec<u8>, usize) {
    while let Some(record) = records.get(at) {
        if at > 0 {
            out.push(b',');
        }
        stored::write_item(&mut out, kind, record);
        at += 1;
        if out.len() >= PIECE {
            return (out, at);
        }
    }
    out.extend_from_slice(b"]}\n");
    (out, records.len() + 1)
}
