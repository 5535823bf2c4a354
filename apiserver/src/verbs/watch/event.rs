//! Conversion of store events to lines of a watch.

use jiff::Timestamp;
use orlop_openapi::types;
use orlop_store::{Event, Record, Revision};
use serde_json::{Map, Value, json};

use crate::encode::negotiate::Media;
use crate::encode::table::{Table, record_metadata};
use crate::encode::{shape, stored};
use crate::projection::Projection;
use crate::registry::KindRef;
use crate::verbs::filter::Filter;
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_codec::decode::zero_object;

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl Type {
    fn text(self) -> &'static str {
        match self {
            Type::Added => "ADDED",
            Type::Modified => "MODIFIED",
            Type::Deleted => "DELETED",
            Type::Bookmark => "BOOKMARK",
            Type::Error => "ERROR",
        }
    }
}

/// The event as a watcher sees it: none, or a type with the record and the revision to send. An object that stops
/// matching is sent as deleted with its previous state; an object that starts matching is sent as added.
pub(super) fn seen<'e>(
    filter: &Filter,
    event: &'e Event<Projection>,
) -> Option<(Type, &'e Record<Projection>, Revision)> {
    let new = event.record.as_deref().filter(|record| filter.matches(record));
    let old = event.prev.as_deref().filter(|record| filter.matches(record));
    match (old, new) {
        (Some(_), Some(new)) => Some((Type::Modified, new, event.revision)),
        (None, Some(new)) => Some((Type::Added, new, event.revision)),
        (Some(old), None) => Some((Type::Deleted, old, event.revision)),
        (None, None) => None,
    }
}

/// The representation of objects.
pub(super) enum Framing {
    Object,
    Metadata(&'static str),
    Table(Table),
}

/// The bytes of an event around its object.
const AROUND: usize = 512;

/// Writes events in the negotiated format.
pub(super) struct Writer {
    kind: KindRef,
    media: Media,
    framing: Framing,
    /// The columns of a table are sent once.
    columns_told: bool,
}

impl Writer {
    pub(super) fn new(kind: KindRef, media: Media, framing: Framing) -> Self {
        Writer { kind, media, framing, columns_told: false }
    }

    /// Computes ages in tables at the time of each event, with this clock.
    pub(super) fn timed(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        if let Framing::Table(table) = &mut self.framing {
            table.set_clock(clock);
        }
        self
    }

    /// Whether an event decodes its object. Other events copy bytes.
    pub(super) fn decodes(&self) -> bool {
        let copies = matches!((&self.framing, self.media), (Framing::Object, Media::Json));
        !copies || self.kind.is_custom()
    }

    /// Appends the event of a record.
    ///
    /// # Errors
    /// The value of the record is unreadable; nothing is appended. The stream cannot continue, because its client would miss the object.
    pub(super) fn record(
        &mut self,
        out: &mut Vec<u8>,
        ty: Type,
        record: &Record<Projection>,
        revision: Revision,
    ) -> Result<(), ApiError> {
        stored::readable(record)?;
        if let (Framing::Object, Media::Json) = (&self.framing, self.media) {
            // Exactly: a large object must not cost twice its size.
            out.reserve(record.value.len() + AROUND);
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(ty.text().as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            stored::write_object(out, &*self.kind, record, revision)?;
            out.extend_from_slice(b"}\n");
            return Ok(());
        }
        if let (Framing::Metadata(version), Media::Json) = (&self.framing, self.media) {
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(ty.text().as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            stored::write_metadata(out, &*self.kind, version, record, revision);
            out.extend_from_slice(b"}\n");
            return Ok(());
        }
        let shown = || -> Result<Object, ApiError> {
            let mut object = stored::decode_as(&*self.kind, record)?;
            object.set(&["metadata", "resourceVersion"], revision.to_string());
            Ok(object)
        };
        let value = match &self.framing {
            Framing::Object => shape::with_kind(&*self.kind, shown()?),
            Framing::Metadata(version) => shape::metadata_only(&*self.kind, version, &shown()?),
            Framing::Table(table) => {
                let columns = !std::mem::replace(&mut self.columns_told, true);
                let (metadata, record) = (record_metadata(revision.0), stored::at(record, revision));
                if self.media == Media::Json {
                    out.extend_from_slice(b"{\"type\":\"");
                    out.extend_from_slice(ty.text().as_bytes());
                    out.extend_from_slice(b"\",\"object\":");
                    out.extend_from_slice(&table.bytes(metadata, [record], columns));
                    out.extend_from_slice(b"}\n");
                    return Ok(());
                }
                table.build_stored(metadata, [record], columns)
            }
        };
        self.value(out, ty, value);
        Ok(())
    }

    /// Appends a bookmark; `initial_end` marks the end of the initial events.
    pub(super) fn bookmark(&mut self, out: &mut Vec<u8>, revision: Revision, initial_end: bool) {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
        if initial_end {
            metadata.insert("annotations".to_owned(), json!({"k8s.io/initial-events-end": "true"}));
        }
        let value = match &self.framing {
            Framing::Object => shape::with_kind(&*self.kind, self.without_content(metadata)),
            Framing::Metadata(version) => json!({
                "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": metadata,
            }),
            Framing::Table(table) => {
                let columns = !std::mem::replace(&mut self.columns_told, true);
                table.build_bookmark(self.without_content(metadata), initial_end, columns)
            }
        };
        self.value(out, Type::Bookmark, value);
    }

    /// The object of a bookmark: only the members that are always written.
    fn without_content(&self, metadata: Map<String, Value>) -> Object {
        let zero = types().named(self.kind.names().schema).map(zero_object).unwrap_or_default();
        let mut object = Object::from_value(zero);
        object.set(&["metadata"], Value::Object(metadata));
        object
    }

    /// Appends the error that ends the stream.
    pub(super) fn error(&self, out: &mut Vec<u8>, error: &ApiError) {
        self.value(out, Type::Error, error.to_status());
    }

    fn value(&self, out: &mut Vec<u8>, ty: Type, value: Value) {
        if self.media == Media::Protobuf
            && let Ok(frame) = crate::encode::protobuf::encode_event(ty.text(), &value)
        {
            out.extend_from_slice(&frame);
            return;
        }
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(ty.text().as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        // Writing JSON into memory cannot fail.
        let _ = serde_json::to_writer(&mut *out, &value);
        out.extend_from_slice(b"}\n");
    }
}
