//! Responses with lists of objects.
//!
//! JSON lists are written in pieces, so that the memory of a list does not depend on its length. YAML and protobuf lists are in
//! memory as a whole, which is reserved.

use std::io::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, header};
use jiff::Timestamp;
use orlop_codec::encode::pretty::Indenter;
use orlop_store::{MemoryBudget, Record, Snapshot};
use serde_json::{Map, Value};

use crate::encode::negotiate::{Media, RequestedEncoding, Transform};
use crate::encode::table::{IncludeObject, Table};
use crate::encode::{
    COMPRESS_ABOVE, ComputedBody, HeldMemory, LongBody, PieceMemory, answer, protobuf, shape, stored,
};
use crate::exchange::out_of_memory;
use crate::limits::decoded::value_memory;
use crate::limits::old_states::OldState;
use crate::projection::Projection;
use crate::registry::KindRef;
use orlop_api::object::Object;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// The records and the metadata of a list.
pub(crate) struct Listed {
    records: Vec<Arc<Record<Projection>>>,
    /// The sizes of the records together, and the largest one, bytes.
    bytes: usize,
    longest: usize,
    /// The state that the records belong to. It holds the memory of old records.
    pub(crate) snapshot: Snapshot<Projection>,
    /// Counts the memory of old records, if the list is sent in pieces.
    pub(crate) old_state: Option<OldState>,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<u64>,
}

impl Listed {
    /// A list without records, of this state.
    pub(crate) fn new(snapshot: Snapshot<Projection>) -> Self {
        let (records, bytes, longest) = (Vec::new(), 0, 0);
        Listed { records, bytes, longest, snapshot, old_state: None, continue_token: None, remaining: None }
    }

    /// Adds a record at the end.
    pub(crate) fn push(&mut self, record: &Arc<Record<Projection>>) {
        self.bytes += record.value.len();
        self.longest = self.longest.max(record.value.len());
        self.records.push(record.clone());
    }

    /// The records.
    pub(crate) fn records(&self) -> &[Arc<Record<Projection>>] {
        &self.records
    }

    /// The sizes of the records together, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), self.snapshot.revision().to_string().into());
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), token.clone().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".to_owned(), remaining.into());
        }
        metadata
    }

    /// Whether the list is so long that it is sent in pieces, if it is JSON.
    pub(crate) fn is_sent_in_pieces(&self) -> bool {
        self.size() > PIECE
    }

    /// Reserves the memory of two pieces with the largest object: one is in the buffer of the connection, and one is computed. Small
    /// objects need no memory, because the number of permits bounds it.
    fn reserve_pieces(&self, memory: &Arc<MemoryBudget>) -> Result<Option<PieceMemory>, ApiError> {
        // A list with such an object is sent in pieces.
        if self.longest <= PIECE {
            return Ok(None);
        }
        let needed = 2 * self.longest as u64;
        // Every object that is stored can be listed.
        let needed = memory.limit().map_or(needed, |limit| needed.min(limit / 4));
        let reserved = memory.reserve(needed).map_err(out_of_memory)?;
        Ok(Some(PieceMemory(Arc::new(reserved))))
    }

    /// The approximate length of the list as text, bytes.
    fn size(&self) -> usize {
        self.bytes + 40 * self.records.len()
    }
}

/// Lists above this size are sent in pieces of this size, bytes.
const PIECE: usize = 64 * 1024;
/// The pieces that a connection copies before it lets others continue: about 1 ms. A connection that does so often continues on
/// another processor, which takes longer than a piece.
const PIECES_AT_ONCE: usize = 16;
/// The memory of a piece, bytes: the last item exceeds the size, and would double the memory if it did not fit.
const PIECE_MEMORY: usize = PIECE + PIECE / 4;
/// The memory of a byte of a stored object in protobuf, which is copied once, bytes.
const AS_PROTOBUF: usize = 2;

/// Returns the response to a list request.
pub(crate) fn answer(
    kind: &KindRef,
    listed: Listed,
    wanted: RequestedEncoding,
    query: &Query,
    now: Timestamp,
    memory: &Arc<MemoryBudget>,
) -> Result<Response, ApiError> {
    let form = ListForm::of(kind, wanted, query, now)?;
    let list = List { kind: kind.clone(), listed, form };
    let needed = match wanted.media {
        Media::Json => {
            let pieces = list.listed.reserve_pieces(memory)?;
            let mut response = list.into_json(wanted);
            if let Some(pieces) = pieces {
                response.extensions_mut().insert(pieces);
            }
            return Ok(response);
        }
        Media::Yaml => list.listed.records.iter().map(|record| value_memory(&record.value)).sum(),
        Media::Protobuf => (list.listed.size() * AS_PROTOBUF) as u64,
    };
    let mut reserved = memory.reserve(needed).map_err(|error| match error.is_permanent() {
        true => {
            ApiError::bad_request("the list is too large for this format; use limit= or application/json")
        }
        false => out_of_memory(error),
    })?;
    let mut response = list.into_whole(wanted)?;
    // Smaller than before, except for an indented one.
    let _ = reserved.resize(http_body::Body::size_hint(response.body()).lower().min(needed));
    response.extensions_mut().insert(HeldMemory(Arc::new(reserved)));
    Ok(response)
}

/// Returns the response to a list request for objects that are not in the store.
pub(crate) fn answer_objects(
    kind: &KindRef,
    objects: Vec<Object>,
    wanted: RequestedEncoding,
    query: &Query,
    now: Timestamp,
) -> Result<Response, ApiError> {
    ListForm::of(kind, wanted, query, now)?.into_whole(kind, Map::new(), objects.into_iter(), wanted)
}

/// The form of the items.
enum ListForm {
    /// The objects themselves.
    Objects,
    /// Their metadata, in a version of meta.k8s.io.
    Metadata(&'static str),
    /// The rows of a table.
    Table(Table),
}

impl ListForm {
    fn of(
        kind: &KindRef,
        wanted: RequestedEncoding,
        query: &Query,
        now: Timestamp,
    ) -> Result<Self, ApiError> {
        Ok(match wanted.transform {
            Transform::Object => ListForm::Objects,
            Transform::Metadata(_) => return Err(shape::is_a_list(&**kind)),
            Transform::MetadataList(version) => ListForm::Metadata(version),
            Transform::Table(version) => {
                ListForm::Table(Table::new(kind.clone(), version, IncludeObject::parse(query)?, now))
            }
        })
    }

    /// The kind and the API version of the list.
    fn names(&self, kind: &KindRef) -> (String, String) {
        match self {
            ListForm::Objects => (kind.list_kind().to_owned(), kind.names().api_version().to_owned()),
            ListForm::Metadata(version) => {
                ("PartialObjectMetadataList".to_owned(), format!("meta.k8s.io/{version}"))
            }
            ListForm::Table(_) => ("Table".to_owned(), String::new()),
        }
    }

    /// A list that is in memory as a whole.
    fn into_whole(
        self,
        kind: &KindRef,
        metadata: Map<String, Value>,
        objects: impl Iterator<Item = Object>,
        wanted: RequestedEncoding,
    ) -> Result<Response, ApiError> {
        let (list_kind, api_version) = self.names(kind);
        let items: Box<dyn Iterator<Item = Value>> = match &self {
            // Items of custom kinds include kind and apiVersion.
            ListForm::Objects if kind.is_custom() => {
                Box::new(objects.map(|object| shape::with_kind(&**kind, object)))
            }
            ListForm::Objects => Box::new(objects.map(|object| object.into_value())),
            ListForm::Metadata(version) => {
                Box::new(objects.map(|object| shape::metadata_only(&**kind, version, &object)))
            }
            ListForm::Table(table) => {
                return answer::value_answer(200, wanted, &table.build(metadata, objects.collect(), true));
            }
        };
        if wanted.media == Media::Protobuf {
            let bytes = protobuf::encode_list(&api_version, &list_kind, &metadata, items);
            return Ok(answer::body(200, wanted.content_type(), bytes.map_err(ApiError::not_acceptable)?));
        }
        let mut list = Map::new();
        list.insert("kind".to_owned(), list_kind.into());
        list.insert("apiVersion".to_owned(), api_version.into());
        list.insert("metadata".to_owned(), metadata.into());
        list.insert("items".to_owned(), items.collect());
        answer::value_answer(200, wanted, &Value::Object(list))
    }
}

/// A list to be written.
struct List {
    kind: KindRef,
    listed: Listed,
    form: ListForm,
}

impl List {
    fn metadata(&self) -> Map<String, Value> {
        let mut metadata = self.listed.metadata();
        // Upstream's lists of custom resources always have the token.
        if self.kind.is_custom() && matches!(self.form, ListForm::Objects) {
            metadata.entry("continue").or_insert_with(|| "".into());
        }
        metadata
    }

    /// The response in JSON: whole if it is short, otherwise in pieces.
    fn into_json(self, wanted: RequestedEncoding) -> Response {
        let records = &self.listed.records;
        if let (ListForm::Table(table), true) = (&self.form, records.is_empty()) {
            return answer::json_bytes(200, wanted, table.bytes(self.listed.metadata(), [], true));
        }
        let size = self.listed.size();
        let mut head = self.head();
        let decodes = self.kind.is_custom() || self.kind.is_view();
        let is_copied = !wanted.pretty && !decodes && matches!(self.form, ListForm::Objects);
        if !self.listed.is_sent_in_pieces() {
            let all = self.fill(&mut head, 0, usize::MAX);
            debug_assert!(all > records.len(), "the list is closed");
            return answer::json_bytes(200, wanted, head);
        }
        let mut indenter = wanted.pretty.then(Indenter::default);
        let pieces = stream::unfold((Some(head), 0, 0), move |(piece, at, mut count)| {
            let piece = piece.map(|mut out| {
                let next = self.fill(&mut out, at, PIECE);
                let is_last = next > self.listed.records.len();
                match &mut indenter {
                    Some(indenter) => {
                        let mut indented = Vec::with_capacity(out.len() * 2);
                        indenter.push(&out, &mut indented);
                        out = indented;
                    }
                    None if is_last => out.push(b'\n'),
                    None => {}
                }
                (out, (!is_last).then(|| Vec::with_capacity(PIECE_MEMORY)), next)
            });
            async move {
                let (out, rest, next) = piece?;
                // The pieces of another list, and other requests, come next on this thread. The connection sends what it has so far.
                count += 1;
                if is_copied && count % PIECES_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
                Some((Ok::<_, std::convert::Infallible>(Bytes::from(out)), (rest, next, count)))
            }
        });
        // Fused, because the compression polls the stream once more after its end.
        let mut response = Response::new(Body::from_stream(pieces.fuse()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if size > COMPRESS_ABOVE {
            response.extensions_mut().insert(LongBody);
        }
        if !is_copied {
            response.extensions_mut().insert(ComputedBody);
        }
        response
    }

    /// The text before the first item.
    fn head(&self) -> Vec<u8> {
        if let ListForm::Table(table) = &self.form {
            return table.head(self.listed.metadata());
        }
        let (kind, api_version) = self.form.names(&self.kind);
        let metadata = Value::Object(self.metadata());
        let mut head = Vec::with_capacity(PIECE_MEMORY);
        // Writing into memory cannot fail.
        let _ = write!(
            head,
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        );
        head
    }

    /// Appends items from `at` on until the text has `most` bytes. After the last item, the list is closed, and the next
    /// position is past the end.
    fn fill(&self, out: &mut Vec<u8>, mut at: usize, most: usize) -> usize {
        while let Some(record) = self.listed.records.get(at) {
            if at > 0 {
                out.push(b',');
            }
            match &self.form {
                ListForm::Objects => stored::write_item(out, &*self.kind, record),
                ListForm::Metadata(version) => {
                    stored::write_metadata(out, &*self.kind, version, record, record.mod_revision);
                }
                ListForm::Table(table) => table.write_row(out, stored::at(record, record.mod_revision)),
            }
            at += 1;
            if out.len() >= most {
                return at;
            }
        }
        out.extend_from_slice(b"]}");
        self.listed.records.len() + 1
    }

    /// The response in YAML or protobuf.
    fn into_whole(self, wanted: RequestedEncoding) -> Result<Response, ApiError> {
        let metadata = self.metadata();
        self.listed.records.iter().try_for_each(|record| stored::readable(record))?;
        // All are readable.
        if let ListForm::Table(table) = &self.form {
            let records = self.listed.records.iter().map(|record| stored::at(record, record.mod_revision));
            return answer::value_answer(200, wanted, &table.build_stored(metadata, records, true));
        }
        let objects =
            self.listed.records.iter().filter_map(|record| stored::decode_as(&*self.kind, record).ok());
        self.form.into_whole(&self.kind, metadata, objects, wanted)
    }
}
